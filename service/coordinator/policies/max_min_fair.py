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
import numpy.typing as npt

from tfquiver import errors
from tfquiver.amounts import of_bytes, of_rate
from tfquiver.service.coordinator.policies.interface import Allocation, ClusterView, JobView, Plan
from tfquiver.service.coordinator.policies.irregular import in_parts
from tfquiver.service.coordinator.policies.pins import free, free_bytes, pin_reasons, pinned, remote_pins
from tfquiver.service.coordinator.speed_model.closed_form import hit_ratio, throughput
from tfquiver.service.coordinator.speed_model.demand import effective, least_remote, reading_rates

try:
    from scipy import optimize
except ImportError as error:
    raise errors.InvalidArgumentError("policy: max_min_fair needs scipy: pip install 'tfquiver[solver]'") from error

# Of the ratio: how exactly it is sought. Measured rates are less exact.
_TOLERANCE = 1e-4
# Ratios and rates that would be nothing: without a byte from the store, which job's data is whole still matters.
_LEAST = 1e-9
_Array = npt.NDArray[np.float64]


class MaxMinFairPolicy:
    """Cache as `uniform`, charged once to a data set; bandwidth to each job, for what is resident now."""

    def plan(self, view: ClusterView, now: float) -> Plan:
        return in_parts(view, _plan)

    def worth(self, view: ClusterView, allocations: Mapping[str, Allocation]) -> float:
        """The least ratio times what all would read on equal parts: bytes/s."""
        fair, hits = _fair(view), _hits(view, allocations)
        return _largest(fair, lambda targets: _taken(targets, hits)) * float(fair.equal.sum())


@dataclass(frozen=True, slots=True)
class _Fair:
    """Jobs whose bandwidth nobody pinned; in their order f*, and the rate on an equal part of everything: bytes/s."""

    jobs: Sequence[JobView]
    ideal: _Array
    equal: _Array
    remote_bytes_per_s: float | None

    def targets(self, ratio: float) -> _Array:
        return np.minimum(self.ideal, ratio * self.equal)


def _fair(view: ClusterView) -> _Fair:
    rates, datasets = reading_rates(view), {dataset.name: dataset for dataset in view.datasets}
    jobs, pins, remote = _unpinned(view), remote_pins(view), view.remote_bytes_per_s
    ideal = np.array([rates[job.name] for job in jobs])
    if remote is None:
        return _Fair(jobs, ideal, ideal, None)
    # Of all there is, pinned or not: fairness is not measured by what somebody was given.
    part, count = Allocation("uniform", view.cache_bytes // max(1, len(view.jobs))), len(view.jobs)
    hits = [hit_ratio(part, datasets[job.dataset].size_bytes) for job in jobs]
    equal = [throughput(rate, remote / count, hit) for rate, hit in zip(ideal, hits, strict=True)]
    left = max(0.0, remote - sum(pins.values()))
    return _Fair(jobs, ideal, np.maximum(equal, _LEAST * ideal), left)


def _plan(view: ClusterView) -> Plan:
    fair = _fair(view)
    ratio = _largest(fair, lambda targets: _least_remote(view, fair, targets)[0])
    shares = _least_remote(view, fair, fair.targets(ratio))[1]
    sizes = {dataset.name: dataset.size_bytes for dataset in view.datasets}
    allocations = {name: Allocation("uniform", int(share * sizes[name])) for name, share in shares.items()}
    allocations = pinned(view) | {name: given for name, given in allocations.items() if given.cache_bytes}
    reasons = {
        name: f"max_min_fair: {of_bytes(share * sizes[name])} of {of_bytes(sizes[name])}; so the store gives "
        f"every job {ratio:.3g} times its rate on equal parts, or all it can use"
        for name, share in shares.items()
    }
    remote, why = _bandwidth(view, fair, allocations)
    return Plan(allocations, remote_pins(view) | remote, reasons | why | pin_reasons(view))


def _least_remote(view: ClusterView, fair: _Fair, targets: _Array) -> tuple[float, dict[str, float]]:
    """Bytes/s of the store that the targets take at least; and the share of each data set to cache for that."""
    reads: dict[str, float] = {dataset.name: 0.0 for dataset in view.datasets}
    for job, target in zip(fair.jobs, targets, strict=True):
        reads[job.dataset] += float(target)
    of_pins = sum(reads[d.name] * (1 - hit_ratio(d.pin, d.size_bytes)) for d in view.datasets if d.pin)
    open_to = [dataset for dataset in free(view) if dataset.size_bytes]
    total, there_bytes = sum(reads[dataset.name] for dataset in open_to), free_bytes(view)
    if not total or not there_bytes:
        return of_pins + total, {dataset.name: 0.0 for dataset in open_to}
    # One constraint, so the linear program's best is to fill by what a byte of cache spares.
    by_density = sorted(open_to, key=lambda dataset: -reads[dataset.name] / dataset.size_bytes)
    shares: dict[str, float] = {}
    for dataset in by_density:
        kept_bytes = min(dataset.size_bytes, there_bytes) if reads[dataset.name] else 0
        there_bytes -= kept_bytes
        shares[dataset.name] = kept_bytes / dataset.size_bytes
    return of_pins + sum(reads[name] * (1 - share) for name, share in shares.items()), shares


def _largest(fair: _Fair, need: Callable[[_Array], float]) -> float:
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
) -> tuple[dict[str, float], dict[str, str]]:
    """Bytes/s of the store for each job, and why; for nobody while there is enough for all."""
    there, hits = fair.remote_bytes_per_s, _hits(view, effective(view, allocations))
    if there is None or not fair.jobs or _taken(fair.ideal, hits) <= there:
        return {}, {}
    ratio = _largest(fair, lambda targets: _taken(targets, hits))
    targets = fair.targets(ratio)
    parts = np.maximum(targets * (1 - hits), np.minimum(fair.ideal, least_remote(there, len(fair.jobs))))
    parts *= min(1.0, there / float(parts.sum()))
    given = {job.name: float(part) for job, part in zip(fair.jobs, parts, strict=True)}
    reasons = {
        job.name: f"max_min_fair: {of_rate(target)} with {hit:.0%} of its data there, {target / equal:.3g} times its "
        f"rate on equal parts; the least ratio of all is {ratio:.3g}"
        for job, target, equal, hit in zip(fair.jobs, targets, fair.equal, hits, strict=True)
    }
    return given, reasons


def _hits(view: ClusterView, allocations: Mapping[str, Allocation]) -> _Array:
    sizes = {dataset.name: dataset.size_bytes for dataset in view.datasets}
    of = {name: hit_ratio(allocations.get(name, Allocation()), size) for name, size in sizes.items()}
    seen = [1.0 if job.hit_ratio is None else job.hit_ratio for job in _unpinned(view)]
    return np.minimum([of[job.dataset] for job in _unpinned(view)], seen)


def _taken(targets: _Array, hits: _Array) -> float:
    return float((targets * (1 - hits)).sum())


def _unpinned(view: ClusterView) -> list[JobView]:
    return [job for job in view.jobs if job.remote_pin_bytes_per_s is None]
