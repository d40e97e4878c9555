"""What came of a simulation, and what no policy could have done better. Pure."""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean

from tfquiver import errors
from tfquiver.plain_text import shortened
from tfquiver.service.sim.job_queue_rates_store_bandwidth.samples import Sample
from tfquiver.service.sim.workloads_and_recordings.workload import Cluster, Workload
from tfquiver.sizes_durations_amounts.amounts import of_rate

YEAR_S, MOST_YEARS = 365 * 24 * 3600.0, 30


@dataclass(frozen=True, slots=True)
class Outcome:
    jct_s: Sequence[float]  # from submission to end, in the workload's order
    makespan_s: float  # from the first submission to the last end
    read_bytes: float
    store_bytes: float
    plans: int
    samples: Sequence[Sample]
    fairness: float  # over time; nan: no job ever ran
    probe_bytes: float = 0.0  # of `store_bytes`: past the cache, by jobs that miss on purpose

    @property
    def average_jct_s(self) -> float:
        return fmean(self.jct_s)


@dataclass(frozen=True, slots=True)
class Bound:
    """No schedule and no cache, even one that knows what will come, is faster."""

    average_jct_s: float
    makespan_s: float
    store_bytes: float  # each byte that is read at all, once


def bound(workload: Workload, cluster: Cluster) -> Bound:
    """Each job at its ideal rate from its submission; the accelerators as one machine that is never idle while there is
    work and does the shortest rest first, which makes the least average of all ways to use it; and what must leave
    the store at least once, through all its bandwidth."""
    jobs = workload.jobs
    first_s = min(job.submit_s for job in jobs)
    ideal_s = [job.total_bytes / job.ideal_bytes_per_s for job in jobs]
    came_s = [job.submit_s - first_s for job in jobs]
    work = [(at_s, need_s * job.accelerators) for at_s, job, need_s in zip(came_s, jobs, ideal_s, strict=True)]
    ends = _shortest_rest_first(work, cluster.accelerators)
    together_s = fmean(end - at_s for end, at_s in zip(ends, came_s, strict=True))
    once: dict[str, float] = {}
    for job in jobs:
        # A curriculum draws with replacement, and may see the same few records again.
        least = 0.0 if job.pacing else min(job.total_bytes, workload.datasets[job.dataset])
        once[job.dataset] = max(once.get(job.dataset, 0.0), least)
    store_bytes = sum(once.values())
    alone_end_s = max(at_s + need_s for at_s, need_s in zip(came_s, ideal_s, strict=True))
    makespan_s = max(alone_end_s, max(ends), store_bytes / cluster.remote_bytes_per_s)
    return Bound(max(fmean(ideal_s), together_s), makespan_s, store_bytes)


def check_end(workload: Workload, cluster: Cluster) -> None:
    """Raises InvalidArgumentError: even at best the jobs take longer than anybody waits, for a mistake in a unit."""
    job = max(workload.jobs, key=lambda one: one.total_bytes / one.ideal_bytes_per_s)
    least = bound(workload, cluster)
    alone_s = job.total_bytes / job.ideal_bytes_per_s
    if least.makespan_s <= MOST_YEARS * YEAR_S:
        return
    if least.store_bytes / cluster.remote_bytes_per_s > MOST_YEARS * YEAR_S:
        years = least.store_bytes / cluster.remote_bytes_per_s / YEAR_S
        what = f"cluster.store_per_s: at {of_rate(cluster.remote_bytes_per_s)} the first reads alone take"
    elif alone_s > MOST_YEARS * YEAR_S:
        years, what = alone_s / YEAR_S, f"job {shortened(job.name)}: epochs and reads_per_s: at its best it takes"
    else:
        years, what = least.makespan_s / YEAR_S, "jobs: from the first submission to the last end it is"
    raise errors.InvalidArgumentError(f"{what} {years:,.0f} years; at most {MOST_YEARS} are simulated")


def _shortest_rest_first(work: Sequence[tuple[float, float]], speed: float) -> list[float]:
    """When each of (submitted at, accelerator seconds) is done, where all accelerators can work on one."""
    ends = [0.0] * len(work)
    arrivals = sorted((at, need, number) for number, (at, need) in enumerate(work))
    now, rest = 0.0, list[tuple[float, int]]()
    for at, need, number in [*arrivals, (float("inf"), 0.0, -1)]:
        while rest and now < at:
            left, shortest = heapq.heappop(rest)
            if now + left / speed > at:
                heapq.heappush(rest, (left - (at - now) * speed, shortest))
                break
            now += left / speed
            ends[shortest] = now
        now = at
        heapq.heappush(rest, (need, number))
    return ends
