"""A fixed split: each job has the disks of its own accelerators (CoorDL, as SiloD section 7 compares it)."""

from __future__ import annotations

from collections import Counter

from tfquiver.amounts import of_bytes
from tfquiver.service.coordinator.policies.interface import ClusterView, Plan, same_or_new
from tfquiver.service.coordinator.policies.pins import (
    free,
    free_bytes,
    pin_reasons,
    pinned,
    remote_pins,
)
from tfquiver.service.coordinator.policies.reasons import Reasons, Sentences


class StaticPolicy:
    """Cache by accelerators; jobs that read one data set put their parts together. What is too much is not lent."""

    probing = False

    def plan(self, view: ClusterView, now: float) -> Plan:
        there_bytes, of_each = free_bytes(view), Counter[str]()
        for job in view.jobs:
            of_each[job.dataset] += job.accelerators
        accelerators = max(1, view.accelerators or 0, of_each.total())
        datasets = free(view)
        own = [of_each[dataset.name] for dataset in datasets]
        parts = [there_bytes * its // accelerators for its in own]
        allocations = {
            dataset.name: same_or_new(dataset, "uniform", min(dataset.size_bytes, part_bytes))
            for dataset, part_bytes, its in zip(datasets, parts, own, strict=True)
            if its
        }
        reasons = Sentences(
            [dataset.name for dataset in datasets],
            [own, parts],
            lambda its, part_bytes: (
                f"static: its jobs have {its} of {accelerators} accelerators, so {of_bytes(part_bytes)} of the cache"
            ),
        )
        return Plan(pinned(view) | allocations, remote_pins(view), Reasons(reasons) | pin_reasons(view))
