"""What a scheduler sees of a job, and how an order of jobs becomes the jobs that run. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class JobRequest:
    name: str
    accelerators: int
    submitted_at_s: float
    dataset_bytes: float
    ideal_bytes_per_s: float  # f*: what it reads where data is never waited for
    remaining_bytes: float
    done_bytes: float = 0.0
    served_s: float = 0.0  # how long it has had its accelerators


@dataclass(frozen=True, slots=True)
class Capacity:
    accelerators: int
    cache_bytes: float
    remote_bytes_per_s: float  # inf: no limit is known


class Scheduler(Protocol):
    """One object is one rule; it remembers nothing."""

    @property
    def round_s(self) -> float | None:
        """How often who runs is decided anew, and may be stopped for another; None: who has begun runs to its end."""

    def key(self, job: JobRequest, capacity: Capacity, jobs: int, now: float) -> float:
        """The least goes first; of equals who was submitted first. `jobs`: how many there are, waiting or running.

        Does not change while a job waits, unless there is a `round_s`.
        """


def in_order(scheduler: Scheduler, jobs: Sequence[JobRequest], capacity: Capacity, now: float) -> list[JobRequest]:
    return sorted(jobs, key=lambda job: (scheduler.key(job, capacity, len(jobs), now), job.submitted_at_s, job.name))


def first_that_fit(jobs: Iterable[JobRequest], accelerators: int, pass_over: bool) -> list[JobRequest]:
    """Those that run, of jobs in order. Unless it may be passed over, the first that does not fit ends it: small jobs
    that came later would keep a large one waiting without end."""
    chosen = []
    for job in jobs:
        if job.accelerators <= accelerators:
            chosen.append(job)
            accelerators -= job.accelerators
        elif not pass_over:
            break
        if not accelerators:
            break
    return chosen


def choose(
    scheduler: Scheduler, running: Sequence[JobRequest], waiting: Sequence[JobRequest], capacity: Capacity, now: float
) -> list[str]:
    """The names of the jobs that run from now on."""
    if scheduler.round_s is not None:
        every = in_order(scheduler, [*running, *waiting], capacity, now)
        # The next round is another one's turn, so nobody waits without end.
        return [job.name for job in first_that_fit(every, capacity.accelerators, pass_over=True)]
    free = capacity.accelerators - sum(job.accelerators for job in running)
    begun = first_that_fit(in_order(scheduler, waiting, capacity, now), free, pass_over=False)
    return [job.name for job in (*running, *begun)]
