"""Counts the iterations of one data set in one rank, so that all its workers mean the same one.

A DataLoader forks or spawns its workers, each with a copy of the data set, and tells them nothing of which iteration
this is; with `persistent_workers` the copies live on. So the count is in memory that they share.
"""

from __future__ import annotations

import multiprocessing
from multiprocessing import context
from typing import Any

_NOBODY = -1


class Iterations:
    """Thread-safe, and safe in forked and spawned workers. A pickled copy that is no worker's counts by itself."""

    def __init__(self) -> None:
        self._shared = self._new([0, _NOBODY, 0, 0])

    @staticmethod
    def _new(numbers: list[int]) -> Any:
        """Iterations begun, who began the last, epoch of the next, iterations of those that `set_epoch` begins with."""
        return multiprocessing.get_context("spawn").Array("q", numbers)

    def begin(self, loader: int | None, again: int) -> tuple[int, int]:
        """(number of the iteration, number of its epoch) for a worker that begins it.

        Args:
          loader: of participants.Worker; None: nobody else takes part.
          again: how many iterations this copy of the data set has begun before (persistent workers).
        """
        who = _NOBODY if loader is None else hash((loader, again)) & (1 << 62) - 1
        with self._shared.get_lock():
            if who == _NOBODY or who != self._shared[1]:
                self._shared[0] += 1
                self._shared[1] = who
                self._shared[3] = self._shared[2]
                self._shared[2] += 1
            return self._shared[0] - 1, self._shared[3]

    def set_epoch(self, epoch: int) -> None:
        """The next iteration reads this epoch, and those after it the next ones."""
        with self._shared.get_lock():
            self._shared[2] = epoch

    def __getstate__(self) -> dict[str, Any]:
        if context.get_spawning_popen() is not None:
            return {"_shared": self._shared}
        with self._shared.get_lock():
            return {"numbers": list(self._shared)}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self._shared = state["_shared"] if "_shared" in state else self._new(state["numbers"])
