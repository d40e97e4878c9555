"""Quiver's benefit-aware placement (FAST'20, section 5.3): nothing, two chunks, or all of a data set; never between."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean

from tfquiver.amounts import of_bytes
from tfquiver.service.coordinator.policies.choice import Option, choose
from tfquiver.service.coordinator.policies.interface import Allocation, ClusterView, DatasetView, JobView, Mode, Plan
from tfquiver.service.coordinator.policies.pins import (
    free,
    free_bytes,
    jobs_by_dataset,
    pin_reasons,
    pinned,
    remote_pins,
)

# t_miss/t_hit of jobs while not one is measured: only that it is the same for all matters.
_UNMEASURED_BENEFIT = 2.0
# Of the gain, for having all where two chunks are as fast: that spares the store, in room that nobody else can use.
_WHOLE_EXTRA = 1e-3


class QuiverPolicy:
    """By G = sum of b n over a data set's jobs, with b = t_miss / t_hit and n accelerators, to cost.

    What is gained is G less the n that the jobs are worth without a cache, so that a data set that none of its jobs
    makes anything of is not cached. For two chunks b is t_miss over the co-operative miss time where that is measured;
    else the store is taken to give all that read a data set together what it gives them apart: min(b, their number).
    """

    def plan(self, view: ClusterView, now: float) -> Plan:
        jobs, benefits = jobs_by_dataset(view), _benefits(view)
        options = {
            dataset.name: _options(dataset, jobs[dataset.name], benefits)
            for dataset in sorted(free(view), key=lambda dataset: (-dataset.resident_bytes, dataset.name))
            if dataset.name in jobs
        }
        choice = choose(options, free_bytes(view))
        allocations, reasons = {}, {}
        for name, at in choice.chosen.items():
            option = options[name][at]
            if at:
                allocations[name] = Allocation(_MODES[option.name], option.cost_bytes)
            tried = f"; refused: {choice.refused[name]}" if name in choice.refused else ""
            reasons[name] = f"quiver: {option.name}: {_measured(jobs[name], benefits, option)}{tried}"
        return Plan(pinned(view) | allocations, remote_pins(view), reasons | pin_reasons(view))

    def worth(self, view: ClusterView, allocations: Mapping[str, Allocation]) -> float:
        """Accelerators that caching adds."""
        jobs, benefits, total = jobs_by_dataset(view), _benefits(view), 0.0
        for dataset in view.datasets:
            allocation = allocations.get(dataset.name, Allocation())
            options = _options(dataset, jobs.get(dataset.name, ()), benefits)
            had = [option.gain for option in options if option.cost_bytes <= allocation.cache_bytes]
            total += max(had) if allocation.mode != "none" else 0.0
        return total


_MODES: dict[str, Mode] = {"cooperative": "cooperative", "whole": "uniform"}


def _options(dataset: DatasetView, jobs: Sequence[JobView], benefits: Mapping[str, float]) -> list[Option]:
    together = sum(not job.irregular for job in jobs)
    whole = cooperative = 0.0
    for job in jobs:
        benefit = benefits[job.name]
        whole += (benefit - 1) * job.accelerators
        if not job.irregular:
            cooperative += (_cooperative_benefit(job, benefit, together) - 1) * job.accelerators
    made = [Option("none", 0, 0.0)]
    if 0 < dataset.cooperative_bytes < dataset.size_bytes:
        made.append(Option("cooperative", dataset.cooperative_bytes, cooperative))
    return [*made, Option("whole", dataset.size_bytes, whole * (1 + _WHOLE_EXTRA))]


def _cooperative_benefit(job: JobView, benefit: float, together: int) -> float:
    if job.cooperative_bytes_per_s and job.miss_bytes_per_s:
        return min(benefit, max(1.0, job.cooperative_bytes_per_s / job.miss_bytes_per_s))
    return min(benefit, float(together))


def _benefits(view: ClusterView) -> dict[str, float]:
    """t_miss / t_hit of each job, at least 1; that of jobs that are not measured is the mean of the others."""
    known = {
        job.name: max(1.0, job.hit_bytes_per_s / job.miss_bytes_per_s)
        for job in view.jobs
        if job.hit_bytes_per_s and job.miss_bytes_per_s
    }
    mean = fmean(known.values()) if known else _UNMEASURED_BENEFIT
    return {job.name: known.get(job.name, mean) for job in view.jobs}


def _measured(jobs: Sequence[JobView], benefits: Mapping[str, float], option: Option) -> str:
    least, most = min(benefits[job.name] for job in jobs), max(benefits[job.name] for job in jobs)
    accelerators = sum(job.accelerators for job in jobs)
    spread = f"{least:.2f}" if least == most else f"{least:.2f} to {most:.2f}"
    probed = sum(bool(job.hit_bytes_per_s and job.miss_bytes_per_s) for job in jobs)
    gained = f", gains {option.gain:.3g} accelerators for {of_bytes(option.cost_bytes)}" if option.cost_bytes else ""
    return f"t_miss/t_hit {spread} on {accelerators} accelerators ({probed} of {len(jobs)} jobs probed){gained}"
