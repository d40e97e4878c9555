"""Shortest job first over several resources (SiloD section 5.1, after Tetris and Tiresias). Pure."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tfquiver.service.coordinator.job_schedulers.interface import Capacity, Floats, JobRequests


@dataclass(frozen=True)
class ShortestJobFirst:
    """The least share of the cluster's resources times duration goes first; weights are 1 / total.

    joint: over accelerators, cache and remote I/O (equation 7); else over accelerators alone (equation 6), as a
      scheduler does that knows nothing of storage.
    """

    joint: bool = True
    round_s = None

    def keys(self, jobs: JobRequests, capacity: Capacity, count: int, now: float) -> Floats:
        duration_s = jobs.remaining_bytes / jobs.ideal_bytes_per_s
        shares = jobs.accelerators / capacity.accelerators
        keys: Floats = duration_s * (shares + _storage_shares(jobs, capacity) if self.joint else shares)
        return keys


def _storage_shares(jobs: JobRequests, capacity: Capacity) -> Floats:
    """The least over all allocations: (share + c/C + b/B) / f falls with f, so f = f*; then it is linear in c, so that
    all or nothing is cached."""
    cached_bytes = np.minimum(jobs.dataset_bytes, capacity.cache_bytes)
    remote_bytes_per_s = jobs.ideal_bytes_per_s * (1 - cached_bytes / jobs.dataset_bytes)
    cache_shares = cached_bytes / capacity.cache_bytes if capacity.cache_bytes else 0.0
    least: Floats = np.minimum(
        jobs.ideal_bytes_per_s / capacity.remote_bytes_per_s,
        cache_shares + remote_bytes_per_s / capacity.remote_bytes_per_s,
    )
    return least
