"""For how long each of a dispatcher's workers has not answered, and nobody has waited for a task of its (pure)."""

from __future__ import annotations

from collections.abc import Container, Iterable
from dataclasses import dataclass

from tfquiver.clock import Clock


@dataclass(slots=True)
class Seen:
    """When it last was so; at first: when the worker was first heard of."""

    answered_at: float
    awaited_at: float


class WorkerWatch:
    """Not thread-safe."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._seen: dict[str, Seen] = {}

    def look(
        self, workers: Iterable[str], answering: Container[str], awaited: Container[str]
    ) -> dict[str, tuple[float, float]]:
        """Address -> seconds of silence and seconds idle, those that are silent for the longest time first.

        Args:
          workers: addresses of all that the dispatcher counts on; others are forgotten.
          answering: those that have just answered.
          awaited: those with tasks that are not finished.
        """
        now = self._clock.now()
        self._seen = {worker: self._seen.get(worker) or Seen(now, now) for worker in workers}
        for worker, seen in self._seen.items():
            if worker in answering:
                seen.answered_at = now
            if worker in awaited:
                seen.awaited_at = now
        found = {worker: (now - seen.answered_at, now - seen.awaited_at) for worker, seen in self._seen.items()}
        return dict(sorted(found.items(), key=lambda one: -one[1][0]))
