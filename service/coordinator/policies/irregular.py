"""Jobs that do not read each record once an epoch get a partition of their own (SiloD, EuroSys'23, section 6). Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence, Set
from dataclasses import replace

from tfquiver.service.coordinator.policies import pins
from tfquiver.service.coordinator.policies.views_and_plans.columns import given_columns
from tfquiver.service.coordinator.policies.views_and_plans.interface import (
    Allocation,
    ClusterView,
    DatasetView,
    JobView,
    Plan,
)
from tfquiver.service.coordinator.speed_model_and_weighted_shares.demand import (
    lacking_now,
    remote_reasons,
    share_remote,
)
from tfquiver.service.coordinator.speed_model_and_weighted_shares.filling import fill
from tfquiver.sizes_durations_amounts.amounts import of_bytes


def in_parts(view: ClusterView, plan_regular: Callable[[ClusterView], Plan]) -> Plan:
    """The plan of `plan_regular` for the regular jobs' part; the others' part they share as they would any cache.

    An irregular job that reads a data set of regular ones is a *guest* there: it finds what they keep, and counts in
    nothing that is decided for them. What it takes from the store is of the irregular part.
    """
    columns = given_columns(view)
    if not (any(job.irregular for job in view.jobs) if columns is None else columns.irregular.any()):
        return plan_regular(view)
    regular, irregular = partition(view)
    plan = plan_regular(regular)
    visited = [one for one in regular.datasets if one.name in {job.dataset for job in irregular.jobs}]
    fixed = [replace(one, pin=plan.allocations.get(one.name, Allocation())) for one in visited]
    fixed_bytes = sum(one.pin.cache_bytes for one in fixed if one.pin)
    whole = replace(
        irregular, datasets=(*irregular.datasets, *fixed), cache_bytes=irregular.cache_bytes + fixed_bytes
    )  # fmt: skip
    others = _plan_irregular(whole, {one.name for one in fixed})
    return Plan(*({**getattr(plan, key), **getattr(others, key)} for key in _FIELDS))


_FIELDS = ("allocations", "remote_bytes_per_s", "reasons")


def without_guests(view: ClusterView) -> ClusterView:
    """With the jobs that decide how data sets are cached: what a plan is worth is counted by those it was made for."""
    if not any(job.irregular for job in view.jobs):
        return view
    regular = {job.dataset for job in view.jobs if not job.irregular}
    return replace(view, jobs=tuple(job for job in view.jobs if not job.irregular or job.dataset not in regular))


def partition(view: ClusterView) -> tuple[ClusterView, ClusterView]:
    """The view's regular and irregular parts, by accelerators: cache and bandwidth that no pin takes.

    Data sets that any regular job reads are of the regular part, all irregular jobs of the other one. Cache goes with
    the data sets, so that guests bring theirs where they are; bandwidth with the jobs.
    """
    odd = {name for name, readers in pins.jobs_by_dataset(view).items() if all(job.irregular for job in readers)}
    parts = []
    for irregular in (False, True):
        datasets = [dataset for dataset in view.datasets if (dataset.name in odd) is irregular]
        readers = [job for job in view.jobs if job.irregular is irregular]
        cached = [job for job in view.jobs if (job.dataset in odd) is irregular]
        parts.append(_part(view, datasets, readers, cached))
    return parts[0], parts[1]


def _accelerators(jobs: Sequence[JobView]) -> int:
    return sum(job.accelerators for job in jobs)


def _part(
    view: ClusterView, datasets: Sequence[DatasetView], jobs: Sequence[JobView], cached: Sequence[JobView]
) -> ClusterView:
    pins_bytes, everybody = sum(one.pin.cache_bytes for one in datasets if one.pin), max(1, _accelerators(view.jobs))
    # In whole numbers: of some petabytes both parts rounded would be more than all.
    cache_bytes = pins_bytes + pins.free_bytes(view) * _accelerators(cached) // everybody
    remote = view.remote_bytes_per_s
    if remote is not None:
        own, names = pins.remote_pins(view), {job.name for job in jobs}
        left = max(0.0, remote - sum(own.values()))
        remote = left * _accelerators(jobs) / everybody + sum(pin for name, pin in own.items() if name in names)
    return replace(view, cache_bytes=cache_bytes, remote_bytes_per_s=remote, datasets=tuple(datasets), jobs=tuple(jobs))


def _plan_irregular(view: ClusterView, visited: Set[str]) -> Plan:
    """`lru`, since what was read just now may be wanted again at once (section 7.4); by accelerators. `visited`: data
    sets of the regular part, which are pinned here as they were planned there."""
    jobs = pins.jobs_by_dataset(view)
    caps = {dataset.name: dataset.size_bytes for dataset in pins.free(view)}
    parts = fill(pins.free_bytes(view), caps, {name: sum(job.accelerators for job in jobs[name]) for name in caps})
    allocations = pins.pinned(view) | {name: Allocation("lru", int(part)) for name, part in parts.items()}
    reasons = {
        name: f"irregular: its jobs do not read each record once an epoch; {of_bytes(part)} of the "
        f"{of_bytes(pins.free_bytes(view))} that such jobs have, by accelerators"
        for name, part in parts.items()
    }
    lacking = lacking_now(view, allocations)
    remote = share_remote(view, lacking)
    limits = remote_reasons("irregular", view, lacking, remote)
    told = {job.name: _GUEST if job.dataset in visited else _AT_HOME for job in view.jobs}
    told |= {name: f"{told[name]}; {why}" for name, why in limits.items()}
    kept = {name: one for name, one in allocations.items() if name not in visited}
    of_pins = {name: why for name, why in pins.pin_reasons(view).items() if name not in visited}
    return Plan(kept, remote, reasons | told | of_pins)


_ODD = "irregular: it does not read each record once an epoch"
_AT_HOME = f"{_ODD}; it shares a partition of the cache with others like it"
_GUEST = f"{_ODD}; it finds what regular jobs keep of its data set, and counts in nothing that is decided for them"
