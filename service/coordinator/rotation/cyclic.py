"""The paper's rotation: one chunk after the other in two buffers (Quiver, FAST'20, section 5.1). Pure.

absent -> loading -> latest -> marked -> evicted: a chunk is marked once the next is in, and evicted once no session
reads it any more, or `timeout_s` after the first session finished it.
"""

from __future__ import annotations

from tfquiver import errors
from tfquiver.service.coordinator.rotation.board import Board
from tfquiver.service.coordinator.rotation.interface import Decision, Menu


class Cyclic:
    """At most two chunks are resident, wholly or in part."""

    def __init__(self, board: Board, timeout_s: float) -> None:
        """Takes over what is resident. Raises InvalidArgumentError when two chunks are more than the allocation."""
        two_bytes = sum(sorted(board.sizes)[-2:])
        if two_bytes > board.allocation_bytes:
            raise errors.InvalidArgumentError(
                f"allocation: {board.allocation_bytes} bytes have no room for two chunks of {two_bytes} bytes together"
            )
        self._board, self._timeout_s = board, timeout_s
        self._loading: int | None = None
        self._latest: int | None = None
        self._marked: int | None = None
        self._marked_at = 0.0
        self._finishes: dict[int, int] = {}  # of the board, when the chunk came in
        self._first_finish: dict[int, float] = {}
        self._changes = 0
        self._adopt()

    @property
    def version(self) -> int:
        return self._changes + self._board.version

    def decide(self, now: float) -> Decision:
        board = self._board
        self._note_finishes(now)
        if self._loading is not None and board.complete(self._loading):
            self._marked, self._latest, self._loading = self._latest, self._loading, None
            self._marked_at = now
            self._changes += 1
        following = self._following()
        if following is not None and self._loading is None:
            if self._marked is not None and self._may_go(self._marked, now):
                self._evict(self._marked)
            if self._marked is None and not self._leaving():
                self._admit(following)
        waiting = any(not self._has_hits(session) for session in board.sessions)
        load = tuple(chunk for chunk in self._admitted() if not board.complete(chunk) and board.sessions)
        return Decision(load, frozenset(load if waiting else ()), self._leaving())

    def menu(self, session: str) -> Menu:
        needs = self._board.sessions[session]
        hits = [chunk for chunk in self._usable(session) if needs.pending[chunk]]
        return Menu(tuple(hits), tuple(chunk for chunk in hits if not self._board.complete(chunk)))

    def keeps(self, chunk: int) -> bool:
        return chunk in (self._loading, self._latest, self._marked)

    def _usable(self, session: str) -> list[int]:
        """The one that goes first comes first."""
        usable = [chunk for chunk in (self._latest, self._loading) if chunk is not None]
        marked = self._marked
        if marked is not None and (marked in self._board.sessions[session].using or self._following() is None):
            usable.insert(0, marked)
        return usable

    def _has_hits(self, session: str) -> bool:
        pending = self._board.sessions[session].pending
        return any(pending[chunk] and self._board.resident[chunk] for chunk in self._usable(session))

    def _adopt(self) -> None:
        """The two chunks of which most is there; what is there of others goes."""
        board = self._board
        there = [chunk for chunk, resident in enumerate(board.resident) if resident]
        best = sorted(there, key=lambda chunk: board.resident[chunk] / board.sizes[chunk], reverse=True)[:2]
        complete = [chunk for chunk in best if board.complete(chunk)]
        self._loading = next((chunk for chunk in best if not board.complete(chunk)), None)
        if len(complete) == 2 and (complete[0] + 1) % len(board.sizes) == complete[1]:
            complete.reverse()
        self._latest = complete[0] if complete else None
        self._marked = complete[1] if len(complete) > 1 else None
        self._finishes = {chunk: board.finishes[chunk] for chunk in best}

    def _admitted(self) -> list[int]:
        return [chunk for chunk in (self._loading, self._latest, self._marked) if chunk is not None]

    def _leaving(self) -> tuple[int, ...]:
        return tuple(c for c, resident in enumerate(self._board.resident) if resident and not self.keeps(c))

    def _following(self) -> int | None:
        """The next chunk, in the cycle, that a session needs and that is neither in nor coming."""
        board = self._board
        start = self._loading if self._loading is not None else self._latest
        start = -1 if start is None else start
        for step in range(1, len(board.sizes) + 1):
            chunk = (start + step) % len(board.sizes)
            if board.wanted[chunk] and not self.keeps(chunk):
                return chunk
        return None

    def _admit(self, chunk: int) -> None:
        self._loading = chunk
        self._finishes[chunk] = self._board.finishes[chunk]
        self._changes += 1

    def _may_go(self, chunk: int, now: float) -> bool:
        return not self._board.readers[chunk] or (
            now >= self._first_finish.get(chunk, self._marked_at) + self._timeout_s
        )

    def _evict(self, chunk: int) -> None:
        self._board.cut_off(chunk)
        self._marked = None
        self._finishes.pop(chunk)
        self._first_finish.pop(chunk, None)
        self._changes += 1

    def _note_finishes(self, now: float) -> None:
        for chunk, finishes in self._finishes.items():
            if self._board.finishes[chunk] > finishes:
                self._first_finish.setdefault(chunk, now)
