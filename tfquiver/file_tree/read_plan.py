"""Which shards, and which part of each, make a range of a file (pure)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from tfquiver.content.digest import Digest


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
        counts = np.bincount(digest.file_index, minlength=len(digest.files)) if digest.num_shards else 0
        self._first = np.concatenate([[0], np.cumsum(np.broadcast_to(counts, len(digest.files)))]).astype(np.int64)

    def shards(self, file_index: int) -> range:
        return range(int(self._first[file_index]), int(self._first[file_index + 1]))

    def size_bytes(self, file_index: int) -> int:
        of_file = self.shards(file_index)
        return self._start(of_file.stop) - self._start(of_file.start)

    def position(self, file_index: int, offset: int) -> int:
        return self._start(int(self._first[file_index])) + offset

    def pieces(self, file_index: int, offset: int, length_bytes: int) -> Iterator[Piece]:
        """In order, of what there is of the range; none behind the file's end."""
        of_file = self.shards(file_index)
        at = self._start(of_file.start) + offset
        end = min(at + length_bytes, self._start(of_file.stop))
        shard = self.shard_at(at)
        while at < end:
            begin, stop = self._start(shard), min(int(self._ends[shard]), end)
            yield Piece(shard, at - begin, stop - at)
            at, shard = stop, shard + 1

    def shard_at(self, position: int) -> int:
        """The shard that a position is in; their number, behind the last one."""
        return int(np.searchsorted(self._ends, np.uint64(position), "right"))

    def _start(self, shard: int) -> int:
        return int(self._ends[shard - 1]) if shard else 0
