"""A fixed split: each job has the disks of its own accelerators (CoorDL, as SiloD section 7 compares it)."""

from __future__ import annotations

from tfquiver.amounts import of_bytes
from tfquiver.service.coordinator.policies.interface import Allocation, ClusterView, Plan
from tfquiver.service.coordinator.policies.pins import (
    free,
    free_bytes,
    jobs_by_dataset,
    pin_reasons,
    pinned,
    remote_pins,
)


class StaticPolicy:
    """Cache by accelerators; jobs that read one data set put their parts together. What is too much is not lent."""

    probing = False

    def plan(self, view: ClusterView, now: float) -> Plan:
        jobs, there_bytes = jobs_by_dataset(view), free_bytes(view)
        accelerators = max(1, view.accelerators or 0, sum(job.accelerators for job in view.jobs))
        allocations, reasons = {}, {}
        for dataset in free(view):
            own = sum(job.accelerators for job in jobs.get(dataset.name, ()))
            part_bytes = there_bytes * own // accelerators
            if own:
                allocations[dataset.name] = Allocation("uniform", min(dataset.size_bytes, part_bytes))
            reasons[dataset.name] = (
                f"static: its jobs have {own} of {accelerators} accelerators, so {of_bytes(part_bytes)} of the cache"
            )
        return Plan(pinned(view) | allocations, remote_pins(view), reasons | pin_reasons(view))
