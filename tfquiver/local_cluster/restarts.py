"""What becomes of a server that ends by itself: it is started again, unless it has ended too often (pure)."""

from __future__ import annotations

from collections import deque

MOST_FAILED = 5  # starts in a row
MOST_ENDED = 10
WITHIN_S = 60.0
_FIRST_PAUSE_S, _LAST_PAUSE_S = 0.2, 5.0


class Restarts:
    """Of one server. Times are of one clock, in seconds."""

    def __init__(self) -> None:
        self._ended: deque[float] = deque(maxlen=MOST_ENDED)
        self._failed = 0

    def ended(self, now_s: float) -> None:
        """It ran, and has ended."""
        self._ended.append(now_s)

    def failed(self) -> None:
        """It did not start."""
        self._failed += 1

    def started(self) -> None:
        self._failed = 0

    @property
    def pause_s(self) -> float:
        """How long to wait before it is started."""
        return float(min(_FIRST_PAUSE_S * 2**self._failed, _LAST_PAUSE_S))

    @property
    def hopeless(self) -> str:
        """Why it is not started any more; empty: it is."""
        if self._failed >= MOST_FAILED:
            return f"it did not start {MOST_FAILED} times in a row"
        if len(self._ended) == MOST_ENDED and self._ended[-1] - self._ended[0] < WITHIN_S:
            return f"it ended {MOST_ENDED} times within {WITHIN_S:.0f} s"
        return ""
