"""One figure over time: the last hour in steps of ten seconds, the last day in steps of two minutes."""

from __future__ import annotations

import math
from array import array

STEP_S = 10.0
HOUR_STEPS = 360
COARSE = 12  # steps that make one of the day's
DAY_STEPS = 720
SET_BACK_STEPS = 3  # more than that is no looking late
NOTHING = math.nan


class Ring:
    """The last values of steps that are numbered on and on; NOTHING: that one was left out."""

    def __init__(self, steps: int) -> None:
        self._values = array("f", [NOTHING]) * steps
        self._last = -1

    def put(self, step: int, value: float) -> None:
        """One before the last is too late, unless the clock was set back: then those after it are of no time that there
        has been. Those in between were left out."""
        steps = len(self._values)
        if step < self._last:
            if self._last - step <= SET_BACK_STEPS:
                return
            for later in range(max(step, self._last - steps + 1), self._last + 1):
                self._values[later % steps] = NOTHING
            self._last = step - 1
        if self._last >= 0:
            for between in range(max(self._last + 1, step - steps + 1), step):
                self._values[between % steps] = NOTHING
        self._values[step % steps] = value
        self._last = step

    def last(self, until: int) -> list[float]:
        """Those up to that step, oldest first, as many as there is room for."""
        steps = len(self._values)
        first = max(self._last - steps + 1, 0)
        return [
            self._values[step % steps] if first <= step <= self._last else NOTHING
            for step in range(until - steps + 1, until + 1)
        ]


class Series:
    def __init__(self) -> None:
        self._hour, self._day = Ring(HOUR_STEPS), Ring(DAY_STEPS)
        self._sum, self._count, self._coarse = 0.0, 0, -1

    def put(self, step: int, value: float) -> None:
        if not math.isfinite(value):
            return
        self._hour.put(step, value)
        coarse = step // COARSE
        if coarse != self._coarse:
            self._sum, self._count, self._coarse = 0.0, 0, coarse
        self._sum, self._count = self._sum + value, self._count + 1
        self._day.put(coarse, self._sum / self._count)

    def told(self, step: int, day: bool) -> list[float | None]:
        """For JSON; None: nothing is known of that time."""
        values = self._day.last(step // COARSE) if day else self._hour.last(step)
        return [None if math.isnan(value) else _short(value) for value in values]


def _short(value: float) -> float:
    """Four digits: a page shows no more."""
    return float(f"{value:.4g}")
