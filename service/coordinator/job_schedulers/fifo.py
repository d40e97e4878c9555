"""First in, first out. Pure."""

from __future__ import annotations

from tfquiver.service.coordinator.job_schedulers.interface import Capacity, JobRequest


class Fifo:
    round_s = None

    def key(self, job: JobRequest, capacity: Capacity, jobs: int, now: float) -> float:
        return job.submitted_at_s
