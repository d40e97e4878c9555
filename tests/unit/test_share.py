"""A share of an epoch: which shards it has, and the position before its first record."""

from __future__ import annotations

import zlib

import google_crc32c
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tfquiver import errors
from tfquiver.reader.share import Share, beginning, order_seed
from tfquiver.service.coordinator.samplers_and_orders_of_an_epochs_shards import block_order


def shards_of(share: Share, shards: int) -> list[int]:
    others = np.unpackbits(np.frombuffer(share.others(shards), np.uint8), bitorder="little")
    assert len(others) == -(-shards // 8) * 8
    assert not others[shards:].any(), "bits of no shard are zero, as everywhere"
    return [int(shard) for shard in np.flatnonzero(others[:shards] == 0)]


@given(st.integers(1, 40), st.integers(1, 5), st.integers(1, 5))
def test_shares_of_shares_are_everything_once(shards: int, processes: int, workers: int) -> None:
    found = [
        shards_of(Share(process, processes).every(worker, workers), shards)
        for process in range(processes)
        for worker in range(workers)
    ]
    assert sorted(shard for share in found for shard in share) == list(range(shards))
    assert max(map(len, found)) - min(map(len, found)) <= 1


@pytest.mark.parametrize(("reader", "readers"), [(2, 2), (-1, 2), (0, 0)])
def test_there_is_no_such_share(reader: int, readers: int) -> None:
    with pytest.raises(errors.InvalidArgumentError, match=f"reader {reader} of {readers}"):
        Share(reader, readers)
    with pytest.raises(errors.InvalidArgumentError, match=f"reader {reader} of {readers}"):
        Share(1, 3).every(reader, readers)


@given(st.integers(0, (1 << 63) - 1), st.integers(0, 1 << 40))
def test_the_order_is_the_coordinators(seed: int, epoch: int) -> None:
    assert order_seed(seed, epoch) == block_order.order_seed(seed, epoch)


def test_the_text_is_that_of_a_checkpoint() -> None:
    text = beginning(Share(1, 2), b"d" * 32, 11, 7, 3, True)
    done = zlib.compress(bytes([0b01010101, 0b101]), 1)
    wanted = b"TQIT\x02\x06" + b"d" * 32
    wanted += order_seed(7, 3).to_bytes(8, "little") + (3).to_bytes(8, "little") + (11).to_bytes(8, "little")
    wanted += len(done).to_bytes(4, "little") + done + bytes(4)
    assert text == wanted + google_crc32c.value(wanted).to_bytes(4, "little")
