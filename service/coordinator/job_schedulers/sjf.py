"""Shortest job first over several resources (SiloD section 5.1, after Tetris and Tiresias). Pure."""

from __future__ import annotations

from dataclasses import dataclass

from tfquiver.service.coordinator.job_schedulers.interface import Capacity, JobRequest


@dataclass(frozen=True)
class ShortestJobFirst:
    """The least share of the cluster's resources times duration goes first; weights are 1 / total.

    joint: over accelerators, cache and remote I/O (equation 7); else over accelerators alone (equation 6), as a
      scheduler does that knows nothing of storage.
    """

    joint: bool = True
    round_s = None

    def key(self, job: JobRequest, capacity: Capacity, jobs: int, now: float) -> float:
        duration_s = job.remaining_bytes / job.ideal_bytes_per_s
        share = job.accelerators / capacity.accelerators
        return duration_s * (share + self._storage_share(job, capacity) if self.joint else share)

    @staticmethod
    def _storage_share(job: JobRequest, capacity: Capacity) -> float:
        """The least over all allocations: (share + c/C + b/B) / f falls with f, so f = f*; then it is linear in c, so
        that all or nothing is cached."""
        shares = []
        for cached_bytes in (0.0, min(job.dataset_bytes, capacity.cache_bytes)):
            remote_bytes_per_s = job.ideal_bytes_per_s * (1 - cached_bytes / job.dataset_bytes)
            cache_share = cached_bytes / capacity.cache_bytes if cached_bytes else 0.0
            shares.append(cache_share + remote_bytes_per_s / capacity.remote_bytes_per_s)
        return min(shares)
