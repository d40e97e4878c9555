"""Jobs that do not read each record once an epoch get a partition of their own (SiloD, EuroSys'23, section 6). Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from tfquiver.amounts import of_bytes
from tfquiver.service.coordinator.policies.columns import given_columns
from tfquiver.service.coordinator.policies.interface import Allocation, ClusterView, DatasetView, JobView, Plan
from tfquiver.service.coordinator.policies.pins import (
    free,
    free_bytes,
    jobs_by_dataset,
    pin_reasons,
    pinned,
    remote_pins,
)
from tfquiver.service.coordinator.speed_model.demand import lacking_now, remote_reasons, share_remote
from tfquiver.service.coordinator.speed_model.filling import fill


def in_parts(view: ClusterView, plan_regular: Callable[[ClusterView], Plan]) -> Plan:
    """The plan of `plan_regular` for the regular jobs' part; the others' part they share as they would any cache."""
    columns = given_columns(view)
    if not (any(job.irregular for job in view.jobs) if columns is None else columns.irregular.any()):
        return plan_regular(view)
    regular, irregular = partition(view)
    if not irregular.jobs:
        return plan_regular(view)
    plans = (plan_regular(regular), _plan_irregular(irregular))
    return Plan(*({**getattr(plans[0], key), **getattr(plans[1], key)} for key in _FIELDS))


_FIELDS = ("allocations", "remote_bytes_per_s", "reasons")


def partition(view: ClusterView) -> tuple[ClusterView, ClusterView]:
    """The view's regular and irregular parts: cache and bandwidth that no pin takes, by accelerators.

    A data set that regular jobs read too, and the irregular ones that read it, count as regular: they share its cache.
    """
    jobs = jobs_by_dataset(view)
    odd = {name for name, readers in jobs.items() if all(job.irregular for job in readers)}
    parts = []
    for irregular in (False, True):
        datasets = [dataset for dataset in view.datasets if (dataset.name in odd) is irregular]
        readers = [job for job in view.jobs if (job.dataset in odd) is irregular]
        parts.append(_part(view, datasets, readers))
    return parts[0], parts[1]


def _part(view: ClusterView, datasets: Sequence[DatasetView], jobs: Sequence[JobView]) -> ClusterView:
    share = sum(job.accelerators for job in jobs) / max(1, sum(job.accelerators for job in view.jobs))
    pins_bytes = sum(dataset.pin.cache_bytes for dataset in datasets if dataset.pin)
    cache_bytes = pins_bytes + int(free_bytes(view) * share)
    remote = view.remote_bytes_per_s
    if remote is not None:
        own, names = remote_pins(view), {job.name for job in jobs}
        left = max(0.0, remote - sum(own.values()))
        remote = left * share + sum(pin for name, pin in own.items() if name in names)
    return replace(view, cache_bytes=cache_bytes, remote_bytes_per_s=remote, datasets=tuple(datasets), jobs=tuple(jobs))


def _plan_irregular(view: ClusterView) -> Plan:
    """`lru`, since what was read just now may be wanted again at once (section 7.4); by accelerators."""
    jobs = jobs_by_dataset(view)
    caps = {dataset.name: dataset.size_bytes for dataset in free(view)}
    parts = fill(free_bytes(view), caps, {name: sum(job.accelerators for job in jobs[name]) for name in caps})
    allocations = pinned(view) | {name: Allocation("lru", int(part)) for name, part in parts.items()}
    reasons = {
        name: f"irregular: its jobs do not read each record once an epoch; {of_bytes(part)} of the "
        f"{of_bytes(view.cache_bytes)} that such jobs have, by accelerators"
        for name, part in parts.items()
    }
    lacking = lacking_now(view, allocations)
    remote = share_remote(view, lacking)
    return Plan(allocations, remote, remote_reasons("irregular", view, lacking, remote) | reasons | pin_reasons(view))
