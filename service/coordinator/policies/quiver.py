"""Quiver's benefit-aware placement (FAST'20, section 5.3): nothing, two chunks, or all of a data set; never between."""

from __future__ import annotations

from collections.abc import Mapping
from statistics import fmean

import numpy as np

from tfquiver.service.coordinator.policies.choice import Options, choose
from tfquiver.service.coordinator.policies.irregular import in_parts, without_guests
from tfquiver.service.coordinator.policies.pins import free_bytes, pin_reasons, pinned, remote_pins
from tfquiver.service.coordinator.policies.views_and_plans.columns import AllocationColumns, columns_of, picked
from tfquiver.service.coordinator.policies.views_and_plans.interface import (
    MODES,
    Allocation,
    ClusterView,
    Floats,
    Ints,
    Plan,
    ViewColumns,
)
from tfquiver.service.coordinator.policies.views_and_plans.reasons import Reasons, Sentences
from tfquiver.sizes_durations_amounts.amounts import many, of_bytes

# t_miss/t_hit of jobs while not one is measured: only that it is the same for all matters.
_UNMEASURED_BENEFIT = 2.0
# Of the gain, for having all where two chunks are as fast: that spares the store, in room that nobody else can use.
_WHOLE_EXTRA = 1e-3
_COOPERATIVE, _UNIFORM = MODES.index("cooperative"), MODES.index("uniform")


class QuiverPolicy:
    """By G = sum of b n over a data set's jobs, with b = t_miss / t_hit and n accelerators, to cost.

    What is gained is G less the n that the jobs are worth without a cache, so that a data set that none of its jobs
    makes anything of is not cached. For two chunks b is t_miss over the co-operative miss time where that is measured;
    else the store is taken to give all that read a data set together what it gives them apart: min(b, their number).
    """

    def plan(self, view: ClusterView, now: float) -> Plan:
        return in_parts(view, self._plan)

    def _plan(self, view: ClusterView) -> Plan:
        columns = columns_of(view)
        is_read = np.bincount(columns.dataset_of, minlength=len(columns.datasets)) > 0
        wanted = np.flatnonzero(is_read & ~columns.pinned)
        wanted = wanted[np.lexsort((columns.rank_of_name[wanted], -columns.resident_bytes[wanted]))]
        benefits, measured = _benefits(columns)
        options = _options(columns, wanted, benefits)
        choice = choose(options, free_bytes(view))
        taken = np.flatnonzero(choice.chosen)
        at = choice.chosen[taken]
        modes = np.where((at == 1) & options.there[taken, 2], _COOPERATIVE, _UNIFORM)
        allocations = AllocationColumns(columns.datasets, wanted[taken], modes, options.cost_bytes[taken, at])
        names = picked(columns.datasets, wanted)

        def reason(row: int) -> str:
            option = int(choice.chosen[row])
            refusal = choice.refused.get(row)
            tried = ""
            if refusal is not None:
                rival = names[refusal.rival] if refusal.rival is not None else ""
                tried = f"; refused: {refusal.told(_name(options, row, refusal.option), rival)}"
            jobs = np.flatnonzero(columns.dataset_of == wanted[row])
            cost_bytes, gain = int(options.cost_bytes[row, option]), float(options.gain[row, option])
            gained = f", worth {gain:.3g} accelerators more, for {of_bytes(cost_bytes)}" if cost_bytes else ""
            what = _measured(columns.accelerators[jobs], benefits[jobs], int(measured[jobs].sum()))
            return f"quiver: {_name(options, row, option)}: {what}{gained}{tried}"

        reasons = Reasons(Sentences(names, [range(len(names))], reason))
        return Plan(allocations | pinned(view), remote_pins(view), reasons | pin_reasons(view))

    def worth(self, view: ClusterView, allocations: Mapping[str, Allocation]) -> float:
        """Accelerators that caching adds."""
        columns, total = columns_of(without_guests(view)), 0.0
        options = _options(columns, np.arange(len(columns.datasets)), _benefits(columns)[0])
        for place, name in enumerate(columns.datasets):
            allocation = allocations.get(name, Allocation())
            had = options.there[place] & (options.cost_bytes[place] <= allocation.cache_bytes)
            total += float(options.gain[place][had].max()) if allocation.mode != "none" else 0.0
        return total


def _options(columns: ViewColumns, places: Ints, benefits: Floats) -> Options:
    """None, two chunks where that is less than all, and whole; of the data sets at `places`."""
    count, regular = len(columns.datasets), ~columns.irregular
    of, accelerators = columns.dataset_of, columns.accelerators
    together = np.bincount(of[regular], minlength=count)
    of_two = np.minimum(benefits, together[of].astype(np.float64))
    known = (columns.cooperative_bytes_per_s > 0) & (columns.miss_bytes_per_s > 0)
    ratio = np.divide(columns.cooperative_bytes_per_s, columns.miss_bytes_per_s, out=np.ones(len(of)), where=known)
    of_two = np.where(known, np.minimum(benefits, np.maximum(1.0, ratio)), of_two)
    whole = np.bincount(of, (benefits - 1) * accelerators, count)[places] * (1 + _WHOLE_EXTRA)
    gained = ((of_two - 1) * accelerators)[regular]
    cooperative = np.bincount(of[regular], gained, count)[places]
    sizes, two_chunks = columns.size_bytes[places], columns.cooperative_bytes[places]
    less = (two_chunks > 0) & (two_chunks < sizes)
    none, always = np.zeros(len(places), np.int64), np.ones(len(places), np.bool_)
    return Options(
        np.stack((none, np.where(less, two_chunks, sizes), sizes), axis=1),
        np.stack((none.astype(np.float64), np.where(less, cooperative, whole), whole), axis=1),
        np.stack((always, always, less), axis=1),
    )


def _name(options: Options, row: int, option: int) -> str:
    """`whole` is the last of each."""
    if not option:
        return "none"
    return "cooperative" if option == 1 and options.there[row, 2] else "whole"


def _benefits(columns: ViewColumns) -> tuple[Floats, Ints]:
    """t_miss / t_hit of each job, at least 1; that of jobs that are not measured is the mean of the others. And which
    are measured."""
    hit, miss = columns.hit_bytes_per_s, columns.miss_bytes_per_s
    known = (hit > 0) & (miss > 0)
    benefits = np.maximum(1.0, np.divide(hit, miss, out=np.ones(len(hit)), where=known))
    if not known.all():
        benefits[~known] = fmean(benefits[known].tolist()) if known.any() else _UNMEASURED_BENEFIT
    return benefits, known.astype(np.int64)


def _measured(accelerators: Ints, benefits: Floats, probed: int) -> str:
    least, most = float(benefits.min()), float(benefits.max())
    spread = f"{least:.2f}" if least == most else f"{least:.2f} to {most:.2f}"
    all_of_them = int(accelerators.sum())
    how = f"{probed} of {many(len(benefits), 'job')} probed" if probed else "a guess: no job is probed yet"
    return f"{spread} times as fast from the cache as from the store, on {many(all_of_them, 'accelerator')} ({how})"
