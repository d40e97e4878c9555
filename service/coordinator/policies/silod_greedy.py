"""SiloD's greedy policy (EuroSys'23, Algorithm 2 and section 6): the most cache-efficient data sets first."""

from __future__ import annotations

from collections.abc import Mapping

from tfquiver.service.coordinator.policies.irregular import in_parts
from tfquiver.service.coordinator.policies.pins import (
    free,
    free_bytes,
    jobs_by_dataset,
    pin_reasons,
    pinned,
)
from tfquiver.service.coordinator.policies.views_and_plans.interface import Allocation, ClusterView, Plan
from tfquiver.service.coordinator.speed_model_and_weighted_shares.closed_form import cache_efficiency
from tfquiver.service.coordinator.speed_model_and_weighted_shares.demand import (
    lacking_now,
    reading_rates,
    remote_reasons,
    share_remote,
    spared,
)
from tfquiver.sizes_durations_amounts.amounts import of_bytes, of_rate

_GB = 1e9


class SilodGreedyPolicy:
    """A data set's efficiency is the sum of its jobs' f*/d, and its cache is charged once. The last one that finds room
    has a part of it. What the store gives is then shared by what the jobs lack (`demand.share_remote`: max-min).

    Of equal efficiency the one that is resident already goes first, then by name.
    """

    def plan(self, view: ClusterView, now: float) -> Plan:
        return in_parts(view, _plan)

    def worth(self, view: ClusterView, allocations: Mapping[str, Allocation]) -> float:
        """Bytes/s that the store is spared."""
        return spared(view, allocations)


def _plan(view: ClusterView) -> Plan:
    rates, jobs = reading_rates(view), jobs_by_dataset(view)
    efficiency = {
        dataset.name: sum(
            (cache_efficiency(rates[job.name], dataset.size_bytes) for job in jobs.get(dataset.name, ())), 0.0
        )
        for dataset in free(view)
    }
    left_bytes, allocations, reasons = free_bytes(view), dict(pinned(view)), pin_reasons(view)
    ranked = sorted(free(view), key=lambda one: (-efficiency[one.name], -one.resident_bytes, one.name))
    for rank, dataset in enumerate(ranked, start=1):
        cache_bytes = min(dataset.size_bytes, left_bytes)
        left_bytes -= cache_bytes
        if cache_bytes:
            allocations[dataset.name] = Allocation("uniform", cache_bytes)
        reasons[dataset.name] = (
            f"silod_greedy: rank {rank} of {len(ranked)}, a GB spares {of_rate(efficiency[dataset.name] * _GB)}; "
            f"{of_bytes(cache_bytes)} of its {of_bytes(dataset.size_bytes)} found room"
        )
    lacking = lacking_now(view, allocations)
    remote = share_remote(view, lacking)
    return Plan(allocations, remote, remote_reasons("silod_greedy", view, lacking, remote) | reasons)
