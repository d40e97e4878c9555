"""Gavel's max-min fairness, in rounds (SiloD section 5.2; Gavel, OSDI 2020, section 5). Pure."""

from __future__ import annotations

from dataclasses import dataclass

from tfquiver.service.coordinator.job_schedulers.interface import Capacity, JobRequest

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

    def key(self, job: JobRequest, capacity: Capacity, jobs: int, now: float) -> float:
        age_s = now - job.submitted_at_s
        if age_s <= 0:
            return 0.0
        if self.joint:
            return job.done_bytes / (age_s * equal_bytes_per_s(job, capacity, jobs))
        return job.served_s / (age_s * accelerator_share(job, capacity, jobs))


def accelerator_share(job: JobRequest, capacity: Capacity, jobs: int) -> float:
    """Part of the accelerators it wants that an equal division among `jobs` gives it, at most 1."""
    return min(1.0, capacity.accelerators / jobs / job.accelerators)


def equal_bytes_per_s(job: JobRequest, capacity: Capacity, jobs: int) -> float:
    """SiloDPerf (equation 4) at an equal division among `jobs`."""
    compute = job.ideal_bytes_per_s * accelerator_share(job, capacity, jobs)
    missed = 1 - min(1.0, capacity.cache_bytes / jobs / job.dataset_bytes)
    remote = capacity.remote_bytes_per_s / jobs
    return compute if compute * missed <= remote else remote / missed
