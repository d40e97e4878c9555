"""Jobs that read no more: who they were, and their last numbers, for a while. Pure.

In memory only; a coordinator that was restarted knows of none. Bounded: whoever opens thousands of jobs makes the
oldest forgotten, and nothing else.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, replace

from tfquiver.clock import Clock
from tfquiver.service.coordinator.measuring_jobs_and_stores.counters import Counters
from tfquiver.service.coordinator.measuring_jobs_and_stores.job_meter import Measured
from tfquiver.service.coordinator.policies.views_and_plans.interface import Allocation
from tfquiver.service.coordinator.policies.views_and_plans.names import Reads, of_several

MOST_JOBS = 256
KEPT_S = 3600.0


@dataclass(frozen=True, slots=True)
class FinishedJob:
    """What one job read of one data set. `totals` and `measured`: None: no reader has ever reported."""

    name: str  # as plans called it: unlike every other then, not since
    job: str
    dataset: str
    seen_at: float  # when it was last seen to read
    allocation: Allocation  # of the data set, at the end
    totals: Counters | None = None
    measured: Measured | None = None
    epoch: int = 0  # of its last session; 0 is the first
    acked: int = 0
    shards: int = 0
    whole: bool = False  # it has read its last epoch to the end


class FinishedJobs:
    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._jobs: OrderedDict[Reads, FinishedJob] = OrderedDict()  # who finished last, last

    def remember(self, key: Reads, job: FinishedJob) -> None:
        self._jobs[key] = job
        self._jobs.move_to_end(key)
        while len(self._jobs) > MOST_JOBS:
            self._jobs.popitem(last=False)

    def forget(self, key: Reads) -> None:
        """It reads again."""
        self._jobs.pop(key, None)

    def rename(self, called: Callable[[bytes], str]) -> None:
        """Data sets may be called otherwise now. `called`: as plans would call one; empty: it has been deleted."""
        for key, job in self._jobs.items():
            dataset = called(key[1])
            if dataset and dataset != job.dataset:
                several = job.name == of_several(job.job, job.dataset)
                name = of_several(job.job, dataset) if several else job.name
                self._jobs[key] = replace(job, dataset=dataset, name=name)

    def ago_s(self, job: FinishedJob) -> float:
        return self._clock.now() - job.seen_at

    def all(self, owns: Callable[[str], bool]) -> list[FinishedJob]:
        """Those that `owns` says yes to by their job; who finished last, first."""
        now = self._clock.now()
        while self._jobs and next(iter(self._jobs.values())).seen_at + KEPT_S <= now:
            self._jobs.popitem(last=False)
        return [one for one in reversed(self._jobs.values()) if owns(one.job)]

    def find(self, name: str, owns: Callable[[str], bool]) -> FinishedJob | None:
        """By the name that plans gave it, or else the last of that job."""
        known = self.all(owns)
        return next((one for one in known if one.name == name), None) or next(
            (one for one in known if one.job == name), None
        )
