"""Why a job or data set has what it has, and what more cache or bandwidth would bring it. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence, Set
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Literal

from tfquiver import errors
from tfquiver.plain_text import shortened
from tfquiver.service.coordinator.measuring_jobs_and_stores.job_meter import Measured
from tfquiver.service.coordinator.plan_rounds_and_moves.decisions_kept_and_explained.decision import Decision
from tfquiver.service.coordinator.plan_rounds_and_moves.decisions_kept_and_explained.supported import supported
from tfquiver.service.coordinator.plan_rounds_and_moves.planner import Planner
from tfquiver.service.coordinator.policies.views_and_plans.check import check_plan
from tfquiver.service.coordinator.policies.views_and_plans.interface import (
    Allocation,
    ClusterView,
    Computed,
    DatasetView,
    JobView,
)
from tfquiver.service.coordinator.policies.views_and_plans.own_copy import own_copy
from tfquiver.service.coordinator.speed_model_and_weighted_shares.closed_form import hit_ratio
from tfquiver.service.coordinator.speed_model_and_weighted_shares.demand import demands, rates_of, reading_rates

MORE = (1.5, 2.0)
_MOST_HISTORY_BYTES = _MOST_REASONS_BYTES = 2 << 20  # a message has 8 MiB
_MOST_LETTER_BYTES = 12  # as JSON


@dataclass(frozen=True, slots=True)
class Share:
    """What is expected once the caches are full. Rates in bytes/s, of all jobs of the data set or of the one job."""

    allocation: Allocation  # of the data set
    hit_ratio: float  # what readers find in the cache, of which others have fetched a part: as far as it is not remote
    reads_bytes_per_s: float  # as far as it was measured
    remote_bytes_per_s: float  # of that, from the store
    limited_to_bytes_per_s: float | None  # of the store; None: no limit
    known: bool = True  # False: a job has only been seen to wait, and reads at least that, as it does now


@dataclass(frozen=True, slots=True)
class Now:
    """As it was measured lately."""

    reads_bytes_per_s: float
    hit_ratio: float | None  # None: nothing has been handed out lately
    remote_bytes_per_s: float


@dataclass(frozen=True, slots=True)
class WithMore:
    cache: float  # times what there is
    remote: float
    share: Share


@dataclass(frozen=True, slots=True)
class Explanation:
    kind: Literal["dataset", "job"]
    name: str
    policy: str
    gets: Share  # once the caches are full
    reasons: dict[str, str]  # of it, and of what it depends on: which measurement and which rule decided
    refused: str  # why the policy's last plan is not the one in force; "" when it is
    with_more: tuple[WithMore, ...]
    history: tuple[dict[str, Any], ...]  # what was decided and refused, oldest first
    probes: dict[str, dict[str, Any]] = field(default_factory=dict)  # by job: what was measured, or why not yet
    steps: dict[str, dict[str, Any]] = field(default_factory=dict)  # of jobs whose training processes say something
    more_jobs: int = 0  # that read it, of which nothing is told here
    # Of a derived data set: what computing it took, and whether keeping it pays; None: it is none, or not measured.
    computed: dict[str, Any] | None = None
    resident: dict[str, Any] | None = None  # of the data set, by ResidentShare; None: not known
    # Of those that read several data sets, and have a limit: that is for all of them together.
    limits: dict[str, dict[str, Any]] = field(default_factory=dict)
    trouble: str = ""  # why another policy decides than was said
    finished: dict[str, Any] | None = None  # nobody reads it any more: since when, and what it had read
    now: Now | None = None  # of the jobs that read it, or of the one; None: none has reported
    idle: dict[str, Any] | None = None  # of a job that nobody reads just now: since when, and how far it has come

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


def explain(
    planner: Planner, view: ClusterView, name: str, now: float, idle: Set[str] = frozenset[str]()
) -> Explanation:
    """Runs the policy again with more of each, and changes nothing.

    Args:
      name: of a data set, or else of a job.
      idle: jobs that nobody reads just now: they are no part of what their data set's read now, and would read.

    Raises:
      NotFoundError: neither is there.
    """
    datasets, jobs = {one.name for one in view.datasets}, {one.name: one for one in view.jobs}
    if name not in datasets and name not in jobs:
        raise errors.NotFoundError(f"name: there is no data set and no job {shortened(name)}")
    dataset = name if name in datasets else jobs[name].dataset
    names = [job.name for job in view.jobs if job.dataset == dataset] if name in datasets else [name]
    # Expected is what the same jobs read that are measured: else the rows could not be compared.
    reading = [one for one in names if one not in idle] or names
    reasons = {key: planner.plan.reasons[key] for key in (dataset, *names) if key in planner.plan.reasons}
    waiting = [name for name in names if jobs[name].ideal_guessed]
    if waiting and dataset in reasons:
        have = "has" if len(waiting) == 1 else "have"
        reasons[dataset] += f"; {len(waiting)} of {len(names)} {have} only been seen to wait: plans guess their rates"
    more = [(scale, 1.0) for scale in MORE]
    if view.remote_bytes_per_s is not None:
        more += [(1.0, scale) for scale in MORE]
    return Explanation(
        "dataset" if name in datasets else "job",
        name,
        planner.policy_name,
        _share(planner, view, planner.plan.allocations, dataset, reading, now),
        reasons,
        planner.refused,
        tuple(
            WithMore(cache, remote, share)
            for cache, remote in more
            if (share := _with(planner, view, dataset, reading, cache, remote, now)) is not None
        ),
        told(planner.history.of(dataset, name)),
        computed=_computed(next(one.computed for one in view.datasets if one.name == dataset)),
        now=_now([jobs[one] for one in names if one not in idle]),
    )


def told(decisions: Sequence[Decision]) -> tuple[dict[str, Any], ...]:
    """The last ones, as many as a message has room for: reasons of a policy of others may be long."""
    records, left_bytes = list[dict[str, Any]](), _MOST_HISTORY_BYTES
    for decision in reversed(decisions):
        record = decision.to_record()
        left_bytes -= len(json.dumps(record))
        if left_bytes < 0:
            break
        records.append(record)
    return tuple(reversed(records))


def fitting(reasons: Mapping[str, str]) -> dict[str, str]:
    """As much of each as a message has room for."""
    if not reasons or len(json.dumps(dict(reasons))) <= _MOST_REASONS_BYTES:
        return dict(reasons)
    most = _MOST_REASONS_BYTES // _MOST_LETTER_BYTES // len(reasons)
    return {name: why if len(why) <= most else f"{why[:most]}..." for name, why in reasons.items()}


def at_last(measured: Measured) -> Now:
    """Of a job that nobody reads just now."""
    rate, found = measured.bytes_per_s, measured.hit_share
    return Now(rate, found, 0.0 if found is None else rate * (1 - found))


def _now(jobs: Sequence[JobView]) -> Now | None:
    measured = [(job.reads_bytes_per_s, job.hit_ratio) for job in jobs if job.reads_bytes_per_s is not None]
    if not measured:
        return None
    handed = [(rate, found) for rate, found in measured if found is not None]
    remote, of_these = sum(rate * (1 - found) for rate, found in handed), sum(rate for rate, _ in handed)
    return Now(sum(rate for rate, _ in measured), 1 - remote / of_these if handed else None, remote)


def _computed(computed: Computed | None) -> dict[str, Any] | None:
    if computed is None:
        return None
    return asdict(computed) | {"saved_cpu_s": computed.saved_cpu_s, "pays": computed.pays}


def _with(
    planner: Planner, view: ClusterView, dataset: str, names: list[str], cache: float, remote: float, now: float
) -> Share | None:
    there = view.remote_bytes_per_s
    larger = replace(
        view,
        cache_bytes=int(view.cache_bytes * cache),
        remote_bytes_per_s=None if there is None else there * remote,
    )
    try:
        plan = own_copy(planner.policy.plan(larger, now), larger)
        check_plan(plan, larger)
        return _share(planner, larger, plan.allocations, dataset, names, now)
    except planner.passes:
        raise
    except BaseException:  # noqa: BLE001  A third party's: `refused` says so already.
        return None


def _share(
    planner: Planner,
    view: ClusterView,
    allocations: Mapping[str, Allocation],
    dataset: str,
    names: list[str],
    now: float,
) -> Share:
    full = tuple(_full(one, allocations.get(one.name, Allocation())) for one in view.datasets)
    limits = planner.bandwidth(replace(view, datasets=full), now)
    alone, lacks = reading_rates(view), demands(view, allocations)
    reads = rates_of(view, alone, lacks, limits)
    own = [limits[name] for name in names if name in limits]
    allocation = allocations.get(dataset, Allocation())
    missing = {name: lacks[name] / alone[name] for name in names}
    shown = {job.name: supported(job, missing[job.name], reads[job.name]) for job in view.jobs if job.name in missing}
    size_bytes = next(one.size_bytes for one in view.datasets if one.name == dataset)
    rate, remote = (
        sum(one.bytes_per_s for one in shown.values()),
        sum(missing[name] * one.bytes_per_s for name, one in shown.items()),
    )
    return Share(
        allocation,
        # As it is measured: what another one of a cooperative data set has fetched is found in the cache.
        1 - remote / rate if rate else hit_ratio(allocation, size_bytes),
        rate,
        remote,
        sum(own) if own else None,
        all(rate.known for rate in shown.values()),
    )


def _full(dataset: DatasetView, allocation: Allocation) -> DatasetView:
    return replace(dataset, pin=allocation, resident_bytes=allocation.cache_bytes)
