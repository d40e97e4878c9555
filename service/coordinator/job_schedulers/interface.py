"""What a scheduler sees of jobs, and how an order of jobs becomes the jobs that run. Pure.

Jobs are columns: thousands wait, and are put in order each round.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import astuple, dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]
_AT_A_TIME = 2  # jobs for each accelerator: some want many, and are passed over when few are left


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
class JobRequests:
    """`JobRequest`s; every column is as long."""

    names: npt.NDArray[np.str_]
    accelerators: Floats
    submitted_at_s: Floats
    dataset_bytes: Floats
    ideal_bytes_per_s: Floats
    remaining_bytes: Floats
    done_bytes: Floats
    served_s: Floats

    @classmethod
    def of(cls, jobs: Sequence[JobRequest]) -> JobRequests:
        names = np.array([job.name for job in jobs], np.str_)
        rows = np.array([astuple(job)[1:] for job in jobs], np.float64).reshape(len(jobs), 7)
        return cls(names, *rows.T)

    def __len__(self) -> int:
        return len(self.names)


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

    def keys(self, jobs: JobRequests, capacity: Capacity, count: int, now: float) -> Floats:
        """Of each of `jobs`; the least goes first; of equals who was submitted first.

        A key does not change while a job waits, unless there is a `round_s`.

        Args:
          count: how many jobs there are, waiting or running, of which `jobs` may be some.
        """


def in_order(scheduler: Scheduler, jobs: JobRequests, capacity: Capacity, now: float) -> Ints:
    """Numbers of `jobs`. Of those that are equal in all else the first by name goes first."""
    return _by(scheduler.keys(jobs, capacity, len(jobs), now), jobs.submitted_at_s, jobs.names)


def _by(keys: Floats, submitted_at_s: Floats, names: npt.NDArray[np.str_]) -> Ints:
    order = np.lexsort((submitted_at_s, keys))
    equal = (np.diff(keys[order]) == 0) & (np.diff(submitted_at_s[order]) == 0)
    return np.lexsort((names, submitted_at_s, keys)) if equal.any() else order


def _first(keys: Floats, count: int) -> Ints:
    """So many of the least, and those that are equal to the last of them."""
    return np.flatnonzero(keys <= np.partition(keys, count)[count]) if count < len(keys) else np.arange(len(keys))


def first_that_fit(wanted: Iterable[float], accelerators: float, pass_over: bool) -> list[int]:
    """Which run, of jobs in order, by the accelerators they want. Unless it may be passed over, the first that does not
    fit ends it: small jobs that came later would keep a large one waiting without end."""
    chosen = []
    for at, accelerators_each in enumerate(wanted):
        if not accelerators:
            break
        if accelerators_each <= accelerators:
            chosen.append(at)
            accelerators -= accelerators_each
        elif not pass_over:
            break
    return chosen


def choose(scheduler: Scheduler, jobs: JobRequests, running: Bools, capacity: Capacity, now: float) -> Ints:
    """Numbers of those of `jobs` that run from now on; `running`: which do now."""
    if not len(jobs):
        return np.zeros(0, np.int64)
    if scheduler.round_s is not None:
        keys = scheduler.keys(jobs, capacity, len(jobs), now)
        # Of thousands those that come first are put in order, and nearly always fill the cluster.
        for first in (_first(keys, _AT_A_TIME * capacity.accelerators), np.arange(len(jobs))):
            every = first[_by(keys[first], jobs.submitted_at_s[first], jobs.names[first])]
            # The next round is another one's turn, so nobody waits without end.
            fit = first_that_fit(jobs.accelerators[every].tolist(), capacity.accelerators, pass_over=True)
            if len(first) == len(jobs) or jobs.accelerators[every[fit]].sum() == capacity.accelerators:
                break
        return np.asarray(every[fit])
    free = capacity.accelerators - float(jobs.accelerators[running].sum())
    order = in_order(scheduler, jobs, capacity, now)
    waiting = order[~running[order]]
    begun = first_that_fit(jobs.accelerators[waiting].tolist(), free, pass_over=False)
    return np.concatenate((np.flatnonzero(running), waiting[begun]))
