"""Max-min fairness over cache and remote bandwidth (SiloD, EuroSys'23, equation 9; Gavel's objective).

The job that makes the least of it, measured by what it would have with an equal part of everything, gets as much as it
can; then the next. For a fixed ratio t every job is to read min(f*, t e), with e its rate on equal parts. By equation 2
that takes f (1 - c/d) of the store, so that the least bandwidth that will do is a linear programme in the c; the ratio
is the one where that is what there is. No job below f* can then be raised without bandwidth that another would lack,
but those whose data set is whole: they read f*, which costs nothing. So the result is lexicographic as it stands.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tfquiver import errors
from tfquiver.amounts import of_bytes, of_rate
from tfquiver.service.coordinator.policies.interface import Allocation, ClusterView, Plan, same_or_new
from tfquiver.service.coordinator.policies.irregular import in_parts
from tfquiver.service.coordinator.policies.pins import free_bytes, pin_reasons, pinned, remote_pins
from tfquiver.service.coordinator.policies.reasons import Reasons, Sentences
from tfquiver.service.coordinator.speed_model.closed_form import hit_ratio
from tfquiver.service.coordinator.speed_model.demand import effective, least_remote, reading_rates

try:
    from scipy import optimize
except ImportError as error:
    raise errors.InvalidArgumentError("policy: max_min_fair needs scipy: pip install 'tfquiver[solver]'") from error

# Of the ratio: how exactly it is sought. Measured rates are less exact.
_TOLERANCE = 1e-4
# Ratios and rates that would be nothing: without a byte from the store, which job's data is whole still matters.
_LEAST = 1e-9
_Floats = npt.NDArray[np.float64]
_Ints = npt.NDArray[np.int64]
_Bools = npt.NDArray[np.bool_]


class MaxMinFairPolicy:
    """Cache as `uniform`, charged once to a data set; bandwidth to each job, for what is resident now."""

    def plan(self, view: ClusterView, now: float) -> Plan:
        return in_parts(view, _plan)

    def worth(self, view: ClusterView, allocations: Mapping[str, Allocation]) -> float:
        """The least ratio times what all would read on equal parts: bytes/s."""
        fair = _fair(view)
        hits = _hits(view, fair, allocations)
        return _largest(fair, lambda targets: _taken(targets, hits)) * float(fair.equal.sum())


@dataclass(frozen=True, slots=True)
class _Fair:
    """Jobs whose bandwidth nobody pinned, and the view's data sets, as columns: a plan tries many ratios."""

    jobs: list[str]
    of: _Ints  # each job's data set, by its place in the view
    ideal: _Floats  # f*: bytes/s
    equal: _Floats  # on an equal part of everything: bytes/s
    seen_hits: _Floats
    remote_bytes_per_s: float | None
    sizes: _Ints  # of the data sets: bytes
    free: _Bools
    pin_hits: _Floats  # what a pin makes its data set's jobs find
    free_bytes: int  # of the cache

    def targets(self, ratio: float) -> _Floats:
        return np.minimum(self.ideal, ratio * self.equal)


def _fair(view: ClusterView) -> _Fair:
    rates, numbers = reading_rates(view), {dataset.name: number for number, dataset in enumerate(view.datasets)}
    jobs = [job for job in view.jobs if job.remote_pin_bytes_per_s is None]
    of, ideal = np.array([numbers[job.dataset] for job in jobs], np.int64), np.array([rates[job.name] for job in jobs])
    sizes = np.array([dataset.size_bytes for dataset in view.datasets], np.int64)
    equal, left, remote = ideal, None, view.remote_bytes_per_s
    if remote is not None:
        # Of all there is, pinned or not: fairness is not measured by what somebody was given.
        part_bytes, count = view.cache_bytes // max(1, len(view.jobs)), len(view.jobs)
        missed = 1 - np.minimum(1.0, part_bytes / np.maximum(1, sizes[of]))
        reads = np.divide(remote / max(1, count), missed, out=np.full(len(jobs), np.inf), where=missed > 0)
        equal = np.maximum(np.minimum(ideal, reads), _LEAST * ideal)
        left = max(0.0, remote - sum(remote_pins(view).values()))
    return _Fair(
        [job.name for job in jobs],
        of,
        ideal,
        equal,
        np.array([1.0 if job.hit_ratio is None else job.hit_ratio for job in jobs]),
        left,
        sizes,
        np.array([dataset.pin is None for dataset in view.datasets], np.bool_),
        np.array([hit_ratio(one.pin, one.size_bytes) if one.pin else 0.0 for one in view.datasets]),
        free_bytes(view),
    )


def _plan(view: ClusterView) -> Plan:
    fair = _fair(view)
    ratio = _largest(fair, lambda targets: _least_remote(fair, targets)[0])
    kept_bytes = (_least_remote(fair, fair.targets(ratio))[1] * fair.sizes).tolist()
    allocations = {
        dataset.name: same_or_new(dataset, "uniform", int(its_bytes))
        for dataset, its_bytes in zip(view.datasets, kept_bytes, strict=True)
        if its_bytes >= 1
    }
    allocations = pinned(view) | allocations
    reasons = Sentences(
        [dataset.name for dataset in view.datasets],
        [kept_bytes, fair.sizes.tolist()],
        lambda its_bytes, size_bytes: (
            f"max_min_fair: {of_bytes(its_bytes)} of {of_bytes(size_bytes)}; so the store gives "
            f"every job {ratio:.3g} times its rate on equal parts, or all it can use"
        ),
    )
    remote, why = _bandwidth(view, fair, allocations)
    return Plan(allocations, remote_pins(view) | remote, Reasons(reasons) | why | pin_reasons(view))


def _least_remote(fair: _Fair, targets: _Floats) -> tuple[float, _Floats]:
    """Bytes/s of the store that the targets take at least; and the share of each data set to cache for that."""
    reads, sizes = np.bincount(fair.of, targets, len(fair.sizes)), fair.sizes
    shares = np.where(sizes > 0, 0.0, 1.0)
    # One constraint, so the linear program's best is to fill by what a byte of cache spares.
    wanted = np.flatnonzero(fair.free & (sizes > 0) & (reads > 0))
    order = wanted[np.argsort(-reads[wanted] / sizes[wanted], kind="stable")]
    before = np.cumsum(sizes[order]) - sizes[order]
    shares[order] = np.clip(fair.free_bytes - before, 0, sizes[order]) / sizes[order]
    return float((reads * (1 - np.where(fair.free, shares, fair.pin_hits))).sum()), shares


def _largest(fair: _Fair, need: Callable[[_Floats], float]) -> float:
    """The largest ratio whose targets need no more than there is, or that at which every job reads f*."""
    if not fair.jobs:
        return 1.0
    top = max(1.0, float((fair.ideal / fair.equal).max()))
    if fair.remote_bytes_per_s is None or need(fair.ideal) <= fair.remote_bytes_per_s:
        return top
    there = fair.remote_bytes_per_s
    found = optimize.brentq(lambda ratio: need(fair.targets(ratio)) - there, 0.0, top, rtol=_TOLERANCE, xtol=_LEAST)
    return max(_LEAST, float(found))


def _bandwidth(
    view: ClusterView, fair: _Fair, allocations: Mapping[str, Allocation]
) -> tuple[dict[str, float], Mapping[str, str]]:
    """Bytes/s of the store for each job, and why; for nobody while there is enough for all."""
    there, hits = fair.remote_bytes_per_s, _hits(view, fair, effective(view, allocations))
    if there is None or not fair.jobs or _taken(fair.ideal, hits) <= there:
        return {}, {}
    ratio = _largest(fair, lambda targets: _taken(targets, hits))
    targets = fair.targets(ratio)
    parts = np.maximum(targets * (1 - hits), np.minimum(fair.ideal, least_remote(there, len(fair.jobs))))
    parts *= min(1.0, there / float(parts.sum()))
    reasons = Sentences(
        fair.jobs,
        [targets.tolist(), hits.tolist(), (targets / fair.equal).tolist()],
        lambda target, hit, times: (
            f"max_min_fair: {of_rate(target)} with {hit:.0%} of its data there, {times:.3g} times its "
            f"rate on equal parts; the least ratio of all is {ratio:.3g}"
        ),
    )
    return dict(zip(fair.jobs, parts.tolist(), strict=True)), Reasons(reasons)


def _hits(view: ClusterView, fair: _Fair, allocations: Mapping[str, Allocation]) -> _Floats:
    found = [
        hit_ratio(allocations[dataset.name], dataset.size_bytes) if dataset.name in allocations else 0.0
        for dataset in view.datasets
    ]
    hits: _Floats = np.minimum(np.array(found)[fair.of], fair.seen_hits)
    return hits


def _taken(targets: _Floats, hits: _Floats) -> float:
    return float((targets * (1 - hits)).sum())
