"""How much of each data set is resident: of those that are followed as it is, of others as it was last. Pure."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, replace

from tfquiver.service.coordinator.chunk_rotation.board import Board
from tfquiver.service.coordinator.resident_shards.table import Table

MOST_REMEMBERED = 4096
_LEAST_AGE_S = 0.001


@dataclass(frozen=True, slots=True)
class ResidentShare:
    """Raw bytes. `chunks`: 0: it is not cached by chunks. `resident_chunks`: those of which all is there."""

    resident_bytes: int
    size_bytes: int
    resident_shards: int
    chunks: int
    resident_chunks: int
    age_s: float = 0.0  # how long ago that was so; 0: it is followed

    @staticmethod
    def of(table: Table, board: Board | None) -> ResidentShare:
        chunks = len(board.sizes) if board else 0
        whole = int((board.columns.resident == board.columns.sizes).sum()) if board else 0
        return ResidentShare(table.resident_bytes, table.size_bytes, table.resident_shards, chunks, whole)


class LastShares:
    """Of data sets that nobody reads any more."""

    def __init__(self) -> None:
        self._last: OrderedDict[bytes, tuple[ResidentShare, float]] = OrderedDict()

    def remember(self, digest_id: bytes, share: ResidentShare, now: float) -> None:
        self._last[digest_id] = share, now
        self._last.move_to_end(digest_id)
        while len(self._last) > MOST_REMEMBERED:
            self._last.popitem(last=False)

    def find(self, digest_id: bytes, now: float) -> ResidentShare | None:
        if digest_id not in self._last:
            return None
        share, at = self._last[digest_id]
        return replace(share, age_s=max(now - at, _LEAST_AGE_S))

    def forget(self, digest_id: bytes) -> None:
        self._last.pop(digest_id, None)
