"""A fixed split: each job has the disks of its own accelerators (CoorDL, as SiloD section 7 compares it)."""

from __future__ import annotations

import numpy as np

from tfquiver.service.coordinator.policies.pins import free_bytes, pin_reasons, pinned, remote_pins
from tfquiver.service.coordinator.policies.views_and_plans.columns import AllocationColumns, columns_of, listed
from tfquiver.service.coordinator.policies.views_and_plans.interface import ClusterView, Plan
from tfquiver.service.coordinator.policies.views_and_plans.reasons import Reasons, Sentences
from tfquiver.sizes_durations_amounts.amounts import of_bytes


class StaticPolicy:
    """Cache by accelerators; jobs that read one data set put their parts together. What is too much is not lent."""

    probing = False

    def plan(self, view: ClusterView, now: float) -> Plan:
        there_bytes, columns = free_bytes(view), columns_of(view)
        own = np.zeros(len(columns.datasets), np.int64)
        np.add.at(own, columns.dataset_of, columns.accelerators)
        accelerators = max(1, view.accelerators or 0, int(own.sum()))
        if there_bytes * int(own.max(initial=0)) < 1 << 63:
            parts = there_bytes * own // accelerators
        else:  # accelerators times bytes are more than a column holds
            parts = np.array([there_bytes * its // accelerators for its in own.tolist()], np.int64)
        given = np.flatnonzero((own > 0) & ~columns.pinned)
        allocations = AllocationColumns(
            columns.datasets, given, "uniform", np.minimum(columns.size_bytes, parts)[given]
        )
        reasons = Sentences(
            columns.datasets,
            [listed(own), listed(parts)],
            lambda its, part_bytes: (
                f"static: its jobs have {its} of {accelerators} accelerators, so {of_bytes(part_bytes)} of the cache"
            ),
        )
        return Plan(allocations | pinned(view), remote_pins(view), Reasons(reasons) | pin_reasons(view))
