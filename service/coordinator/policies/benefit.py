"""The default: what nobody set is kept whole where it fits, rotates where it does not, and else competes by benefit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

from tfquiver.service.coordinator.policies.irregular import in_parts, without_guests
from tfquiver.service.coordinator.policies.pins import (
    free,
    free_bytes,
    jobs_by_dataset,
    pin_reasons,
    pinned,
    remote_pins,
    two_chunks_bytes,
)
from tfquiver.service.coordinator.policies.views_and_plans.interface import (
    Allocation,
    ClusterView,
    Computed,
    DatasetView,
    JobView,
    Plan,
)
from tfquiver.service.coordinator.policies.views_and_plans.reasons import Reasons, Sentences
from tfquiver.service.coordinator.speed_model_and_weighted_shares.closed_form import hit_ratio
from tfquiver.service.coordinator.speed_model_and_weighted_shares.demand import reading_rates
from tfquiver.sizes_durations_amounts.amounts import of_bytes, of_rate

_GB, _MB = 1e9, 1e6
# A job that was measured to be as fast without the cache: it still spares the store, but anything else comes first.
_LEAST_WEIGHT = 1e-3


class BenefitPolicy:
    """Room goes where a byte of it spares the store most, of what jobs would really read faster.

    Each job counts with its rate times 1 - miss/hit, the part of its time that caching saves; with the mean of the
    others' where that is not measured. N jobs that read a data set of d bytes together make the store deliver their sum
    without a cache; about f (1 - c/d) with c bytes of `cooperative`, f being the fastest job's; nothing when it is
    whole. So the first two chunks are worth most, and each further byte f/d. Where less than two chunks are left it is
    `uniform`: the sum times (1 - c/d). Irregular jobs have a partition of their own.

    A derived data set that a job has not been probed on counts with how fast one process has computed it. Where
    computing it takes less CPU than reading what it has become, nothing of it is kept: a miss is computed.

    Data sets that no job reads come last: what is resident already first. Bandwidth is left alone.
    """

    def plan(self, view: ClusterView, now: float) -> Plan:
        return in_parts(view, self._plan)

    def _plan(self, view: ClusterView) -> Plan:
        demands = _demands(view)
        left_bytes, cache = free_bytes(view), {dataset.name: 0 for dataset in free(view)}
        useless = {one.name for one in free(view) if one.computed is not None and not one.computed.pays}
        refused: dict[str, tuple[int, int]] = {}  # bytes: what two chunks take, and what was left
        for step in _steps(view, demands):
            name = step.dataset
            if name in useless:
                continue
            if step.needs and step.most_bytes > left_bytes:
                refused[name] = step.most_bytes, left_bytes
            elif name not in refused:
                taken_bytes = min(step.most_bytes, left_bytes)
                cache[name] += taken_bytes
                left_bytes -= taken_bytes
        for name in refused:  # too little for two chunks: what came first is kept
            cache[name], left_bytes = left_bytes, 0
        allocations = {d.name: _allocation(d, cache[d.name]) for d in free(view) if cache[d.name]}
        names, nothing = [one.name for one in free(view)], Allocation()
        reasons = Sentences(
            names,
            [
                free(view),
                [demands[name] for name in names],
                [allocations.get(name, nothing) for name in names],
                [refused.get(name) for name in names],
            ],
            _reason,
        )
        return Plan(pinned(view) | allocations, remote_pins(view), Reasons(reasons) | pin_reasons(view))

    def worth(self, view: ClusterView, allocations: Mapping[str, Allocation]) -> float:
        """Bytes/s that the store is spared, of what jobs would read faster."""
        demands = _demands(without_guests(view))
        return sum(
            demands[dataset.name].spared(allocations.get(dataset.name, Allocation()), dataset.size_bytes)
            for dataset in view.datasets
        )


@dataclass(frozen=True, slots=True)
class _Demand:
    """Of one data set's jobs, in bytes/s that caching would make them faster by."""

    all_together: float
    fastest: float
    measured: int
    jobs: int
    rated: bool  # what at least one of them reads is measured
    guessed: bool  # at least one has only been seen to wait
    irregular: bool

    def spared(self, allocation: Allocation, size_bytes: int) -> float:
        ratio = hit_ratio(allocation, size_bytes)
        if allocation.mode == "cooperative" and not self.irregular:
            return self.all_together - self.fastest * (1 - ratio)
        return self.all_together * ratio


@dataclass(frozen=True, slots=True)
class _Step:
    """Up to `most_bytes` for a data set, each worth `density`; `needs` them all or none."""

    dataset: str
    most_bytes: int
    density: float
    needs: bool
    resident_bytes: int


def _demands(view: ClusterView) -> dict[str, _Demand]:
    rates, jobs = reading_rates(view), jobs_by_dataset(view)
    measured = {
        job.name: max(_LEAST_WEIGHT, 1 - job.miss_bytes_per_s / job.hit_bytes_per_s)
        for job in view.jobs
        if job.hit_bytes_per_s and job.miss_bytes_per_s
    }
    neutral = fmean(measured.values()) if measured else 1.0
    computed = {one.name: one.computed.bytes_per_s for one in view.datasets if one.computed is not None}
    taken = {
        job.name: max(_LEAST_WEIGHT, 1 - computed[job.dataset] / rates[job.name])
        for job in view.jobs
        if job.dataset in computed and job.name not in measured and job.ideal_bytes_per_s and not job.ideal_guessed
    }
    return {one.name: _demand(jobs.get(one.name, ()), rates, measured, taken, neutral) for one in view.datasets}


def _demand(
    jobs: Sequence[JobView],
    rates: Mapping[str, float],
    measured: Mapping[str, float],
    taken: Mapping[str, float],
    neutral: float,
) -> _Demand:
    """`taken`: where that is not measured, by what computing took."""
    weighed = [rates[job.name] * measured.get(job.name, taken.get(job.name, neutral)) for job in jobs]
    return _Demand(
        sum(weighed),
        max(weighed, default=0.0),
        sum(job.name in measured for job in jobs),
        len(jobs),
        any(job.ideal_bytes_per_s or job.hit_bytes_per_s for job in jobs),
        any(job.ideal_guessed for job in jobs),
        any(job.irregular for job in jobs),
    )


def _steps(view: ClusterView, demands: Mapping[str, _Demand]) -> list[_Step]:
    steps: list[_Step] = []
    for dataset in free(view):
        demand, size_bytes = demands[dataset.name], dataset.size_bytes
        density, first_bytes = demand.fastest / max(1, size_bytes), two_chunks_bytes(dataset)
        if first_bytes:
            spared = demand.spared(Allocation("cooperative", first_bytes), size_bytes)
            first_density = max(density, spared / first_bytes)  # but for rounding it is never less
            steps.append(_Step(dataset.name, first_bytes, first_density, True, dataset.resident_bytes))
        steps.append(_Step(dataset.name, size_bytes - first_bytes, density, False, dataset.resident_bytes))
    return sorted(steps, key=lambda step: (-step.density, -step.resident_bytes, step.dataset, not step.needs))


def _allocation(dataset: DatasetView, cache_bytes: int) -> Allocation:
    rotates = two_chunks_bytes(dataset) <= cache_bytes < dataset.size_bytes
    return Allocation("cooperative" if rotates else "uniform", cache_bytes)


def _computing(computed: Computed) -> str:
    """What materialising saves, and whether it pays."""
    shards = max(1, computed.shards)
    took, saves = computed.cpu_s / shards, computed.saved_cpu_s / shards
    pays = f"keeping it pays, {saves:.3g} s a shard" if computed.pays else "keeping it does not pay, a miss is computed"
    made = of_bytes(computed.made_bytes // shards)
    return f"computing a shard took {took:.3g} s of CPU, reading {made} in its place takes {took - saves:.3g} s: {pays}"


def _reason(dataset: DatasetView, demand: _Demand, got: Allocation, refused: tuple[int, int] | None) -> str:
    why = _why(dataset, demand, got)
    if refused is None:
        return why
    return f"{why}; refused: cooperative: two chunks take {of_bytes(refused[0])}, {of_bytes(refused[1])} were left"


def _why(dataset: DatasetView, demand: _Demand, got: Allocation) -> str:
    what = f"{of_bytes(got.cache_bytes)} of {of_bytes(dataset.size_bytes)}, {got.mode}"
    if dataset.computed is not None:
        what += f"; {_computing(dataset.computed)}"
    if not demand.jobs:
        return f"benefit: {what}: no job reads it, what others leave is its"
    unit, unit_bytes = ("GB", _GB) if dataset.size_bytes - got.cache_bytes >= _GB else ("MB", _MB)
    per_unit = of_rate(demand.fastest / max(1, dataset.size_bytes) * unit_bytes)
    jobs = f"{demand.jobs} job{'s' * (demand.jobs > 1)} ({demand.measured} probed)"
    if demand.guessed or not demand.rated:
        mean = "" if demand.rated else "; taken as the mean of all jobs"
        return f"benefit: {what}: how much faster {jobs} would read from a cache is not known yet{mean}"
    most = "" if demand.measured == demand.jobs else "at most "
    all_of_it = got.cache_bytes >= dataset.size_bytes  # then more of it would be of no use
    return (
        f"benefit: {what}, spares {most}{of_rate(demand.spared(got, dataset.size_bytes))}: {jobs} would read "
        f"{most}{of_rate(demand.all_together)} faster from a cache"
        + ("" if all_of_it else f"; a {unit} more would spare {most}{per_unit}")
    )
