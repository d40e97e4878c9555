"""What a policy is shown of the jobs: everything, or what a running coordinator would have measured. Pure.

A coordinator knows nothing of a job that has just begun. A job that the store keeps waiting is seen to wait nearly all
the time, and is taken to read ten times as fast as it does, until it has read for a window without waiting. One that
has ended is believed to be between two epochs for a while. What the store gives and what is left to read
are not known (cluster_view.py); how many accelerators a job has is, as its training processes say it. How much it
gains is known when it has been probed.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf

import numpy as np

from tfquiver.service.coordinator.dataset_caching.chunk_counts import TWO_CHUNKS, relevance_chunks
from tfquiver.service.coordinator.measuring_jobs_and_stores.job_meter import WINDOW_S, WINDOWS, Measured
from tfquiver.service.coordinator.measuring_jobs_and_stores.meters import GONE_S, SILENT_S
from tfquiver.service.coordinator.policies.views_and_plans.check import MOST_BYTES_PER_S
from tfquiver.service.coordinator.policies.views_and_plans.interface import JobView
from tfquiver.service.coordinator.probing.ideal import could_read
from tfquiver.service.coordinator.probing.probe import ProbeResult
from tfquiver.service.sim.job_queue_rates_store_bandwidth.jobs import Jobs
from tfquiver.service.sim.job_queue_rates_store_bandwidth.sharing import Floats
from tfquiver.service.sim.workloads_and_recordings.workload import SHARD_BYTES

_FIRST_S = 1.0  # of a job that has read for less nothing is said
_AT_IDEAL = 0.999


@dataclass(frozen=True, slots=True)
class Sight:
    measured: bool = False

    @property
    def gone_s(self) -> float:
        return GONE_S if self.measured else 0.0


SIGHTS = {"all": Sight(), "measured": Sight(measured=True)}


class Meters:
    """What the coordinator's would say. `read` it after every stretch of time with constant rates."""

    def __init__(self, jobs: Jobs) -> None:
        count = len(jobs.all)
        self._jobs = jobs
        self._began = np.full(count, inf)
        self._not_waiting_since = np.full(count, inf)
        self._seen_until = np.full(count, -inf)  # a window without waiting is remembered until then
        self._rate = np.zeros(count)

    def read(self, from_s: float, to_s: float, rates: Floats, hits: Floats) -> None:
        """Of the running jobs, in between: what each read, and the part that it found, which it reads first."""
        running = self._jobs.running
        self._began[running] = np.minimum(self._began[running], from_s)
        self._rate[running] = rates
        ideal = self._jobs.ideal[running]
        found_s = hits * self._jobs.size[running] / ideal  # of an epoch
        idle = (rates < ideal * _AT_IDEAL) & (found_s < WINDOW_S)
        since = np.where(idle, inf, np.minimum(self._not_waiting_since[running], from_s))
        self._not_waiting_since[running] = since
        whole = to_s - since >= np.minimum(WINDOW_S, np.maximum(to_s - self._began[running], _FIRST_S))
        self._seen_until[running[whole]] = to_s + WINDOWS * WINDOW_S

    def measured(self, number: int, now: float) -> Measured | None:
        if now - self._began[number] < _FIRST_S or now - self._jobs.ended_s[number] >= SILENT_S:
            return None
        waits = bool(self._seen_until[number] <= now)
        ideal = None if waits else self._jobs.all[number].ideal_bytes_per_s
        return Measured(float(self._rate[number]), 1.0 if waits else 0.0, None, ideal)

    def shown(self, number: int, now: float, probed: ProbeResult | None) -> JobView:
        job, measured = self._jobs.all[number], self.measured(number, now)
        could = could_read(measured, probed) if measured else None
        return JobView(
            job.name,
            job.dataset,
            ideal_bytes_per_s=min(could, MOST_BYTES_PER_S) if could else None,
            hit_bytes_per_s=probed.hit_bytes_per_s if probed else None,
            miss_bytes_per_s=probed.miss_bytes_per_s if probed else None,
            accelerators=job.accelerators,
            irregular=job.pacing is not None,
        )


def two_chunks_bytes(disk_bytes: int, shards: int | None) -> int:
    """The least that `cooperative` needs, by the rotation's own count of chunks."""
    chunks = relevance_chunks(disk_bytes, 1, shards or max(1, disk_bytes // SHARD_BYTES))
    return min(disk_bytes, int(TWO_CHUNKS * disk_bytes / chunks))
