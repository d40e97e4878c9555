"""The paper's rotation: one chunk after the other in two buffers (Quiver, FAST'20, section 5.1). Pure.

absent -> loading -> latest -> marked -> evicted: a chunk is marked once the next is in, and evicted once no session
reads it any more, or `timeout_s` after the first session finished it.
"""

from __future__ import annotations

from tfquiver.service.coordinator.chunk_rotation.board import Board
from tfquiver.service.coordinator.chunk_rotation.dry import Dry
from tfquiver.service.coordinator.chunk_rotation.interface import Decision
from tfquiver.service.coordinator.chunk_rotation.room import Room
from tfquiver.service.coordinator.samplers_and_orders_of_an_epochs_shards.chunk_use import Menu


class Cyclic:
    """At most two chunks are resident, wholly or in part; but for what was there before."""

    def __init__(self, board: Board, timeout_s: float, now: float = 0.0) -> None:
        """Takes over what is resident. Raises InvalidArgumentError when the allocation has no room for two chunks."""
        self._board, self._room = board, Room(board, timeout_s)
        self._sessions_dry = Dry(timeout_s)
        self._room.adopt(2, now)
        self._room.note(now)
        # Not complete ones first: the first of them is loading, the other latest, and filled up as well.
        there = sorted(self._room.stays, key=board.complete)
        self._loading = there.pop(0) if there and not board.complete(there[0]) else None
        if len(there) == 2 and (there[0] + 1) % len(board.sizes) == there[1]:
            there.reverse()
        self._latest: int | None = there[0] if there else None
        self._marked: int | None = there[1] if len(there) == 2 else None

    @property
    def version(self) -> int:
        return self._room.changes + self._board.version

    def decide(self, now: float) -> Decision:
        room, board = self._room, self._board
        room.note(now)
        if self._loading is not None and room.stays[self._loading].settled:
            self._marked, self._latest, self._loading = self._latest, self._loading, None
            room.changes += 1
        sessions = [session for session in board.sessions if self._is_dry(session)]
        room.changes += self._sessions_dry.note(sessions, now, int(board.columns.resident.sum()), bool(room.leaving))
        dry = bool(sessions)
        following = self._following()
        if following is not None and self._loading is None and (dry or self._latest_is_begun()):
            marked = self._marked
            if marked is not None and (not board.readers[marked] or room.stays[marked].overdue(now)):
                room.dismiss(marked)
                self._marked = None
            if self._marked is None and not room.leaving:
                room.admit(following, now)
                self._loading = following
        load = tuple(room.lacking()) if board.sessions else ()
        return Decision(load, frozenset(load if dry else ()), room.leaving)

    def menu(self, session: str) -> Menu:
        needs = self._board.sessions[session]
        hits = [chunk for chunk in self._usable(session) if needs.pending[chunk]]
        misses = tuple(chunk for chunk in hits if not self._board.complete(chunk))
        past_the_cache = self._sessions_dry.past_the_cache(session)
        return Menu(tuple(hits), misses, tuple(c for c, size in enumerate(needs.pending) if size and past_the_cache))

    def keeps(self, chunk: int) -> bool:
        return chunk in self._room.stays

    def _usable(self, session: str) -> list[int]:
        """The one that goes first comes first."""
        usable = [chunk for chunk in (self._latest, self._loading) if chunk is not None]
        marked = self._marked
        if marked is not None and (marked in self._board.sessions[session].using or self._following() is None):
            usable.insert(0, marked)
        return usable

    def _latest_is_begun(self) -> bool:
        """Where sessions stand still, what they have not begun to read must not be replaced time and again."""
        latest, board = self._latest, self._board
        if latest is None or board.readers[latest] or not board.wanted[latest]:
            return True
        return self._room.stays[latest].finished

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
