"""What people and outside schedulers have fixed, and what that leaves to a policy. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping

from tfquiver.service.coordinator.policies.views_and_plans.columns import given_columns
from tfquiver.service.coordinator.policies.views_and_plans.interface import (
    Allocation,
    ClusterView,
    DatasetView,
    JobView,
)


def pinned(view: ClusterView) -> dict[str, Allocation]:
    columns = given_columns(view)
    if columns is not None and not columns.pinned.any():
        return {}
    return {dataset.name: dataset.pin for dataset in view.datasets if dataset.pin is not None}


def remote_pins(view: ClusterView) -> dict[str, float]:
    columns = given_columns(view)
    if columns is not None and not columns.limited.any():
        return {}
    return {job.name: job.remote_pin_bytes_per_s for job in view.jobs if job.remote_pin_bytes_per_s is not None}


def free(view: ClusterView) -> list[DatasetView]:
    return [dataset for dataset in view.datasets if dataset.pin is None]


def free_bytes(view: ClusterView) -> int:
    """Cache that no pin takes: 0 when pins take more than there is, as when nodes are lost."""
    return max(0, view.cache_bytes - sum(pin.cache_bytes for pin in pinned(view).values()))


def jobs_by_dataset(view: ClusterView) -> dict[str, list[JobView]]:
    jobs: dict[str, list[JobView]] = defaultdict(list)
    for job in view.jobs:
        jobs[job.dataset].append(job)
    return dict(jobs)


def two_chunks_bytes(dataset: DatasetView) -> int:
    """The least that `cooperative` needs; a data set that is smaller than that needs itself."""
    return min(dataset.cooperative_bytes, dataset.size_bytes)


PINNED = (
    "set by a person: of a data set that is pinned `tfquiver dataset unpin NAME` gives it back to the policy, of "
    "another one `tfquiver dataset set-cache NAME auto`"
)

GIVEN_BACK = "given back to the policy: what a person had set stays until a plan is carried out"
_LIMITED = "what it may read from the store is set with `tfquiver limit`, or by an outside scheduler"


def pin_reasons(view: ClusterView) -> dict[str, str]:
    return dict.fromkeys(pinned(view), PINNED) | dict.fromkeys(remote_pins(view), _LIMITED)


def of_now(reasons: Mapping[str, str], view: ClusterView) -> dict[str, str]:
    """Those of an earlier plan, of what is there, while no later one is carried out: what people have set meanwhile, or
    taken back, they have."""
    there = {dataset.name for dataset in view.datasets} | {job.name for job in view.jobs}
    stay = {name: GIVEN_BACK if why == PINNED else why for name, why in reasons.items() if name in there}
    return {name: why for name, why in stay.items() if why != _LIMITED} | pin_reasons(view)
