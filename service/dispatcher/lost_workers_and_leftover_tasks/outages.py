"""Since when each worker may have been away for those who read from it, over restarts of the dispatcher (pure).

Who was away before the dispatcher started was so for no longer than since the one before it looked for the last time,
which it notes (seen_file.py). A worker that has just come back, and goes again, counts as away from the first time on:
a client that lets time pass between two attempts may not have reached it between.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass

# What of a connection the client may still take for one, where nobody has told it that it is closed: its machine was
# cut off, and the kernel gives it up after 30 s (worker_connections.py).
SILENT_S = 40.0
LEAST_S, _MORE_S = 20.0, 10.0
_MOST_S = 150.0  # gRPC lets no more than 120 s pass, and up to a fifth of it more; also where nobody knows for how long


def until_asked_s(away_s: float | None, least_s: float = LEAST_S) -> float:
    """For so long a client that waits may not ask a worker that is back. None: nobody knows how long it was away."""
    return _MOST_S if away_s is None else min(max(least_s, _MORE_S + away_s), _MOST_S)


@dataclass(slots=True)
class Outage:
    """Times are those of this machine since it was started: they mean the same to the next process."""

    since: float | None  # None: nobody knows
    back: float | None = None  # None: it is away

    def is_over(self, now: float) -> bool:
        """Who waits for this worker has asked it since."""
        if self.back is None:
            return False
        away_s = None if self.since is None else self.back - self.since
        return now - self.back >= until_asked_s(away_s, SILENT_S)


class Outages:
    """Not thread-safe."""

    def __init__(self, looked: float | None = None, noted: Mapping[str, Outage] | None = None) -> None:
        """
        Args:
          looked: when the dispatcher before this one did so for the last time; None: nobody knows.
          noted: by that one, then: no other worker with tasks was away, or had been lately.
        """
        self._looked, self.now = looked, dict(noted or {})

    def look(
        self,
        workers: Collection[str],
        answering: Collection[str],
        anew: Collection[str],
        silent_since: Callable[[str], float | None],
        now: float,
    ) -> None:
        """
        Args:
          workers: all that have tasks; others are forgotten.
          anew: those that answer, and have lost their tasks: since the last look, or before the first one.
          silent_since: of a worker; None: it answers.
        """
        self.now = {worker: one for worker, one in self.now.items() if worker in workers and not one.is_over(now)}
        for worker in workers:
            answers = worker in answering
            if answers and worker not in anew:
                if (one := self.now.get(worker)) and one.back is None:
                    one.back = now
                continue
            one = self.now.setdefault(worker, Outage(self._before(silent_since(worker))))
            one.back = now if answers else None
        self._looked = now

    def since(self, worker: str) -> float | None:
        """Of one that was away at the last look; None: nobody knows."""
        return self.now[worker].since

    def _before(self, silent_since: float | None) -> float | None:
        if self._looked is None or silent_since is None:
            return self._looked
        return min(self._looked, silent_since)
