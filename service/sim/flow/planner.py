"""The shipping policy's part in a simulation: what it is shown, and what it decides. Pure."""

from __future__ import annotations

import numpy as np

from tfquiver import errors
from tfquiver.service.coordinator.cache.chunk_counts import CYCLIC_BYTES, CYCLIC_SHARE
from tfquiver.service.coordinator.policies.interface import (
    Allocation,
    ClusterView,
    DatasetView,
    JobView,
    Plan,
    Policy,
)
from tfquiver.service.sim.flow.contents import Contents
from tfquiver.service.sim.flow.jobs import Jobs
from tfquiver.service.sim.flow.rates import Rates
from tfquiver.service.sim.flow.sharing import Floats, alone_from_store
from tfquiver.service.sim.flow.workload import Cluster, Workload

_CHUNKS = 2


class Planner:
    def __init__(self, policy: Policy, workload: Workload, cluster: Cluster, jobs: Jobs, contents: Contents) -> None:
        self._policy, self._cluster, self._jobs, self._contents = policy, cluster, jobs, contents
        self._names = tuple(workload.datasets)
        self._sizes = tuple(workload.datasets.values())
        self._known = frozenset(self._names)
        self._numbers = {job.name: number for number, job in enumerate(jobs.all)}
        self._last = Plan()
        self._shown: dict[int, DatasetView] = {}  # most are as they were
        self.promised = np.zeros(len(jobs.all))  # bytes/s from the store
        # As last measured while it ran.
        self._missing, self._hits = np.zeros(len(jobs.all)), np.zeros(len(jobs.all))
        self.plans = 0

    def plan(self, now: float, rates: Rates, hits: Floats) -> None:
        """Asks the policy, and does what it says. Raises InvalidArgumentError: that cannot be."""
        self._last = plan = self._policy.plan(self._view(rates, hits), now)
        self._check(plan)
        self.plans += 1
        self._contents.apply(plan.allocations, self._jobs.dataset)
        self.promised[:] = 0.0
        for name, bytes_per_s in plan.remote_bytes_per_s.items():
            self.promised[self._numbers[name]] = bytes_per_s

    def _view(self, rates: Rates, hits: Floats) -> ClusterView:
        jobs, running = self._jobs, self._jobs.running
        limit = self._cluster.remote_bytes_per_s
        self._missing[running] = alone_from_store(jobs.ideal[running], rates.fetched, limit, np.ones(len(running)))
        self._hits[running] = hits
        # Those that only wait for their turn are jobs as well: what they left in the cache they will want again.
        begun = np.union1d(running, jobs.paused)
        missing, found = self._missing[begun].tolist(), self._hits[begun].tolist()
        left = (jobs.total[begun] - jobs.done[begun]).tolist()
        shown = tuple(
            JobView(
                job.name, job.dataset, job.ideal_bytes_per_s, job.ideal_bytes_per_s, missing[at], job.accelerators,
                left[at], job.pacing is not None, hit_ratio=found[at],
            )
            for at, job in enumerate(jobs.all[number] for number in begun.tolist())
        )  # fmt: skip
        shows = self._contents.resident > 0
        shows[jobs.dataset[begun]] = True
        held = np.flatnonzero(shows)
        datasets = tuple(self._dataset(number) for number in held.tolist())
        known = None if limit == np.inf else limit
        return ClusterView(self._cluster.cache_bytes, known, datasets, shown, self._cluster.accelerators)

    def _dataset(self, number: int) -> DatasetView:
        name, size, resident_bytes = self._names[number], self._sizes[number], int(self._contents.resident[number])
        now = self._last.allocations.get(name, Allocation())
        shown = self._shown.get(number)
        if shown is not None and shown.resident_bytes == resident_bytes and shown.now == now:
            return shown
        two_chunks = _CHUNKS * min(CYCLIC_BYTES, int(CYCLIC_SHARE * size))
        made = DatasetView(name, size, two_chunks, now, resident_bytes=resident_bytes)
        self._shown[number] = made
        return made

    def _check(self, plan: Plan) -> None:
        whose = type(self._policy).__name__
        total = 0
        for name, allocation in plan.allocations.items():
            if name not in self._known:
                raise errors.InvalidArgumentError(f"{whose}: allocations[{name!r}]: there is no such data set")
            if allocation.cache_bytes < 0:
                raise errors.InvalidArgumentError(f"{whose}: allocations[{name!r}].cache_bytes is negative")
            total += allocation.cache_bytes
        if total > self._cluster.cache_bytes:
            raise errors.InvalidArgumentError(
                f"{whose}: allocations: {total} bytes are more than the {self._cluster.cache_bytes} of the cache"
            )
        for name, bytes_per_s in plan.remote_bytes_per_s.items():
            if name not in self._numbers or not 0 <= bytes_per_s < np.inf:
                raise errors.InvalidArgumentError(f"{whose}: remote_bytes_per_s[{name!r}]: no such job, or no rate")
