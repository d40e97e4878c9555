"""What a cache does that knows nothing of training (Alluxio's default, SiloD section 7): least recently used goes."""

from __future__ import annotations

import numpy as np

from tfquiver.service.coordinator.policies.pins import free_bytes, pin_reasons, pinned, remote_pins
from tfquiver.service.coordinator.policies.views_and_plans.columns import AllocationColumns, columns_of, listed, picked
from tfquiver.service.coordinator.policies.views_and_plans.interface import ClusterView, Plan
from tfquiver.service.coordinator.policies.views_and_plans.reasons import Reasons, Sentences
from tfquiver.service.coordinator.speed_model_and_weighted_shares.demand import reading_rate_column
from tfquiver.service.coordinator.speed_model_and_weighted_shares.filling import fill_column, whole_bytes
from tfquiver.sizes_durations_amounts.amounts import of_bytes, of_rate


class LruPolicy:
    """Every data set that is read gets what it would occupy of one LRU cache for all.

    What comes in pushes the oldest out, whosever it is: while little is hit, a data set's part is that of its jobs in
    what all read, up to its size. Nobody's bandwidth is limited.
    """

    probing = False

    def plan(self, view: ClusterView, now: float) -> Plan:
        columns = columns_of(view)
        datasets = len(columns.datasets)
        is_read = np.bincount(columns.dataset_of, minlength=datasets) > 0
        read = np.flatnonzero(is_read & ~columns.pinned)
        weights = np.bincount(columns.dataset_of, reading_rate_column(columns), datasets).astype(np.float64)[read]
        parts = fill_column(free_bytes(view), columns.size_bytes[read].astype(np.float64), weights)
        allocations = AllocationColumns(columns.datasets, read, "lru", whole_bytes(parts, free_bytes(view)))
        all_read = of_rate(float(weights.sum()))
        reasons = Sentences(
            picked(columns.datasets, read),
            [listed(weights), listed(parts)],
            lambda weight, part: (
                f"lru: its jobs read {of_rate(weight)} of {all_read}, which is {of_bytes(part)} of a common LRU cache"
            ),
        )
        return Plan(allocations | pinned(view), remote_pins(view), Reasons(reasons) | pin_reasons(view))
