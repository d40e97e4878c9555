"""What jobs read, what of it comes from the store under given allocations, and what each then gets of it. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from statistics import fmean

import numpy as np

from tfquiver.service.coordinator.policies.pins import jobs_by_dataset, remote_pins
from tfquiver.service.coordinator.policies.views_and_plans.columns import AllocationColumns
from tfquiver.service.coordinator.policies.views_and_plans.interface import (
    MODES,
    Allocation,
    ClusterView,
    Floats,
    JobView,
    ViewColumns,
)
from tfquiver.service.coordinator.speed_model_and_weighted_shares.closed_form import (
    hit_ratio,
    remote_demand,
    throughput,
)
from tfquiver.service.coordinator.speed_model_and_weighted_shares.filling import fill
from tfquiver.sizes_durations_amounts.amounts import of_rate

# Of the jobs when not one is measured yet: ResNet-50 on a V100 (SiloD, section 2.2). Only ratios matter then.
UNMEASURED_BYTES_PER_S = 114e6
# Of an equal part of the store, granted even to who should find all in the cache: what has gone must be fetched again.
_LEAST_REMOTE_SHARE = 0.01
_UNIFORM = MODES.index("uniform")


def reading_rates(view: ClusterView) -> dict[str, float]:
    """Bytes/s of each job where data is never waited for; one that is not measured counts as the mean of the others."""
    known = {job.name: job.ideal_bytes_per_s or job.hit_bytes_per_s for job in view.jobs}
    measured = [rate for rate in known.values() if rate]
    mean = fmean(measured) if measured else UNMEASURED_BYTES_PER_S
    return {name: rate or mean for name, rate in known.items()}


def reading_rate_column(columns: ViewColumns) -> Floats:
    """`reading_rates`, in the order of the jobs."""
    known = np.where(columns.ideal_bytes_per_s > 0, columns.ideal_bytes_per_s, columns.hit_bytes_per_s)
    unknown = ~(known > 0)
    if unknown.any():
        measured = known[~unknown].tolist()
        known[unknown] = fmean(measured) if measured else UNMEASURED_BYTES_PER_S
    return known


def hit_ratio_column(
    columns: ViewColumns, allocations: Mapping[str, Allocation], resident_only: bool = False
) -> Floats:
    """`closed_form.hit_ratio` of each data set. `resident_only`: of what it may keep, what is there."""
    found = np.zeros(len(columns.datasets))
    by_column = allocations if isinstance(allocations, AllocationColumns) else None
    if by_column and by_column.names is columns.datasets and (by_column.modes == _UNIFORM).all():
        at, kept = by_column.places, by_column.cache_bytes
        kept = np.minimum(kept, columns.resident_bytes[at]) if resident_only else kept
        found[at] = np.minimum(1.0, kept / np.maximum(1, columns.size_bytes[at]))
        return found
    for place, name in enumerate(columns.datasets):
        if name in allocations:
            one, there = allocations[name], int(columns.resident_bytes[place])
            one = Allocation(one.mode, min(one.cache_bytes, there)) if resident_only else one
            found[place] = hit_ratio(one, int(columns.size_bytes[place]))
    return found


def demands(view: ClusterView, allocations: Mapping[str, Allocation], *, now: bool = False) -> dict[str, float]:
    """Bytes/s that each job takes from the store when none waits. `allocations` are taken as full.

    `now`: and what a job finds is no more than what it is seen to find: records that came after it had read them count
    from its next epoch on (SiloD, section 6, delayed effectiveness).

    Jobs that read a co-operative data set together take what the fastest lacks, once: it is charged to them in
    proportion to what they read. An irregular job (SiloD, section 6) shares no misses.
    """
    rates, sizes = reading_rates(view), {dataset.name: dataset for dataset in view.datasets}
    made: dict[str, float] = {}
    for name, jobs in jobs_by_dataset(view).items():
        allocation = allocations.get(name, Allocation())
        ratio = hit_ratio(allocation, sizes[name].size_bytes)
        together = [rates[job.name] for job in jobs if _shares_misses(job, allocation)]
        shared = max(together) / sum(together) if together else 1.0
        for job in jobs:
            found = min(ratio, job.hit_ratio) if now and job.hit_ratio is not None else ratio
            alone = remote_demand(rates[job.name], found)
            made[job.name] = alone * shared if _shares_misses(job, allocation) else alone
    return made


def spared(view: ClusterView, allocations: Mapping[str, Allocation]) -> float:
    """Bytes/s that do not leave the store, of what jobs read when none waits."""
    return max(0.0, sum(reading_rates(view).values()) - sum(demands(view, allocations).values()))  # but for rounding


def effective(view: ClusterView, allocations: Mapping[str, Allocation]) -> dict[str, Allocation]:
    """Of `allocations` what is resident already (SiloD, section 6: what is not yet there saves nothing)."""
    there = {dataset.name: dataset.resident_bytes for dataset in view.datasets}
    return {name: Allocation(one.mode, min(one.cache_bytes, there[name])) for name, one in allocations.items()}


def lacking_now(view: ClusterView, allocations: Mapping[str, Allocation]) -> dict[str, float]:
    """`demands` while these allocations fill: of them counts what is resident, and what the jobs find of that."""
    return demands(view, effective(view, allocations), now=True)


def share_remote(view: ClusterView, lacking: Mapping[str, float]) -> dict[str, float]:
    """Bytes/s for the jobs: none is limited while the store gives all that they lack, pins apart.

    Else what it gives is shared max-min: nobody gets more than he lacks, and who lacks more gets equal parts. So a job
    cannot be slowed down by those that lack more than their part.
    """
    pins = remote_pins(view)
    if view.remote_bytes_per_s is None:
        return pins
    rates = reading_rates(view)
    left = max(0.0, view.remote_bytes_per_s - sum(pins.values()))
    least = least_remote(left, len(view.jobs))
    wanted = {name: max(need, min(least, rates[name])) for name, need in lacking.items() if name not in pins}
    if sum(wanted.values()) <= left:
        return pins
    return pins | fill(left, wanted)


def least_remote(remote_bytes_per_s: float, jobs: int) -> float:
    return _LEAST_REMOTE_SHARE * remote_bytes_per_s / max(1, jobs)


def remote_reasons(
    rule: str, view: ClusterView, lacking: Mapping[str, float], remote: Mapping[str, float]
) -> dict[str, str]:
    """Why `share_remote` limited jobs as it did, by job."""
    all_lack, there = of_rate(sum(lacking.values())), of_rate(view.remote_bytes_per_s or 0)
    return {
        name: f"{rule}: lacks {of_rate(lacking[name])} of {all_lack} that all lack; of {there} from the store it has "
        f"{of_rate(part)}, shared max-min"
        for name, part in remote.items()
    }


def expected_rates(
    view: ClusterView, allocations: Mapping[str, Allocation], remote: Mapping[str, float]
) -> dict[str, float]:
    """Bytes/s that each job reads once the caches are full; `remote`: of the store, for jobs that are limited."""
    return rates_of(view, reading_rates(view), demands(view, allocations), remote)


def rates_of(
    view: ClusterView, rates: Mapping[str, float], lacking: Mapping[str, float], remote: Mapping[str, float]
) -> dict[str, float]:
    """`expected_rates`, of what `reading_rates` and `demands` gave: of ten thousand jobs each takes its time."""
    limited = dict(remote)
    if view.remote_bytes_per_s is not None:
        free = {name: need for name, need in lacking.items() if name not in remote}
        limited |= fill(max(0.0, view.remote_bytes_per_s - sum(remote.values())), free)
    made = {}
    for name, rate in rates.items():
        missing_share = lacking[name] / rate
        made[name] = throughput(rate, limited.get(name, lacking[name]), 1 - missing_share)
    return made


def _shares_misses(job: JobView, allocation: Allocation) -> bool:
    return allocation.mode == "cooperative" and not job.irregular
