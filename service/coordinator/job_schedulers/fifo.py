"""First in, first out. Pure."""

from __future__ import annotations

from tfquiver.service.coordinator.job_schedulers.interface import Capacity, Floats, JobRequests


class Fifo:
    round_s = None

    def keys(self, jobs: JobRequests, capacity: Capacity, count: int, now: float) -> Floats:
        return jobs.submitted_at_s
