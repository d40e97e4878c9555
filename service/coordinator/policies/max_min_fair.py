"""Max-min fairness over cache and remote bandwidth (SiloD, EuroSys'23, equation 9; Gavel's objective).

The job that makes the least of it, measured by what it would have with an equal part of everything, gets as much as it
can; then the next. For a fixed ratio t every job is to read min(f*, t e), with e its rate on equal parts. By equation 2
that takes f (1 - c/d) of the store, so that the least bandwidth that will do is a linear programme in the c; the ratio
is the one where that is what there is. No job below f* can then be raised without bandwidth that another would lack,
but those whose data set is whole: they read f*, which costs nothing. So the result is lexicographic as it stands.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from tfquiver import errors
from tfquiver.service.coordinator.policies.irregular import in_parts
from tfquiver.service.coordinator.policies.pins import free_bytes, pin_reasons, pinned, remote_pins
from tfquiver.service.coordinator.policies.views_and_plans.columns import (
    AllocationColumns,
    RateColumns,
    columns_of,
    listed,
    picked,
)
from tfquiver.service.coordinator.policies.views_and_plans.interface import (
    Allocation,
    Bools,
    ClusterView,
    Floats,
    Ints,
    Plan,
)
from tfquiver.service.coordinator.policies.views_and_plans.reasons import Reasons, Sentences
from tfquiver.service.coordinator.speed_model_and_weighted_shares.closed_form import hit_ratio
from tfquiver.service.coordinator.speed_model_and_weighted_shares.demand import (
    hit_ratio_column,
    least_remote,
    reading_rate_column,
)
from tfquiver.service.coordinator.speed_model_and_weighted_shares.filling import whole_bytes
from tfquiver.sizes_durations_amounts.amounts import of_bytes, of_rate

try:
    from scipy import optimize
except ImportError as error:
    raise errors.InvalidArgumentError(
        "policy: max_min_fair needs scipy: pip install '.[solver]' in a clone of tfquiver"
    ) from error

# Of the ratio: how exactly it is sought. Measured rates are less exact.
_TOLERANCE = 1e-4
# Ratios and rates that would be nothing: without a byte from the store, which job's data is whole still matters.
_LEAST = 1e-9


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

    names: Sequence[str]  # of all jobs in the view
    jobs: Ints  # their places there
    of: Ints  # each job's data set, by its place in the view
    ideal: Floats  # f*: bytes/s
    equal: Floats  # on an equal part of everything: bytes/s
    seen_hits: Floats
    remote_bytes_per_s: float | None
    sizes: Ints  # of the data sets: bytes
    free: Bools
    pin_hits: Floats  # what a pin makes its data set's jobs find
    free_bytes: int  # of the cache

    def targets(self, ratio: float) -> Floats:
        return np.minimum(self.ideal, ratio * self.equal)


def _fair(view: ClusterView) -> _Fair:
    columns = columns_of(view)
    jobs, sizes = np.flatnonzero(~columns.limited), columns.size_bytes
    of, ideal = columns.dataset_of[jobs], reading_rate_column(columns)[jobs]
    equal, left, remote = ideal, None, view.remote_bytes_per_s
    if remote is not None:
        # Of all there is, pinned or not: fairness is not measured by what somebody was given.
        part_bytes, count = view.cache_bytes // max(1, len(view.jobs)), len(view.jobs)
        missed = 1 - np.minimum(1.0, part_bytes / np.maximum(1, sizes[of]))
        reads = np.divide(remote / max(1, count), missed, out=np.full(len(jobs), np.inf), where=missed > 0)
        equal = np.maximum(np.minimum(ideal, reads), _LEAST * ideal)
        left = max(0.0, remote - sum(remote_pins(view).values()))
    seen_hits, pin_hits = columns.hit_ratio[jobs], np.zeros(len(sizes))
    for place in np.flatnonzero(columns.pinned).tolist():
        pin = view.datasets[place].pin
        pin_hits[place] = hit_ratio(pin, int(sizes[place])) if pin else 0.0
    seen_hits = np.where(np.isnan(seen_hits), 1.0, seen_hits)
    return _Fair(
        columns.jobs, jobs, of, ideal, equal, seen_hits, left, sizes, ~columns.pinned, pin_hits, free_bytes(view)
    )


def _plan(view: ClusterView) -> Plan:
    fair, columns = _fair(view), columns_of(view)
    ratio = _largest(fair, lambda targets: _least_remote(fair, targets)[0])
    kept_bytes = _least_remote(fair, fair.targets(ratio))[1] * fair.sizes
    kept = np.flatnonzero(kept_bytes >= 1)
    cached = AllocationColumns(columns.datasets, kept, "uniform", whole_bytes(kept_bytes[kept], fair.free_bytes))
    allocations = cached | pinned(view)
    reasons = Sentences(
        columns.datasets,
        [listed(kept_bytes), listed(fair.sizes)],
        lambda its_bytes, size_bytes: (
            f"max_min_fair: {of_bytes(its_bytes)} of {of_bytes(size_bytes)}; so the store gives "
            f"every job {ratio:.3g} times its rate on equal parts, or all it can use"
        ),
    )
    remote, why = _bandwidth(view, fair, allocations)
    return Plan(allocations, remote | remote_pins(view), Reasons(reasons) | why | pin_reasons(view))


def _least_remote(fair: _Fair, targets: Floats) -> tuple[float, Floats]:
    """Bytes/s of the store that the targets take at least; and the share of each data set to cache for that."""
    reads, sizes = np.bincount(fair.of, targets, len(fair.sizes)), fair.sizes
    shares = np.where(sizes > 0, 0.0, 1.0)
    # One constraint, so the linear program's best is to fill by what a byte of cache spares.
    wanted = np.flatnonzero(fair.free & (sizes > 0) & (reads > 0))
    order = wanted[np.argsort(-reads[wanted] / sizes[wanted], kind="stable")]
    before = np.cumsum(sizes[order]) - sizes[order]
    shares[order] = np.clip(fair.free_bytes - before, 0, sizes[order]) / sizes[order]
    return float((reads * (1 - np.where(fair.free, shares, fair.pin_hits))).sum()), shares


def _largest(fair: _Fair, need: Callable[[Floats], float]) -> float:
    """The largest ratio whose targets need no more than there is, or that at which every job reads f*."""
    if not fair.jobs.size:
        return 1.0
    top = max(1.0, float((fair.ideal / fair.equal).max()))
    if fair.remote_bytes_per_s is None or need(fair.ideal) <= fair.remote_bytes_per_s:
        return top
    there = fair.remote_bytes_per_s
    found = optimize.brentq(lambda ratio: need(fair.targets(ratio)) - there, 0.0, top, rtol=_TOLERANCE, xtol=_LEAST)
    return max(_LEAST, float(found))


def _bandwidth(
    view: ClusterView, fair: _Fair, allocations: Mapping[str, Allocation]
) -> tuple[RateColumns, Mapping[str, str]]:
    """Bytes/s of the store for each job, and why; for nobody while there is enough for all."""
    there, hits = fair.remote_bytes_per_s, _hits(view, fair, allocations, resident_only=True)
    if there is None or not fair.jobs.size or _taken(fair.ideal, hits) <= there:
        return RateColumns(fair.names, fair.jobs[:0], np.zeros(0)), {}
    ratio = _largest(fair, lambda targets: _taken(targets, hits))
    targets = fair.targets(ratio)
    parts = np.maximum(targets * (1 - hits), np.minimum(fair.ideal, least_remote(there, len(fair.jobs))))
    parts *= min(1.0, there / float(parts.sum()))
    reasons = Sentences(
        picked(fair.names, fair.jobs),
        [listed(targets), listed(hits), listed(targets / fair.equal)],
        lambda target, hit, times: (
            f"max_min_fair: {of_rate(target)} with {hit:.0%} of its data there, {times:.3g} times its "
            f"rate on equal parts; the least ratio of all is {ratio:.3g}"
        ),
    )
    return RateColumns(fair.names, fair.jobs, parts), Reasons(reasons)


def _hits(view: ClusterView, fair: _Fair, allocations: Mapping[str, Allocation], resident_only: bool = False) -> Floats:
    """`resident_only`: of what is allocated what is there already counts (SiloD, section 6)."""
    found = hit_ratio_column(columns_of(view), allocations, resident_only)
    hits: Floats = np.minimum(found[fair.of], fair.seen_hits)
    return hits


def _taken(targets: Floats, hits: Floats) -> float:
    return float((targets * (1 - hits)).sum())
