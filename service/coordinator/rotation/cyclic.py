"""The paper's rotation: one chunk after the other in two buffers (Quiver, FAST'20, section 5.1). Pure.

absent -> loading -> latest -> marked -> evicted: a chunk is marked once the next is in, and evicted once no session
reads it any more, or `timeout_s` after the first session finished it.
"""

from __future__ import annotations

from tfquiver.service.coordinator.rotation.board import Board
from tfquiver.service.coordinator.rotation.interface import Decision, Menu
from tfquiver.service.coordinator.rotation.room import Room


class Cyclic:
    """At most two chunks are resident, wholly or in part; but for what was there before."""

    def __init__(self, board: Board, timeout_s: float, now: float = 0.0) -> None:
        """Takes over what is resident. Raises InvalidArgumentError when the allocation has no room for two chunks."""
        self._board, self._room = board, Room(board, timeout_s)
        self._room.adopt(2, now)
        self._room.note(now)
        stays = self._room.stays
        complete = [chunk for chunk in stays if stays[chunk].settled]
        if len(complete) == 2 and (complete[0] + 1) % len(board.sizes) == complete[1]:
            complete.reverse()
        self._loading = next((chunk for chunk in stays if chunk not in complete), None)
        self._latest = complete[0] if complete else None
        self._marked = complete[1] if len(complete) > 1 else None
        if self._loading is not None and len(stays) == 2 and self._latest is None:
            self._marked = next(chunk for chunk in stays if chunk != self._loading)

    @property
    def version(self) -> int:
        return self._room.changes + self._board.version

    def decide(self, now: float) -> Decision:
        room, board = self._room, self._board
        room.note(now)
        if self._loading is not None and room.stays[self._loading].settled and self._marked is None:
            self._marked, self._latest, self._loading = self._latest, self._loading, None
            room.changes += 1
        following = self._following()
        if following is not None and self._marked is not None:
            if not board.readers[self._marked] or room.stays[self._marked].overdue(now):
                room.dismiss(self._marked)
                self._marked = None
        if following is not None and self._loading is None and self._marked is None and not room.leaving:
            room.admit(following, now)
            self._loading = following
        load = tuple(room.lacking()) if board.sessions else ()
        return Decision(load, frozenset(load if any(map(self._is_dry, board.sessions)) else ()), room.leaving)

    def menu(self, session: str) -> Menu:
        needs = self._board.sessions[session]
        hits = [chunk for chunk in self._usable(session) if needs.pending[chunk]]
        return Menu(tuple(hits), tuple(chunk for chunk in hits if not self._board.complete(chunk)))

    def keeps(self, chunk: int) -> bool:
        return chunk in self._room.stays

    def _usable(self, session: str) -> list[int]:
        """The one that goes first comes first."""
        usable = [chunk for chunk in (self._latest, self._loading) if chunk is not None]
        marked = self._marked
        if marked is not None and (marked in self._board.sessions[session].using or self._following() is None):
            usable.insert(0, marked)
        return usable

    def _is_dry(self, session: str) -> bool:
        needs, resident = self._board.sessions[session], self._board.resident
        return needs.pending_bytes > 0 and not any(needs.pending[c] and resident[c] for c in self._usable(session))

    def _following(self) -> int | None:
        """The next chunk, in the cycle, that a session needs and that is neither in nor coming."""
        chunks = len(self._board.sizes)
        last = self._loading if self._loading is not None else self._latest
        start = 0 if last is None else last + 1
        cycle = (chunk % chunks for chunk in range(start, start + chunks))
        return next((chunk for chunk in cycle if self._board.wanted[chunk] and chunk not in self._room.stays), None)
