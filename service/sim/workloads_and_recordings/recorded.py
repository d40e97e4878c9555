"""What was recorded of a cluster's jobs, as a workload that can be simulated, whatever was told. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from statistics import fmean

from tfquiver import errors
from tfquiver.service.sim.workloads_and_recordings.names import numbered, tidy
from tfquiver.service.sim.workloads_and_recordings.seen import Dataset, Seen, Visit
from tfquiver.service.sim.workloads_and_recordings.workload import Recorded, SimJob, Stored, Workload

MOST_BYTES = 2**59
MOST_BYTES_PER_S = 1e15
_MOST_PARTS = 1e8  # of a data set, that one job reads
_MOST = 2**50  # shards, and records
MOST_ACCELERATORS = 1_000_000  # of one job
_MOST_IN_ALL = 10_000_000  # that a scenario may have


def workload(visits: Sequence[Visit], known: Mapping[str, Dataset], anonymous: bool) -> Workload:
    """Of `visits` that have read something, over data sets that are `known` by their digests."""
    names, sizes, stored = _datasets([known[visit.digest] for visit in visits], anonymous)
    called = numbered("job" if anonymous else tidy(visit.job) for visit in visits)
    jobs = [_job(visit, name, names, sizes) for visit, name in zip(visits, called, strict=True)]
    return Workload(sizes, tuple(jobs), stored)


def accelerators(workload: Workload) -> int:
    """So many that nobody waits for some: in the cluster that was asked nobody did."""
    return min(max(1, sum(job.accelerators for job in workload.jobs)), _MOST_IN_ALL)


def as_now(seen: Sequence[Seen], epochs: float) -> Workload:
    """Those that read now, as if each began with so many epochs. Raises NotFoundError: none does, or none is measured.

    One of which nothing is measured counts as the mean of the others, as for policies.
    """
    reading = [one for one in seen if one.reads]
    if not reading:
        raise errors.NotFoundError(
            "no job reads now: ask while some do, or give a SCENARIO.json, as `tfquiver trace record` makes of "
            "jobs that ran"
        )
    rates = [one.ideal_bytes_per_s for one in reading if one.ideal_bytes_per_s]
    if not rates:
        raise errors.NotFoundError("of no job it is known yet what it reads: ask again in ten seconds")
    names, sizes, stored = _datasets([one.dataset for one in reading], anonymous=False)
    called = numbered(tidy(one.job) for one in reading)
    jobs = [
        SimJob(
            name,
            names[one.dataset.digest],
            min(max(one.ideal_bytes_per_s or fmean(rates), 1.0), MOST_BYTES_PER_S),
            0.0,
            min(max(1, one.accelerators), MOST_ACCELERATORS),
        )
        for one, name in zip(reading, called, strict=True)
    ]
    return Workload(sizes, tuple(replace(job, total_bytes=epochs * sizes[job.dataset]) for job in jobs), stored)


def _datasets(datasets: Sequence[Dataset], anonymous: bool) -> tuple[dict[str, str], dict[str, int], dict[str, Stored]]:
    """Names by digest; sizes, and what is known of how they are stored, by name."""
    each = list({one.digest: one for one in datasets}.values())
    called = numbered("data" if anonymous else tidy(one.name) for one in each)
    names = {one.digest: name for one, name in zip(each, called, strict=True)}
    sizes = {names[one.digest]: min(max(one.size_bytes, 1), MOST_BYTES) for one in each}
    stored = {
        names[one.digest]: Stored(min(one.disk_bytes, MOST_BYTES), one.shards, one.records)
        for one in each
        if one.disk_bytes > 0 and 0 < one.shards < _MOST and 0 < one.records < _MOST
    }
    return names, sizes, stored


def _job(visit: Visit, name: str, names: dict[str, str], sizes: dict[str, int]) -> SimJob:
    took_s = max((visit.ended_s if visit.ended_s is not None else visit.seen_s) - visit.began_s, 1.0)
    ideal = visit.ideal_bytes_per_s or visit.read_bytes / took_s  # nothing was measured: it read no slower than this
    dataset = names[visit.digest]
    recorded = Recorded(visit.read_bytes, visit.missed_bytes, visit.began_before, visit.ended_s)
    return SimJob(
        name, dataset, min(max(ideal, 1.0), MOST_BYTES_PER_S), min(visit.read_bytes, _MOST_PARTS * sizes[dataset]),
        visit.accelerators, visit.began_s,
        recorded=recorded,
        window_bytes=visit.window_bytes or None,
    )  # fmt: skip
