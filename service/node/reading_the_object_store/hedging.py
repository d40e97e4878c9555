"""When a read is so late that it is asked for again, and how often that may be. Pure.

"The Tail at Scale" (Dean and Barroso, CACM 2013): the slowest hundredth is sent twice, and the first answer counts.
"""

from __future__ import annotations

from collections import deque

_KEPT, _LEAST_KEPT = 256, 64
# Where many share a byte rate one wait is hardly longer than another, and another request would only make all slower.
_LEAST_S, _TIMES_USUAL = 0.05, 3.0
SHARE, _MOST_SAVED = 0.01, 4.0  # of all requests


class Hedges:
    """Not thread-safe."""

    def __init__(self) -> None:
        self._waits_s: deque[float] = deque(maxlen=_KEPT)
        self._late_after_s: float | None = None
        self._saved = 1.0

    def began(self) -> None:
        """A request that was not asked for again: it pays a part of one that is."""
        self._saved = min(_MOST_SAVED, self._saved + SHARE)

    def came(self, wait_s: float) -> None:
        """Its first part, so long after it was asked for."""
        self._waits_s.append(wait_s)
        self._late_after_s = None

    def late_after_s(self) -> float | None:
        """Of silence: later than all but a hundredth, and than three times the usual. None: too little is known."""
        if len(self._waits_s) < _LEAST_KEPT:
            return None
        if self._late_after_s is None:
            waits_s = sorted(self._waits_s)
            usual_s, slow_s = waits_s[len(waits_s) // 2], waits_s[len(waits_s) * 99 // 100 - 1]
            self._late_after_s = max(_LEAST_S, _TIMES_USUAL * usual_s, slow_s)
        return self._late_after_s

    def may(self) -> bool:
        """Whether one more request may be sent; it is counted."""
        if self._saved < 1.0:
            return False
        self._saved -= 1.0
        return True
