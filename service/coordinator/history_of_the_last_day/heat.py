"""How much of each chunk of a data set was cached, over time."""

from __future__ import annotations

import base64

import numpy as np
import numpy.typing as npt

from tfquiver.service.coordinator.history_of_the_last_day.series import SET_BACK_STEPS

MOST_ROWS = 64
FULL = 254  # of a byte: all of it
NOTHING = 255


class HeatMap:
    """Columns are steps, rows are chunks, a few together where there are many of them."""

    def __init__(self, steps: int) -> None:
        self._cells = np.full((steps, MOST_ROWS), NOTHING, np.uint8)
        self.last, self._rows = -1, 0  # of the steps that were put

    def put(self, step: int, shares: npt.NDArray[np.float64]) -> None:
        """`shares`: 0 to 1, of each chunk. Another number of chunks than before begins anew."""
        rows = min(len(shares), MOST_ROWS)
        if not rows or self.last - SET_BACK_STEPS <= step < self.last:
            return
        if step < self.last:  # the clock was set back
            self._cells[:], self.last = NOTHING, -1
        if rows != self._rows:
            self._cells[:], self._rows = NOTHING, rows
        steps = len(self._cells)
        if self.last >= 0:
            for between in range(max(self.last + 1, step - steps + 1), step):
                self._cells[between % steps] = NOTHING
        starts = np.linspace(0, len(shares), rows, endpoint=False).astype(int)
        together = np.add.reduceat(shares, starts) / np.diff([*starts, len(shares)])
        self._cells[step % steps, :rows] = np.clip(together * FULL, 0, FULL).astype(np.uint8)
        self.last = step

    def told(self, until: int) -> dict[str, object]:
        """`cells`: base64, a byte a cell, a column after the other, the oldest first; 255: not known."""
        steps = len(self._cells)
        first = max(self.last - steps + 1, 0)
        columns = [
            self._cells[step % steps, : self._rows].tobytes()
            if first <= step <= self.last
            else bytes([NOTHING]) * self._rows
            for step in range(until - steps + 1, until + 1)
        ]
        return {"rows": self._rows, "columns": steps, "cells": base64.b64encode(b"".join(columns)).decode()}


def shares_of_ranges(resident: bytes) -> npt.NDArray[np.float64]:
    """Of a data set without chunks: of equal runs of its shards (`resident`: a byte each), which part is there."""
    there = np.frombuffer(resident, np.uint8) > 0
    if not len(there):
        return np.zeros(0)
    starts = np.linspace(0, len(there), min(len(there), MOST_ROWS), endpoint=False).astype(int)
    counts = np.add.reduceat(there.astype(np.int64), starts)
    shares: npt.NDArray[np.float64] = counts / np.diff([*starts, len(there)])
    return shares
