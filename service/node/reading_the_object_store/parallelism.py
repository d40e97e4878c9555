"""How many requests a store is sent at one time: more as long as that brings more, fewer when it says so. Pure."""

from __future__ import annotations

import math

FIRST, LEAST, MOST = 16, 2, 64
_WINDOW_S = 1.0
_WORTH = 1.05  # times the bytes that a higher limit has to bring
_HOLD_S, _LONGEST_HOLD_S = 8.0, 64.0


class Parallelism:
    """Not thread-safe. `now` is in seconds and never falls.

    A limit that nobody meets says nothing. One that was met for a whole window is raised by a quarter for the next one;
    if that brought less than a twentieth more bytes it is lowered again, and left alone for a while, longer each time.
    """

    def __init__(self, now: float, first: int = FIRST, least: int = LEAST, most: int = MOST) -> None:
        self.limit = first
        self._least, self._most = least, most
        self._began_s, self._bytes, self._ends, self._met = now, 0, 0, False
        self._tried: tuple[int, float] | None = None  # the limit before it was raised, and its bytes a second
        self._hold_until_s, self._hold_s = now, _HOLD_S
        self._fell_s = -math.inf

    def met(self) -> None:
        """More could have been asked for."""
        self._met = True

    def ended(self, now: float, size_bytes: int) -> None:
        """A request has come to its end."""
        self._bytes += size_bytes
        self._ends += 1
        if now >= self._began_s + _WINDOW_S and self._ends >= self.limit:
            self._judge(now)

    def refused(self, now: float) -> None:
        """The store asked for less (429, 503). Those that were sent together count as one."""
        if now >= self._fell_s + _WINDOW_S:
            self._fell_s = now
            self.limit = max(self._least, self.limit * 7 // 10)
            self._tried = None
            self._hold(now)
            self._begin(now)

    def _judge(self, now: float) -> None:
        rate = self._bytes / (now - self._began_s)
        if self._tried is not None and rate < _WORTH * self._tried[1]:
            self.limit = self._tried[0]
            self._tried = None
            self._hold(now)
        elif self._met and now >= self._hold_until_s and self.limit < self._most:
            if self._tried is not None:
                self._hold_s = _HOLD_S
            self._tried = (self.limit, rate)
            self.limit = min(self._most, max(self.limit + 1, self.limit * 5 // 4))
        else:
            self._tried = None
        self._begin(now)

    def _hold(self, now: float) -> None:
        self._hold_until_s = now + self._hold_s
        self._hold_s = min(2 * self._hold_s, _LONGEST_HOLD_S)

    def _begin(self, now: float) -> None:
        self._began_s, self._bytes, self._ends, self._met = now, 0, 0, False
