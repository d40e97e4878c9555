"""Small workloads for the flow simulator, and policies that always say the same."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import inf

from tfquiver.service.coordinator.job_schedulers.fifo import Fifo
from tfquiver.service.coordinator.policies.views_and_plans.interface import Allocation, ClusterView, Mode, Plan
from tfquiver.service.sim.job_queue_rates_store_bandwidth.outcome import Outcome
from tfquiver.service.sim.job_queue_rates_store_bandwidth.simulation import simulate
from tfquiver.service.sim.workloads_and_recordings.workload import Cluster, SimJob, Workload

SIZE = 1_000_000
EPOCH_S = 600.0
SPEED = SIZE / EPOCH_S


@dataclass(frozen=True)
class Fixed:
    """Whatever it is shown."""

    allocations: Mapping[str, Allocation]

    def plan(self, view: ClusterView, now: float) -> Plan:
        return Plan(self.allocations)


def one_data_set(
    jobs: int, mode: Mode, share: float, epochs: float, store_speed: float = inf, starts_s: tuple[float, ...] = ()
) -> Outcome:
    """`jobs` that read one data set of which a share has room, in step or with starts of their own; the store gives so
    many data sets in the time of an epoch."""
    starts = starts_s or (0.0,) * jobs
    made = tuple(SimJob(f"job {n}", "data", SPEED, epochs * SIZE, 1, start) for n, start in enumerate(starts))
    room = int(share * SIZE)
    cluster = Cluster(jobs, room, store_speed * SPEED)
    allocations = {"data": Allocation(mode, room)} if mode != "none" else {}
    return simulate(Workload({"data": SIZE}, made), cluster, Fixed(allocations), Fifo())
