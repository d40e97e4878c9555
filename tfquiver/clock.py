"""Time as an argument: what pure parts take instead of importing `time`."""

from __future__ import annotations

import time
from typing import Protocol


class Clock(Protocol):
    def now(self) -> float:
        """Seconds on a clock that never goes back. The zero point means nothing."""


class SystemClock:
    def now(self) -> float:
        return time.monotonic()


class ManualClock:
    """A clock that stands still until told; for tests and the simulator."""

    def __init__(self, start: float = 0.0) -> None:
        self._now = start

    def now(self) -> float:
        return self._now

    def advance(self, seconds: float) -> None:
        if seconds < 0:
            raise ValueError(f"a clock cannot go back: {seconds=}")
        self._now += seconds

    def go_to(self, when: float) -> None:
        """Exactly: what is added to a time, and was taken from another before, may be off by a rounding error."""
        if when < self._now:
            raise ValueError(f"a clock cannot go back: {when=}, {self._now=}")
        self._now = when
