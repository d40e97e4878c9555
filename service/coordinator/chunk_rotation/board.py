"""What is known of one data set's chunks: what is resident, who still needs what, who is reading. Pure.

Facts only. Rotations decide from them, as often as they are asked, so that an event that comes twice or late does no
harm.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tfquiver.service.coordinator.chunk_rotation.pending_of import PendingOf

_FIRST_ROWS = 8


class Needs:
    """What one session has not taken yet, in bytes by chunk, and which chunks it is reading."""

    __slots__ = ("pending", "pending_bytes", "using")

    def __init__(self, pending: Sequence[int]) -> None:
        self.pending = array("q", pending)
        self.pending_bytes = sum(pending)
        self.using: set[int] = set()


@dataclass(frozen=True, slots=True, eq=False)
class Columns:
    """What the board says of each chunk, for those who look at all at once: the same memory, not to be changed."""

    sizes: npt.NDArray[np.int64]
    resident: npt.NDArray[np.int64]
    wanted: npt.NDArray[np.int64]
    needed_bytes: npt.NDArray[np.int64]


class Board:
    """Invariants: 0 <= resident[c] <= sizes[c]; readers[c] = sessions with c in `using`; wanted[c] = sessions with
    something of c pending; needed_bytes[c] = what all sessions have pending of c.

    `version` changes whenever one of these becomes or ceases to be zero, or a chunk becomes or ceases to be complete:
    whoever keeps something that was worked out from the board asks it.
    """

    def __init__(self, sizes_bytes: Sequence[int], allocation_bytes: int) -> None:
        self.sizes = tuple(int(size) for size in sizes_bytes)
        self.allocation_bytes = allocation_bytes
        self.resident, self.wanted, self.needed_bytes = (_zeros(len(self.sizes)) for _ in range(3))
        views = (np.frombuffer(of_each, np.int64) for of_each in (self.resident, self.wanted, self.needed_bytes))
        self.columns = Columns(np.array(self.sizes, np.int64), *views)
        self.readers = [0] * len(self.sizes)
        self.finishes = [0] * len(self.sizes)  # uses that ended with nothing of the chunk pending; only grows
        self.sessions: dict[str, Needs] = {}
        self.version = 0
        self.there_version = 0  # changes whenever something of a chunk becomes, or ceases to be, resident
        self.all_finishes = 0  # of all chunks together
        self.names: list[str] = []  # of `sessions`, in the order of `pending`
        self._row: dict[str, int] = {}
        self._pending = np.zeros((_FIRST_ROWS, len(self.sizes)), np.int64)
        self._totals = np.zeros(_FIRST_ROWS, np.int64)
        self._followed: list[PendingOf] = []

    @property
    def pending(self) -> npt.NDArray[np.int64]:
        """What `sessions` say of pending bytes, all at once: shape [sessions, chunks]. Not to be kept or changed."""
        return self._pending[: len(self.names)]

    @property
    def pending_bytes(self) -> npt.NDArray[np.int64]:
        """Of all chunks: shape [sessions]. Not to be kept or changed."""
        return self._totals[: len(self.names)]

    def follow(self) -> PendingOf:
        """What they have pending of some chunks, kept up from now on."""
        self._followed.append(PendingOf(self._pending))
        return self._followed[-1]

    def row(self, session: str) -> int:
        """Of `pending`."""
        return self._row[session]

    def complete(self, chunk: int) -> bool:
        return self.resident[chunk] == self.sizes[chunk]

    def allocate(self, allocation_bytes: int) -> None:
        """There is more room now, or less."""
        if allocation_bytes != self.allocation_bytes:
            self.allocation_bytes = allocation_bytes
            self.version += 1

    # Shards.

    def shard_resident(self, chunk: int, size_bytes: int) -> None:
        """One or several."""
        self.resident[chunk] += size_bytes
        self.version += 1 if self.resident[chunk] in (size_bytes, self.sizes[chunk]) else 0
        self.there_version += self.resident[chunk] == size_bytes

    def shard_gone(self, chunk: int, size_bytes: int) -> None:
        self.resident[chunk] -= size_bytes
        self.version += 1 if self.resident[chunk] in (0, self.sizes[chunk] - size_bytes) else 0
        self.there_version += not self.resident[chunk]

    # Sessions.

    def session_opened(self, session: str, pending: Sequence[int]) -> None:
        """`pending`: bytes by chunk. One that is open already is opened anew."""
        self.session_finished(session)
        self.sessions[session] = Needs(pending)
        row = self._row[session] = len(self.names)
        self.names.append(session)
        if row == len(self._pending):
            self._pending = np.concatenate((self._pending, np.zeros_like(self._pending)))
            self._totals = np.concatenate((self._totals, np.zeros_like(self._totals)))
            for followed in self._followed:
                followed.rows(self._pending)
        self._pending[row] = pending
        self._row_changed(row, self.sessions[session])
        self._count(row, 1)
        self.version += 1

    def took(self, session: str, chunk: int, size_bytes: int) -> None:
        needs = self.sessions[session]
        needs.pending[chunk] -= size_bytes
        self._change(session, chunk, -size_bytes)
        needs.pending_bytes -= size_bytes
        self.needed_bytes[chunk] -= size_bytes
        if size_bytes and not needs.pending[chunk]:
            self.wanted[chunk] -= 1
            self.version += 1

    def gave_back(self, session: str, chunk: int, size_bytes: int) -> None:
        needs = self.sessions[session]
        if size_bytes and not needs.pending[chunk]:
            self.wanted[chunk] += 1
            self.version += 1
        needs.pending[chunk] += size_bytes
        self._change(session, chunk, size_bytes)
        needs.pending_bytes += size_bytes
        self.needed_bytes[chunk] += size_bytes

    def use_started(self, session: str, chunk: int) -> None:
        """`ref`: the session has taken shards of the chunk and will need it resident until it has read them."""
        using = self.sessions[session].using
        if chunk not in using:
            using.add(chunk)
            self.readers[chunk] += 1
            self.version += 1

    def use_ended(self, session: str, chunk: int) -> None:
        """`unref`. When nothing of it is pending any more, the session has finished the chunk."""
        needs = self.sessions[session]
        if chunk in needs.using:
            needs.using.remove(chunk)
            self.readers[chunk] -= 1
            if not needs.pending[chunk]:
                self.finishes[chunk] += 1
                self.all_finishes += 1
            self.version += 1

    def cut_off(self, chunk: int) -> None:
        """Ends every use of a chunk that is to be evicted all the same."""
        for needs in self.sessions.values():
            if chunk in needs.using:
                needs.using.remove(chunk)
                self.readers[chunk] -= 1
        self.version += 1

    def session_finished(self, session: str) -> None:
        needs = self.sessions.get(session)
        if needs is None:
            return
        for chunk in tuple(needs.using):
            self.use_ended(session, chunk)
        del self.sessions[session]
        row, last = self._row.pop(session), self.names.pop()
        self._count(row, -1)
        if last != session:  # it takes the place that has become free
            self.names[row], self._row[last] = last, row
            self._pending[row] = self._pending[len(self.names)]
            self._row_changed(row, self.sessions[last])
        self.version += 1

    def _change(self, session: str, chunk: int, by_bytes: int) -> None:
        row = self._row[session]
        self._pending[row, chunk] += by_bytes
        self._totals[row] += by_bytes
        for followed in self._followed:
            followed.changed(row, chunk, by_bytes)

    def _row_changed(self, row: int, needs: Needs) -> None:
        self._totals[row] = needs.pending_bytes
        for followed in self._followed:
            followed.anew(row)

    def _count(self, row: int, sessions: int) -> None:
        """So many more need what this row of `pending` says."""
        pending, columns = self._pending[row], self.columns
        np.add(columns.wanted, sessions * (pending > 0), out=columns.wanted)
        np.add(columns.needed_bytes, sessions * pending, out=columns.needed_bytes)


def _zeros(chunks: int) -> array[int]:
    return array("q", bytes(8 * chunks))
