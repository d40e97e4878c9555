"""For how long workers with tasks have not answered the reaper, over all epochs (pure).

Between two epochs a dead worker has no task. Who forgot it then would give it its time again in each epoch, and each
would end so much later: TensorFlow's dispatcher has a task of every epoch for it. So those that are silent are asked
also while nobody waits for them.

Silence alone may be a worker that is slow. One at whose address nobody listens is no process any more, or one that is
just starting, which has nothing yet: that is known sooner.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Set
from dataclasses import dataclass

# Of workers that are gone for good, under addresses that never come back, there may be thousands. An epoch that comes
# after so long a pause waits for the timeout once more.
KEPT_S = 600.0


@dataclass(slots=True)
class _Silence:
    since: float
    awaited_at: float
    awaited_since: float | None = None  # None: it has no unfinished tasks
    refusing_since: float | None = None  # None: it did not refuse when it was asked last
    refusals: int = 0  # since then


class Silences:
    """Not thread-safe."""

    def __init__(self) -> None:
        self._of: dict[str, _Silence] = {}

    def to_ask(self, awaited: Iterable[str], now: float) -> set[str]:
        """Those with unfinished tasks, and those that were silent, and had some not long ago."""
        return set(awaited) | {worker for worker, one in self._of.items() if now - one.awaited_at < KEPT_S}

    def look(
        self,
        asked: Iterable[str],
        answering: Container[str],
        awaited: Set[str],
        now: float,
        refusing: Container[str] = frozenset(),
    ) -> None:
        """Who answers, or is not asked, is silent no more."""
        self._of = {worker: self._of.get(worker) or _Silence(now, now) for worker in asked if worker not in answering}
        for worker, silence in self._of.items():
            if worker not in refusing:
                silence.refusing_since, silence.refusals = None, 0
            elif silence.refusing_since is None:
                silence.refusing_since, silence.refusals = now, 1
            else:
                silence.refusals += 1
            if worker not in awaited:
                silence.awaited_since = None
                continue
            silence.awaited_at = now
            if silence.awaited_since is None:
                silence.awaited_since = now

    def seconds(self, worker: str, now: float) -> float:
        return now - self._of[worker].since

    def since(self, worker: str) -> float | None:
        """When it was first seen to be; None: it is not."""
        silence = self._of.get(worker)
        return None if silence is None else silence.since

    def lasting(self, seconds: float, now: float) -> set[str]:
        """Silent for so long, whether anybody waited for them or not."""
        return {worker for worker, silence in self._of.items() if now - silence.since >= seconds}

    def refused_for(self, seconds: float, times: int, now: float) -> set[str]:
        """Nobody has listened there for so long, whenever it was asked, and it was so often."""
        return {
            worker
            for worker, silence in self._of.items()
            if silence.refusing_since is not None
            and silence.refusals >= times
            and now - silence.refusing_since >= seconds
        }

    def awaited_for(self, seconds: float, now: float) -> set[str]:
        """Silent for so long while they had unfinished tasks all the time: who is back may read what these lack."""
        return {
            worker
            for worker, silence in self._of.items()
            if silence.awaited_since is not None and now - silence.awaited_since >= seconds
        }
