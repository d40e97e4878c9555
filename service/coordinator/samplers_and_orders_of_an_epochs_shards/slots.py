"""Sets of many numbers as bits, and drawing from them at random: an eighth of a byte for each number there could be.

A session that kept its shards in an order of its own, to draw from by swaps, needed eight bytes for each shard of the
data set. Here a few thousand are drawn at a time, from bits, so that one costs little. Pure.
"""

from __future__ import annotations

import re
from array import array
from collections.abc import Iterable
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from tfquiver.shard_owners_chunks_hash_prefixes.sorted_numbers import distinct

Bits = npt.NDArray[np.uint8]  # number i is bit i % 8, least significant first, of byte i / 8
_SOME = re.compile(rb"[^\0]")
_ONES = np.array([value.bit_count() for value in range(256)], np.uint8)
Number = TypeVar("Number", bound=np.integer)
MOST_DRAWN = 4096  # at a time
_MANY = 16  # times what is drawn: of so many it is quicker to try


class Slots:
    """A set of numbers from 0 to `size` - 1; `count` is how many there are in it. Whoever looks at one after the other
    does that in `bytes`: to call this object, or numpy, for each takes several times as long."""

    __slots__ = ("bits", "bytes", "count")

    def __init__(self, mask: npt.NDArray[np.bool_]) -> None:
        """`mask`: shape [size]."""
        self.bytes = bytearray(np.packbits(mask, bitorder="little").tobytes())  # the same as `bits`, not to be changed
        self.bits: Bits = np.frombuffer(self.bytes, np.uint8)
        self.count = int(np.count_nonzero(mask))

    def __contains__(self, number: int) -> bool:
        return bool(self.bytes[number >> 3] >> (number & 7) & 1)

    def first_from(self, number: int) -> int:
        """The first in it that is not below `number`; -1: there is none. Of millions that are not in it each costs less
        than a tenth of a nanosecond."""
        at = number >> 3
        if at < len(self.bytes) and (rest := self.bytes[at] >> (number & 7)):
            return number + (rest & -rest).bit_length() - 1
        found = _SOME.search(self.bytes, at + 1)
        if found is None:
            return -1
        byte = self.bytes[found.start()]
        return 8 * found.start() + (byte & -byte).bit_length() - 1

    def slice_mask(self, start: int, end: int) -> npt.NDArray[np.bool_]:
        """Shape [end - start]: which of the numbers from `start` to `end` - 1 are in it."""
        bits = np.unpackbits(self.bits[start >> 3 : (end + 7) >> 3], bitorder="little")
        return bits[start & 7 : (start & 7) + end - start].view(np.bool_)

    def mask(self, numbers: npt.NDArray[np.integer]) -> npt.NDArray[np.bool_]:
        """Which of these are in it."""
        mask: npt.NDArray[np.bool_] = (self.bits[numbers >> 3] >> (numbers & 7).astype(np.uint8) & 1) != 0
        return mask

    def add(self, number: int) -> bool:
        """False when it was in it already."""
        mask = 1 << (number & 7)
        if self.bytes[number >> 3] & mask:
            return False
        self.bytes[number >> 3] |= mask
        self.count += 1
        return True

    def remove(self, number: int) -> bool:
        """False when it was not in it."""
        mask = 1 << (number & 7)
        if not self.bytes[number >> 3] & mask:
            return False
        self.bytes[number >> 3] ^= mask
        self.count -= 1
        return True

    def remove_all(self, numbers: Iterable[int]) -> None:
        """As `remove`."""
        its, removed = self.bytes, 0
        for number in numbers:
            mask = 1 << (number & 7)
            if its[number >> 3] & mask:
                its[number >> 3] ^= mask
                removed += 1
        self.count -= removed


def packed(values: bytearray) -> Bits:
    """Of one byte for each number: those that are not zero."""
    return np.packbits(np.frombuffer(values, np.uint8), bitorder="little")


def count(bits: Bits) -> int:
    if not hasattr(np, "bitwise_count"):  # NumPy 1
        return int(_ONES[bits].sum())
    whole = len(bits) & ~7
    words: npt.NDArray[np.uint8] = np.bitwise_count(bits[:whole].view(np.uint64))
    return int(words.sum(dtype=np.int64)) + int(_ONES[bits[whole:]].sum())


def draw(bits: Bits, rng: np.random.Generator, first: int = 0, most: int = MOST_DRAWN) -> tuple[array[int], int]:
    """Some of a set's numbers, each subset of that size equally likely, in random order; and how many more there are.

    Args:
      first: is added to each.
      most: so many at most; hardly fewer where there are more.
    """
    total = count(bits)
    many = total > _MANY * most and most >= _MANY  # of fewer none might be found
    numbers = _tried(bits, rng, total, most) if many else _ranked(bits, rng, total, most)
    drawn = rng.permutation(numbers)[:most].astype(np.uint32) + np.uint32(first)
    return array("I", drawn.tobytes()), total - len(drawn)


def _tried(bits: Bits, rng: np.random.Generator, total: int, most: int) -> npt.NDArray[np.integer]:
    """About `most` that are among numbers drawn from all that there could be: to look at every bit for the one with
    some rank takes as long as a lease, and of millions ten times that."""
    size = 8 * len(bits)
    tried = rng.integers(0, size, most * size // total + 1, np.uint32)
    there = (bits[tried >> 3] >> (tried & 7).astype(np.uint8)) & 1 != 0
    return distinct(tried[there])


def _ranked(bits: Bits, rng: np.random.Generator, total: int, most: int) -> npt.NDArray[np.integer]:
    """Those with ranks that are drawn; all, where there are no more than `most`."""
    at = np.flatnonzero(bits)
    ones = np.flatnonzero(np.unpackbits(bits[at], bitorder="little").view(np.bool_))
    if total > most:
        ones = ones[distinct(rng.integers(0, total, most))]
    numbers: npt.NDArray[np.int64] = 8 * at[ones >> 3] + (ones & 7)
    return numbers


def draw_runs(bits: Bits, rng: np.random.Generator, run: int, most: int = MOST_DRAWN) -> tuple[array[int], int]:
    """As `draw`, but with all that there are of each group of `run` neighbours, one after the other from the last on.

    Args:
      run: numbers a group; 1 to 8. Groups are equally likely by what there is of them, and in random order.
    """
    drawn, more = draw(bits, rng, most=max(1, most // run))
    numbers: npt.NDArray[np.int64] = np.frombuffer(drawn, np.uint32).astype(np.int64)
    if more:
        near = (distinct(numbers // run).reshape(-1, 1) * run + np.arange(run)).ravel()
        near = near[near < 8 * len(bits)]
        there = (bits[near >> 3] >> (near & 7).astype(np.uint8) & 1) != 0
        more += len(numbers) - int(np.count_nonzero(there))
        numbers = near[there]
    groups, group_of = np.unique(numbers // run, return_inverse=True)
    order = np.lexsort((-numbers, rng.permutation(len(groups))[group_of]))
    return array("I", numbers[order].astype(np.uint32).tobytes()), more
