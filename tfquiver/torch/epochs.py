"""Counts the iterations of one data set in one rank, so that all its workers mean the same one.

A DataLoader forks or spawns its workers, each with a copy of the data set, and tells them nothing of which iteration
this is; with `persistent_workers` the copies live on. So the count is in memory that they share.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import uuid
from collections.abc import Iterator
from multiprocessing import context
from typing import Any

from tfquiver import errors
from tfquiver.torch import processes
from tfquiver.torch.participants import Worker

_KNOWN = 256  # of the last iterations: their workers may come in between one another
_LOCKED_S = 30.0  # what is done under the lock takes microseconds
_NEXT_EPOCH, _BEGUN, _FIRST = 0, 1, 2  # places in the memory; then, of each known iteration:
_WHO, _WORKER_0, _NUMBER, _EPOCH, _PLACES = 0, 1, 2, 3, 4


class Iterations:
    """Thread-safe, and safe in forked and spawned workers. A copy that is no worker's (`copy.deepcopy`, a pickle in
    another process) counts by itself, and is named by `copy`: its iterations are none of the original's."""

    def __init__(self) -> None:
        self.copy = ""
        self._shared = self._new([0] * (_FIRST + _KNOWN * _PLACES))

    @staticmethod
    def _new(numbers: list[int]) -> Any:
        return multiprocessing.get_context("spawn").Array("q", numbers)

    def begin(self, worker: Worker, again: int) -> tuple[int, int]:
        """(number of the iteration, number of its epoch) for a worker that begins it.

        Args:
          again: how many iterations this copy of the data set has begun before (persistent workers).
        """
        with self._locked() as shared:
            who = 0 if worker.loader is None else hash((worker.loader, again)) & (1 << 62) - 1 | 1
            known = range(_FIRST, len(shared), _PLACES)
            for at in known if who else ():
                if shared[at + _WHO] == who and shared[at + _WORKER_0] == worker.first:
                    return shared[at + _NUMBER], shared[at + _EPOCH]
            number, epoch = shared[_BEGUN], shared[_NEXT_EPOCH]
            shared[_BEGUN], shared[_NEXT_EPOCH] = number + 1, epoch + 1
            at = known[number % _KNOWN]
            shared[at : at + _PLACES] = [who, worker.first, number, epoch]
            return number, epoch

    def set_epoch(self, epoch: int) -> None:
        """The next iteration reads this epoch, and those after it the next ones."""
        with self._locked() as shared:
            shared[_NEXT_EPOCH] = epoch

    @contextlib.contextmanager
    def _locked(self) -> Iterator[Any]:
        lock = self._shared.get_lock()
        if not lock.acquire(timeout=_LOCKED_S):
            raise errors.UnavailableError(
                "a worker was killed while it began an iteration, and nobody can count them any more: make the data "
                "set again"
            )
        try:
            yield self._shared.get_obj()
        finally:
            lock.release()

    def __getstate__(self) -> dict[str, Any]:
        if context.get_spawning_popen() is not None:
            return {"copy": self.copy, "_shared": self._shared, "begun": processes.spawned()}
        with self._locked() as shared:
            return {"numbers": list(shared)}

    def __setstate__(self, state: dict[str, Any]) -> None:
        if "begun" in state:
            processes.say(state["begun"])
        self.copy = state["copy"] if "_shared" in state else uuid.uuid4().hex
        self._shared = state["_shared"] if "_shared" in state else self._new(state["numbers"])
