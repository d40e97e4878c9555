"""The shipping policy's part in a simulation: what it is shown, and what it decides. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import repeat

import numpy as np

from tfquiver import errors
from tfquiver.service.coordinator.policies.interface import (
    Allocation,
    ClusterView,
    DatasetView,
    JobView,
    Plan,
    Policy,
)
from tfquiver.service.coordinator.rotation.chunk_counts import CYCLIC_BYTES, CYCLIC_SHARE
from tfquiver.service.sim.flow.contents import Contents
from tfquiver.service.sim.flow.jobs import Jobs
from tfquiver.service.sim.flow.probing import Probing
from tfquiver.service.sim.flow.rates import Rates
from tfquiver.service.sim.flow.sharing import Floats, alone_from_store
from tfquiver.service.sim.flow.sight import Meters, Sight, two_chunks_bytes
from tfquiver.service.sim.workloads.workload import Cluster, Stored, Workload

_CHUNKS = 2


class Planner:
    def __init__(
        self,
        policy: Policy,
        workload: Workload,
        cluster: Cluster,
        jobs: Jobs,
        contents: Contents,
        sight: Sight,
        probing: Probing,
    ) -> None:
        self._policy, self._cluster, self._jobs, self._contents = policy, cluster, jobs, contents
        self._sight, self.meters, self._probing = sight, Meters(jobs), probing
        self._names = tuple(workload.datasets)
        self._sizes = tuple(workload.disk_bytes(name) for name in self._names)
        self._two_chunks = tuple(map(self._cooperative_bytes, self._names, self._sizes, repeat(workload.stored)))
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
        view = self._measured_view(now) if self._sight.measured else self._view(rates, hits)
        self._last = plan = self._policy.plan(view, now)
        self._check(plan)
        self.plans += 1
        spare_bytes = self._cluster.cache_bytes if self._sight.measured else 0.0
        self._contents.apply(plan.allocations, self._jobs.dataset, spare_bytes)
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

    def _measured_view(self, now: float) -> ClusterView:
        jobs = self._jobs
        lately = np.flatnonzero(now - jobs.ended_s < self._sight.gone_s)  # perhaps between two epochs
        numbers = np.union1d(jobs.running, lately)
        shown = tuple(self.meters.shown(number, now, self._probing.result(number)) for number in numbers.tolist())
        datasets = tuple(self._dataset(number) for number in np.unique(jobs.dataset[numbers]).tolist())
        return ClusterView(self._cluster.cache_bytes, None, datasets, shown)

    def _cooperative_bytes(self, name: str, size: int, stored: Mapping[str, Stored]) -> int:
        if self._sight.measured:
            return two_chunks_bytes(size, stored[name].shards if name in stored else None)
        return _CHUNKS * min(CYCLIC_BYTES, int(CYCLIC_SHARE * size))

    def _dataset(self, number: int) -> DatasetView:
        contents, name, size = self._contents, self._names[number], self._sizes[number]
        resident_bytes = min(size, int(contents.resident[number] * contents.disk_bytes_each[number]))
        now = self._last.allocations.get(name, Allocation())
        shown = self._shown.get(number)
        if shown is not None and shown.resident_bytes == resident_bytes and shown.now == now:
            return shown
        made = DatasetView(name, size, self._two_chunks[number], now, resident_bytes=resident_bytes)
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
