"""Which shards, and which part of each, make a range of a file (pure)."""

from __future__ import annotations

import bisect
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tfquiver.digests.digest import Digest


@dataclass(frozen=True, slots=True)
class Piece:
    """`length_bytes` bytes from `offset` of a shard."""

    shard: int
    offset: int
    length_bytes: int


class ReadPlan:
    """Of one digest whose shards are their files' own bytes. Holds 8 bytes a shard beside it.

    Positions are bytes of all files, one behind the other as they stand in the digest.
    """

    def __init__(self, digest: Digest) -> None:
        self._digest = digest
        ends = np.cumsum(digest.lengths, dtype=np.uint64)
        self._ends = ends
        self._bisected = ends.data  # where one number is looked for NumPy takes five times as long
        counts = np.bincount(digest.file_index, minlength=len(digest.files)) if digest.num_shards else 0
        self._first = np.concatenate([[0], np.cumsum(np.broadcast_to(counts, len(digest.files)))]).astype(np.int64)

    @property
    def first_shards(self) -> npt.NDArray[np.int64]:
        """Shape [files + 1]: of each file, and their number."""
        return self._first

    def shards(self, file_index: int) -> range:
        return range(self._first.item(file_index), self._first.item(file_index + 1))

    def size_bytes(self, file_index: int) -> int:
        of_file = self.shards(file_index)
        return self._start(of_file.stop) - self._start(of_file.start)

    def position(self, file_index: int, offset: int) -> int:
        return self._start(self._first.item(file_index)) + offset

    def pieces(self, file_index: int, offset: int, length_bytes: int) -> Iterator[Piece]:
        """In order, of what there is of the range; none behind the file's end."""
        first, last = self._first.item(file_index), self._first.item(file_index + 1)
        at = self._start(first) + offset
        end = min(at + length_bytes, self._start(last))
        if at >= end:
            return
        shard = bisect.bisect_right(self._bisected, at, first, last)
        begin = self._start(shard)
        while at < end:
            shard_end = self._ends.item(shard)
            stop = min(shard_end, end)
            yield Piece(shard, at - begin, stop - at)
            at, begin, shard = stop, shard_end, shard + 1

    def shard_at(self, position: int) -> int:
        """The shard that a position is in; their number, behind the last one."""
        return bisect.bisect_right(self._bisected, position)

    def _start(self, shard: int) -> int:
        return self._ends.item(shard - 1) if shard else 0
