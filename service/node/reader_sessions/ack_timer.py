"""When acknowledgements go that no lease takes along: when their time is over, or with the last heartbeat before. Pure.

A message of their own costs the coordinator and this node as much again as what is in it.
"""

from __future__ import annotations

from collections.abc import Callable

Later = Callable[[float, Callable[[], None]], Callable[[], None]]  # calls after so many seconds; returns what undoes it


class AckTimer:
    def __init__(self, flush: Callable[[], None], now: Callable[[], float], later: Later) -> None:
        self._flush, self._now, self._later = flush, now, later
        self._undo: Callable[[], None] | None = None
        self._ends_at = 0.0

    def begin(self, within_s: float) -> None:
        """Some are there now; those that wait already do not wait longer for them."""
        if self._undo is None:
            self._undo = self._later(within_s, self.end)
            self._ends_at = self._now() + within_s

    def heartbeat_goes(self, next_s: float) -> None:
        """`next_s`: before the next one goes, as far as is known."""
        if self._undo and self._now() + next_s > self._ends_at:
            self.end()

    def end(self) -> None:
        """All go, now."""
        if self._undo:
            self._undo()
            self._undo = None
        self._flush()
