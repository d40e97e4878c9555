"""Views and plans that cannot be right, by the field that is wrong. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import TypeGuard

from tfquiver import errors
from tfquiver.plain_text import shortened
from tfquiver.service.coordinator.policies.pins import free_bytes, remote_pins, two_chunks_bytes
from tfquiver.service.coordinator.policies.views_and_plans.interface import (
    Allocation,
    ClusterView,
    DatasetView,
    JobView,
    Plan,
)
from tfquiver.service.coordinator.policies.views_and_plans.reasons import Reasons
from tfquiver.sizes_durations_amounts.amounts import apart, of_bytes

MOST_BYTES = 1 << 60  # an exbibyte: more than any cluster's disks hold
LEAST_BYTES_PER_S, MOST_BYTES_PER_S = 1e-6, float(1 << 50)
MOST_ACCELERATORS = 1_000_000
MOST_REASON = 10_000  # characters: each is kept with its decision, in the log and in messages
_MODES = ("none", "cooperative", "uniform", "lru")
_ROUNDING = 1e-6  # of a sum of rates


def check_view(view: ClusterView) -> None:
    """Raises InvalidArgumentError naming the field, NotFoundError for a job on a data set that is not in the view."""
    _amount("cache_bytes", view.cache_bytes)
    _rate("remote_bytes_per_s", view.remote_bytes_per_s, least=0.0)
    if view.accelerators is not None:
        _count("accelerators", view.accelerators)
    _once("datasets", (dataset.name for dataset in view.datasets))
    _once("jobs", (job.name for job in view.jobs))
    for dataset in view.datasets:
        _dataset(dataset)
    known = {dataset.name for dataset in view.datasets}
    for job in view.jobs:
        _job(job)
        if job.dataset not in known:
            field = f"{_named('jobs', job.name)}.dataset"
            raise errors.NotFoundError(f"{field}: no data set {shortened(job.dataset)} is registered")


def check_plan(plan: Plan, view: ClusterView) -> None:
    """For a view that `check_view` passes.

    Raises:
      InvalidArgumentError: an amount that cannot be right; a pin that is not kept.
      NotFoundError: a name that the view does not have.
      ResourceExhaustedError: more than there is, where no pin is the reason.
    """
    if not isinstance(plan, Plan):
        raise errors.InvalidArgumentError(f"plan: {shortened(repr(plan))} is not a Plan")
    datasets, jobs = {dataset.name: dataset for dataset in view.datasets}, {job.name for job in view.jobs}
    _known("allocations", plan.allocations, datasets)
    _known("remote_bytes_per_s", plan.remote_bytes_per_s, jobs)
    for name, allocation in plan.allocations.items():
        _allocation(_named("allocations", name), allocation)
    for name, dataset in datasets.items():
        _fits(_named("allocations", name), plan.allocations.get(name, Allocation()), dataset)
    _has_room(plan, view)
    _has_bandwidth(plan, view)
    _told(plan.reasons)


def _told(reasons: Mapping[str, str]) -> None:
    if isinstance(reasons, Reasons):
        return  # they are texts, written when somebody asks
    if not isinstance(reasons, Mapping):
        raise errors.InvalidArgumentError(f"reasons: {shortened(repr(reasons))} is no mapping of names to texts")
    for name, reason in reasons.items():
        field = _named("reasons", str(name))
        if not isinstance(reason, str):
            raise errors.InvalidArgumentError(f"{field}: {shortened(repr(reason))} is no text")
        if len(reason) > MOST_REASON:
            raise errors.InvalidArgumentError(f"{field}: {len(reason)} characters are more than {MOST_REASON}")


def _dataset(dataset: DatasetView) -> None:
    field = _named("datasets", dataset.name)
    for key in ("size_bytes", "cooperative_bytes", "resident_bytes"):
        _amount(f"{field}.{key}", getattr(dataset, key))
    if (computed := dataset.computed) is not None:
        for key in ("shards", "input_bytes", "made_bytes"):
            _amount(f"{field}.computed.{key}", getattr(computed, key))
        _rate(f"{field}.computed.bytes_per_s", computed.bytes_per_s, least=LEAST_BYTES_PER_S)
    _allocation(f"{field}.now", dataset.now)
    if dataset.pin is not None:
        _allocation(f"{field}.pin", dataset.pin)


def _job(job: JobView) -> None:
    field = _named("jobs", job.name)
    _count(f"{field}.accelerators", job.accelerators)
    for key in ("ideal_bytes_per_s", "hit_bytes_per_s", "miss_bytes_per_s", "cooperative_bytes_per_s"):
        _rate(f"{field}.{key}", getattr(job, key), least=LEAST_BYTES_PER_S)
    _rate(f"{field}.remote_pin_bytes_per_s", job.remote_pin_bytes_per_s, least=0.0)
    left = job.remaining_bytes
    if left is not None and not (_is_number(left) and 0 <= left < math.inf):
        raise errors.InvalidArgumentError(f"{field}.remaining_bytes: {left!r} is not an amount of bytes")


def _allocation(field: str, allocation: Allocation) -> None:
    if not isinstance(allocation, Allocation) or allocation.mode not in _MODES:
        raise errors.InvalidArgumentError(f"{field}: {shortened(repr(allocation))} is none of {', '.join(_MODES)}")
    _amount(f"{field}.cache_bytes", allocation.cache_bytes)
    if allocation.mode == "none" and allocation.cache_bytes:
        raise errors.InvalidArgumentError(f"{field}.cache_bytes: {allocation.cache_bytes}, but `none` keeps nothing")


def _fits(field: str, allocation: Allocation, dataset: DatasetView) -> None:
    if dataset.pin is not None:
        if allocation != dataset.pin:
            raise errors.InvalidArgumentError(f"{field}: {_said(allocation)} where {_said(dataset.pin)} is pinned")
    elif allocation.cache_bytes > dataset.size_bytes:
        raise errors.InvalidArgumentError(
            "{}.cache_bytes: {} for a data set of {}".format(field, *apart(allocation.cache_bytes, dataset.size_bytes))
        )
    elif allocation.mode == "cooperative" and allocation.cache_bytes < two_chunks_bytes(dataset):
        given, needed = apart(allocation.cache_bytes, two_chunks_bytes(dataset))
        raise errors.InvalidArgumentError(f"{field}.cache_bytes: {given}, but two chunks need {needed}")


def _has_room(plan: Plan, view: ClusterView) -> None:
    pins = {dataset.name for dataset in view.datasets if dataset.pin is not None}
    asked = sum(given.cache_bytes for name, given in plan.allocations.items() if name not in pins)
    if asked > free_bytes(view):
        said, left = apart(asked, free_bytes(view))
        raise errors.ResourceExhaustedError(
            f"allocations: {said}, but pins leave {left} of the cache's {of_bytes(view.cache_bytes)}"
        )


def _has_bandwidth(plan: Plan, view: ClusterView) -> None:
    pins = remote_pins(view)
    for name, given in plan.remote_bytes_per_s.items():
        _rate(_named("remote_bytes_per_s", name), given, least=0.0, optional=False)
    for name, pin in pins.items():
        if plan.remote_bytes_per_s.get(name) != pin:
            said = plan.remote_bytes_per_s.get(name, "no limit")
            raise errors.InvalidArgumentError(f"{_named('remote_bytes_per_s', name)}: {said} where {pin} is pinned")
    if view.remote_bytes_per_s is None:
        return
    left = max(0.0, view.remote_bytes_per_s - sum(pins.values()))
    asked_per_s = sum(given for name, given in plan.remote_bytes_per_s.items() if name not in pins)
    if asked_per_s > left * (1 + _ROUNDING):
        there = f"{left:g} of the store's {view.remote_bytes_per_s:g}"
        raise errors.ResourceExhaustedError(f"remote_bytes_per_s: {asked_per_s:g} in all, but pins leave {there}")


def _known(field: str, named: Iterable[str], known: Iterable[str]) -> None:
    there = set(known)
    for name in named:
        if name not in there:
            raise errors.NotFoundError(f"{field}: {shortened(str(name))} is not in the view")


def _once(field: str, names: Iterable[str]) -> None:
    seen = set()
    for name in names:
        if not isinstance(name, str) or not name:
            raise errors.InvalidArgumentError(f"{field}.name: {name!r} is no name")
        if name in seen:
            raise errors.InvalidArgumentError(f"{field}.name: {shortened(name)} is there twice")
        seen.add(name)


def _amount(field: str, amount: int) -> None:
    if not isinstance(amount, int) or isinstance(amount, bool) or not 0 <= amount <= MOST_BYTES:
        raise errors.InvalidArgumentError(f"{field}: {amount!r} is not a whole number of bytes from 0 to {MOST_BYTES}")


def _count(field: str, count: int) -> None:
    if not isinstance(count, int) or isinstance(count, bool) or not 1 <= count <= MOST_ACCELERATORS:
        raise errors.InvalidArgumentError(f"{field}: {count!r} is not a number from 1 to {MOST_ACCELERATORS}")


def _rate(field: str, rate: float | None, least: float, optional: bool = True) -> None:
    if rate is None and optional:
        return
    if not _is_number(rate) or not least <= rate <= MOST_BYTES_PER_S:
        within = f"from {least:g} to {MOST_BYTES_PER_S:g} bytes/s"
        raise errors.InvalidArgumentError(f"{field}: {rate!r} is not a rate {within}")


def _is_number(given: object) -> TypeGuard[float]:
    return isinstance(given, int | float) and not isinstance(given, bool)


def _named(field: str, name: str) -> str:
    return f"{field}[{shortened(name)}]"


def _said(allocation: Allocation) -> str:
    return f"{allocation.mode} with {of_bytes(allocation.cache_bytes)}"
