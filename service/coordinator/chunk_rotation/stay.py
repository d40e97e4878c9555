"""One chunk's time in the cache, as far as evicting it depends on that. Pure."""

from __future__ import annotations

from tfquiver.service.coordinator.chunk_rotation.board import Board


class Stay:
    """A chunk is `settled` once it is complete, or none of the sessions needs it, or no more of it has come in for
    `timeout_s`: some of it may be damaged or gone in the store, or find no room at its node, and must not hold up the
    others."""

    def __init__(self, board: Board, chunk: int, now: float, timeout_s: float) -> None:
        self._board, self._chunk, self._timeout_s = board, chunk, timeout_s
        self._finishes = board.finishes[chunk]
        self._resident = board.resident[chunk]
        self._changed_at = now
        self.settled = False
        self._settled_at = now
        self._first_finish: float | None = None

    def note(self, now: float) -> None:
        """Looks at the board. Call it before asking anything."""
        board, chunk = self._board, self._chunk
        if board.resident[chunk] > self._resident:
            self._resident, self._changed_at = board.resident[chunk], now
            self._settled_at = now
        if not board.sessions:
            self._changed_at = now  # nothing is loaded for nobody
        unneeded = bool(board.sessions) and not board.wanted[chunk]  # by those there are; the next will need all
        done = board.complete(chunk) or unneeded or now >= self._changed_at + self._timeout_s
        if not self.settled and done:
            self.settled, self._settled_at = True, now
        if self._first_finish is None and board.finishes[chunk] > self._finishes:
            self._first_finish = now

    @property
    def finished(self) -> bool:
        """Some session has read all that it needed of it."""
        return self._first_finish is not None

    def overdue(self, now: float) -> bool:
        """Sessions that read it still have had their time: since the first finished it, or, when none has, since the
        last of it came in."""
        since = self._settled_at if self._first_finish is None else self._first_finish
        return self.settled and now >= since + self._timeout_s
