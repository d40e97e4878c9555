"""How much of a data set is resident, by shards and chunks; and of those that nobody reads, as it was."""

from __future__ import annotations

import tracemalloc

import numpy as np

from tests.support.digests import numbered_digest
from tfquiver.service.coordinator.chunk_rotation.board import Board
from tfquiver.service.coordinator.dataset_caching.resident_share import MOST_REMEMBERED, LastShares, ResidentShare
from tfquiver.service.coordinator.resident_shards.table import Table

DATA = numbered_digest(20, "data")


def test_bytes_and_shards_and_whole_chunks() -> None:
    table = Table(DATA)
    assert ResidentShare.of(table, None) == ResidentShare(0, int(DATA.lengths.sum()), 0, 0, 0)
    table.set(np.arange(5, dtype=np.uint32), 1)
    board = Board([10, 10, 10], 30)
    board.shard_resident(0, 10)
    board.shard_resident(1, 9)
    there = int(DATA.lengths[:5].sum())
    assert ResidentShare.of(table, board) == ResidentShare(there, int(DATA.lengths.sum()), 5, 3, 1)


def test_how_much_is_resident_is_known_without_a_look_at_each_shard() -> None:
    """Of five million shards that took 25 ms of the loop, for each list and each plan."""
    table = Table(numbered_digest(50_000))
    table.set(np.arange(0, 50_000, 2, dtype=np.uint32), 1)
    assert ResidentShare.of(table, None).resident_shards == 25_000
    tracemalloc.start()
    ResidentShare.of(table, None)
    _, most_bytes = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert most_bytes < 10_000


def test_what_was_is_told_with_its_age_and_bounded() -> None:
    last, share = LastShares(), ResidentShare(1, 2, 1, 0, 0)
    for number in range(MOST_REMEMBERED + 10):
        last.remember(number.to_bytes(4, "big"), share, float(number))
    assert last.find((9).to_bytes(4, "big"), 0.0) is None
    newest = (MOST_REMEMBERED + 9).to_bytes(4, "big")
    found = last.find(newest, MOST_REMEMBERED + 12.0)
    assert found is not None
    assert found.age_s == 3.0
    back = last.find(newest, 0.0)
    assert back is not None
    assert back.age_s > 0, "a clock that jumps back makes nothing of it a thing of now"
    last.forget(newest)
    last.forget(newest)
    assert last.find(newest, 0.0) is None
