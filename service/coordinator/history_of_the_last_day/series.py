"""One figure over time: the last hour in steps of ten seconds, the last day in steps of two minutes."""

from __future__ import annotations

import math
from array import array

import numpy as np
import numpy.typing as npt

STEP_S = 10.0
HOUR_STEPS = 360
COARSE = 12  # steps that make one of the day's
DAY_STEPS = 720
SET_BACK_STEPS = 3  # more than that is no looking late
NOTHING = math.nan
_DIGITS, _LEAST = 4, 1e-12  # what is less is nothing


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

    def last(self, until: int) -> npt.NDArray[np.float64]:
        """Those up to that step, oldest first, as many as there is room for."""
        steps = len(self._values)
        numbers = np.arange(until - steps + 1, until + 1)
        is_kept = (numbers > self._last - steps) & (numbers >= 0) & (numbers <= self._last)
        values = np.frombuffer(self._values, np.float32)[numbers % steps]
        return np.where(is_kept, values.astype(np.float64), NOTHING)


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
        is_known = ~np.isnan(values)
        told = np.full(len(values), None, object)
        told[is_known] = _short(values[is_known])
        found: list[float | None] = told.tolist()
        return found


def _short(values: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Four digits: a page shows no more. All at once: a page of a day asks the coordinator for 40 000."""
    at = _DIGITS - 1 - np.floor(np.log10(np.maximum(np.abs(values), _LEAST))).astype(int)
    # A power of ten that is a whole number: what is divided by it is written with no more digits than it has.
    whole = 10.0 ** np.abs(at)
    short: npt.NDArray[np.float64] = np.where(at >= 0, np.rint(values * whole) / whole, np.rint(values / whole) * whole)
    return short
