"""Gavel's max-min fairness, in rounds (SiloD section 5.2; Gavel, OSDI 2020, section 5). Pure."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tfquiver.service.coordinator.job_schedulers.interface import Capacity, Floats, JobRequests

ROUND_S = 1800.0


@dataclass(frozen=True)
class Gavel:
    """Each round goes to those that have done the least of what an equal division of the cluster would have given them.

    Over time this raises the least such ratio, which is the objective, in any number of rounds.

    joint: the ratio of what was read, against an equal division of accelerators, cache and remote I/O (equation 9);
      else of the time it had accelerators for, against an equal division of these (equation 8), as a scheduler does
      that knows nothing of storage.
    """

    joint: bool = True
    round_s: float = ROUND_S

    def keys(self, jobs: JobRequests, capacity: Capacity, count: int, now: float) -> Floats:
        age_s = now - jobs.submitted_at_s
        if self.joint:
            had, due = jobs.done_bytes, equal_bytes_per_s(jobs, capacity, count)
        else:
            had, due = jobs.served_s, accelerator_shares(jobs.accelerators, capacity, count)
        return np.divide(had, age_s * due, out=np.zeros(len(jobs)), where=age_s > 0)


def accelerator_shares(accelerators: Floats, capacity: Capacity, count: int) -> Floats:
    """Part of the accelerators that each job wants that an equal division among `count` gives it, at most 1."""
    shares: Floats = np.minimum(1.0, capacity.accelerators / count / accelerators)
    return shares


def equal_bytes_per_s(jobs: JobRequests, capacity: Capacity, count: int) -> Floats:
    """SiloDPerf (equation 4) of each job at an equal division among `count`."""
    compute = jobs.ideal_bytes_per_s * accelerator_shares(jobs.accelerators, capacity, count)
    missed = 1 - np.minimum(1.0, capacity.cache_bytes / count / jobs.dataset_bytes)
    remote = capacity.remote_bytes_per_s / count
    limits = np.divide(remote, missed, out=np.full(len(jobs), np.inf), where=missed > 0)
    equal: Floats = np.minimum(compute, limits)
    return equal
