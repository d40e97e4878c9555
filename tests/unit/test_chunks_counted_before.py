"""A rotation that begins with what was counted a while ago sees what has changed since, and counts nothing else."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tfquiver.clock import ManualClock
from tfquiver.proto.tfquiver.v1 import types_pb2
from tfquiver.service.coordinator.chunk_rotation.chunk_cache import ChunkCache
from tfquiver.service.coordinator.chunk_rotation.rotations import ChunkPlan, Rotations

SHARDS = 60
LENGTHS = np.arange(1000, 1000 + SHARDS, dtype=np.uint64)
masks = st.lists(st.integers(0, 1), min_size=SHARDS, max_size=SHARDS)


def plan() -> ChunkPlan:
    setting = types_pb2.CacheSetting(
        mode=types_pb2.CACHE_MODE_COOPERATIVE, chunks=6, partitions=2, allocation_bytes=1 << 30
    )
    return ChunkPlan(LENGTHS, np.arange(SHARDS, dtype=np.uint64), 1, setting)


def begun(made: ChunkPlan, resident: bytearray) -> list[int]:
    """Bytes of each chunk that are resident, as its board has them."""
    rotations = Rotations(ManualClock(), 60.0, lambda _: None)
    rotations.start(b"d", made, resident)
    board = rotations.board(b"d")
    assert board
    return list(board.resident)


@given(masks, masks)
def test_it_begins_with_what_is_there_now(before: list[int], now: list[int]) -> None:
    made = plan()
    made.count(bytearray(before))
    assert begun(made, bytearray(now)) == begun(plan(), bytearray(now))
    assert made.take_counted() is None, "it is a byte a shard, and of no use any more"


def test_only_what_has_changed_is_counted_on_the_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    counted, count = list[int](), ChunkCache._count

    def noted(self: ChunkCache, numbers: npt.NDArray[np.int64]) -> None:
        counted.extend(numbers.tolist())
        count(self, numbers)

    monkeypatch.setattr(ChunkCache, "_count", noted)
    made, resident = plan(), bytearray([1] * SHARDS)
    made.count(resident)
    resident[7] = 0
    begun(made, resident)
    assert counted == [7]
