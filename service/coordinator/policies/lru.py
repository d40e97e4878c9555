"""What a cache does that knows nothing of training (Alluxio's default, SiloD section 7): least recently used goes."""

from __future__ import annotations

from tfquiver.amounts import of_bytes, of_rate
from tfquiver.service.coordinator.policies.interface import ClusterView, Plan, same_or_new
from tfquiver.service.coordinator.policies.pins import (
    free,
    free_bytes,
    jobs_by_dataset,
    pin_reasons,
    pinned,
    remote_pins,
)
from tfquiver.service.coordinator.policies.reasons import Reasons, Sentences
from tfquiver.service.coordinator.speed_model.demand import reading_rates
from tfquiver.service.coordinator.speed_model.filling import fill


class LruPolicy:
    """Every data set that is read gets what it would occupy of one LRU cache for all.

    What comes in pushes the oldest out, whosever it is: while little is hit, a data set's part is that of its jobs in
    what all read, up to its size. Nobody's bandwidth is limited.
    """

    probing = False

    def plan(self, view: ClusterView, now: float) -> Plan:
        rates, jobs = reading_rates(view), jobs_by_dataset(view)
        read = [dataset for dataset in free(view) if dataset.name in jobs]
        weights = {dataset.name: sum(rates[job.name] for job in jobs[dataset.name]) for dataset in read}
        parts = fill(free_bytes(view), {dataset.name: dataset.size_bytes for dataset in read}, weights)
        allocations = {dataset.name: same_or_new(dataset, "lru", int(parts[dataset.name])) for dataset in read}
        all_read = of_rate(sum(weights.values()))
        reasons = Sentences(
            [*parts],
            [[*map(weights.__getitem__, parts)], [*parts.values()]],
            lambda weight, part: (
                f"lru: its jobs read {of_rate(weight)} of {all_read}, which is {of_bytes(part)} of a common LRU cache"
            ),
        )
        return Plan(pinned(view) | allocations, remote_pins(view), Reasons(reasons) | pin_reasons(view))
