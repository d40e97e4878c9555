"""The order of a deterministic session: a function of data set, order seed and block size alone. Pure.

The shards in a seeded permutation, or as they are stored, cut into blocks of about `block_bytes`. Whoever reads a
block emits its records in an order that the op makes of the order seed and the block's place: merged by their
positions, the records of any number of readers are one sequence.
"""

from __future__ import annotations

import math
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from tfquiver import errors
from tfquiver.service.coordinator.samplers_and_orders_of_an_epochs_shards.sampler import Place
from tfquiver.service.coordinator.samplers_and_orders_of_an_epochs_shards.slots import Slots

MAX_BLOCK_SHARDS = 1024  # so that a block fits one reply
_LOOKED_AT_FIRST, _LOOKED_AT_MOST = 64, 1 << 18  # shards at a time
_GOLDEN = 0x9E3779B97F4A7C15
_MASK = (1 << 64) - 1
_MOST_EPOCHS = 1 << 20


def order_seed(seed: int, epoch: int) -> int:
    """Of an epoch's order; never 0.

    The op makes the same number (ops/core/reader_and_its_conversation_with_the_node/reader.cc).
    """
    return int(mixed(np.array([(seed + epoch * _GOLDEN) & _MASK], np.uint64))[0]) or 1


def epoch_of(seed: int, of_epoch: int) -> int:
    """The epoch that has this order seed. Raises InvalidArgumentError: none of the first 2**20 has."""
    epochs = np.arange(_MOST_EPOCHS, dtype=np.uint64)
    with np.errstate(over="ignore"):
        seeds = mixed(np.uint64(seed & _MASK) + epochs * np.uint64(_GOLDEN))
    found = np.flatnonzero(seeds == np.uint64(of_epoch & _MASK))
    if not len(found):
        raise errors.InvalidArgumentError(f"order_seed: not that of an epoch of seed {seed}: give the seed that it had")
    return int(found[0])


class BlockOrder:
    """`shards`, in order; block b is those from `first[b]` to `first[b + 1]`. 12 bytes a shard, and 12 a block.
    Read-only. Making one takes a while for millions of shards: do it in a thread."""

    def __init__(
        self,
        lengths: Sequence[int] | npt.NDArray[np.uint64],
        records: Sequence[int] | npt.NDArray[np.integer],
        seed: int | None,
        block_bytes: int,
    ) -> None:
        """
        Args:
          lengths: bytes of each shard.
          records: of each shard.
          seed: of the permutation; None: shards in their stored order.
          block_bytes: a block ends with the shard that makes it so large, or at 1024 shards; 0: each shard is a block.
        """
        count = len(lengths)
        order = _permutation(count, seed)
        self.shards = array("I", order.tobytes())
        first = np.array(_cut(np.asarray(lengths, np.uint64)[order], block_bytes), np.int64)
        self.first = array("I", first.astype(np.uint32).tobytes())
        before = np.concatenate(([0], np.cumsum(np.asarray(records, np.int64)[order])))
        self._records_before = array("Q", before[first].astype(np.uint64).tobytes())  # each block
        in_block = before[:-1] - np.repeat(before[first[:-1]], np.diff(first))
        self._offset = array("I", in_block.astype(np.uint32).tobytes())  # by place in `shards`
        at = np.empty(count, np.uint32)
        at[order] = np.arange(count, dtype=np.uint32)
        self._at = array("I", at.tobytes())

    @property
    def blocks(self) -> int:
        return len(self.first) - 1

    def next_with(self, pending: Slots, block: int) -> int:
        """The first block from this one on that has some of these; `blocks`: none has."""
        shards, at, some = np.frombuffer(self.shards, np.uint32), self.first[block], _LOOKED_AT_FIRST
        while at < len(shards):
            mask = pending.mask(shards[at : at + some])
            if mask.any():
                return bisect_right(self.first, at + int(mask.argmax())) - 1
            at, some = at + some, min(4 * some, _LOOKED_AT_MOST)
        return self.blocks

    def block_of(self, shard: int) -> int:
        return bisect_right(self.first, self._at[shard]) - 1

    def place(self, shard: int) -> Place:
        block = self.block_of(shard)
        start, end = self._records_before[block], self._records_before[block + 1]
        return Place(position=start, offset=self._offset[self._at[shard]], records=end - start)


def _permutation(count: int, seed: int | None) -> npt.NDArray[np.uint32]:
    stored = np.arange(count, dtype=np.uint32)
    if seed is None:
        return stored
    # Not numpy's permutation: it is free to be another one in another version.
    keys = mixed(stored.astype(np.uint64) ^ mixed(np.array([seed & _MASK], np.uint64)))
    return np.argsort(keys, kind="stable").astype(np.uint32)


def _cut(lengths: npt.NDArray[np.uint64], block_bytes: int) -> list[int]:
    count = len(lengths)
    if not block_bytes:
        return list(range(count + 1))
    ends = np.cumsum(lengths).tolist()
    first = [0]
    while first[-1] < count:
        start = first[-1]
        least = (ends[start - 1] if start else 0) + block_bytes
        first.append(min(bisect_left(ends, least, start) + 1, start + MAX_BLOCK_SHARDS, count))
    return first


def mixed(values: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    """SplitMix64's first number of each seed, as ops/core/shuffle_pool_and_order/random.h makes it."""
    z = values + np.uint64(_GOLDEN)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    numbers: npt.NDArray[np.uint64] = z ^ (z >> np.uint64(31))
    return numbers


def units_of(size_bytes: int, records: int, shards: int, block_bytes: int, batch_records: int) -> int:
    """How many stripe units a homogeneous session cuts a data set into that is not cached by chunks.

    Of about `block_bytes`, which is what the op's pool shuffles: larger ones would make for long runs of alike batches.
    At least 64, so that a small data set is cut at all. But never so small that a unit does not fill eight batches
    (of 128 records where nobody knows), because a batch is mixed where one unit ends and another begins.
    """
    wanted = max(_LEAST_UNITS, math.ceil(size_bytes / block_bytes) if block_bytes else 0)
    filled = records // (_LEAST_BATCHES * (batch_records or _USUAL_BATCH))
    return max(1, min(wanted, filled, shards))


_LEAST_UNITS = 64
_LEAST_BATCHES = 8
_USUAL_BATCH = 128
