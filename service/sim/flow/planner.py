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
from tfquiver.service.sim.flow.sharing import Floats, Ints, alone_from_store
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
        self._size_bytes = np.array(self._sizes, np.int64)
        two_chunks = map(self._cooperative_bytes, self._names, self._sizes, repeat(workload.stored))
        # What is the same in every view of a data set: name, size, least bytes to be co-operative.
        self._always = np.array([*zip(self._names, self._sizes, two_chunks, strict=True)], object).reshape(-1, 3).T
        self._datasets = {name: number for number, name in enumerate(self._names)}
        self._numbers = {job.name: number for number, job in enumerate(jobs.all)}
        # What is in force, and what was shown last, by number: of thousands most are as they were.
        self._now = [Allocation()] * len(self._names)
        self._given: set[int] = set()  # have an allocation now
        self._shown, self._shown_bytes = (
            np.full(len(self._names), None, object),
            np.full(len(self._names), -1, np.int64),
        )
        self._jobs_shown, self._shown_at = np.full(len(jobs.all), None, object), np.full(len(jobs.all), np.nan)
        self.promised = np.zeros(len(jobs.all))  # bytes/s from the store
        # As last measured while it ran.
        self._missing, self._hits = np.zeros(len(jobs.all)), np.zeros(len(jobs.all))
        self.plans = 0

    def plan(self, now: float, rates: Rates, hits: Floats) -> None:
        """Asks the policy, and does what it says. Raises InvalidArgumentError: that cannot be."""
        view = self._measured_view(now) if self._sight.measured else self._view(rates, hits)
        plan = self._policy.plan(view, now)
        self._check(plan)
        self.plans += 1
        spare_bytes = self._cluster.cache_bytes if self._sight.measured else 0.0
        self._contents.apply(plan.allocations, self._jobs.dataset, spare_bytes)
        self._in_force(plan.allocations)
        self.promised[:] = 0.0
        self.promised[[self._numbers[name] for name in plan.remote_bytes_per_s]] = list(
            plan.remote_bytes_per_s.values()
        )

    def _in_force(self, allocations: Mapping[str, Allocation]) -> None:
        now, given, changed = self._now, set[int](), list[int]()
        for name, allocation in allocations.items():
            number = self._datasets[name]
            given.add(number)
            if now[number] is not allocation:
                now[number] = allocation
                changed.append(number)
        for number in self._given - given:
            now[number] = Allocation()
            changed.append(number)
        self._given = given
        self._shown_bytes[changed] = -1  # to be shown anew

    def _view(self, rates: Rates, hits: Floats) -> ClusterView:
        jobs, running = self._jobs, self._jobs.running
        limit = self._cluster.remote_bytes_per_s
        missing = alone_from_store(jobs.ideal[running], rates.fetched, limit, np.ones(len(running)))
        self._missing[running], self._hits[running] = missing, hits
        # Those that only wait for their turn are jobs as well: what they left in the cache they will want again.
        begun = np.union1d(running, jobs.paused)
        moved = begun[(self._shown_at[begun] != jobs.done[begun]) | np.isin(begun, running, assume_unique=True)]
        self._jobs_shown[moved] = list(map(self._job, moved.tolist()))
        self._shown_at[moved] = jobs.done[moved]
        shows = self._contents.resident > 0
        shows[jobs.dataset[begun]] = True
        known = None if limit == np.inf else limit
        shown = tuple(self._jobs_shown[begun].tolist())
        datasets = self._dataset_views(np.flatnonzero(shows))
        return ClusterView(self._cluster.cache_bytes, known, datasets, shown, self._cluster.accelerators)

    def _job(self, number: int) -> JobView:
        job, jobs = self._jobs.all[number], self._jobs
        return JobView(
            job.name, job.dataset, job.ideal_bytes_per_s, job.ideal_bytes_per_s, float(self._missing[number]),
            job.accelerators, float(jobs.total[number] - jobs.done[number]), job.pacing is not None,
            hit_ratio=float(self._hits[number]),
        )  # fmt: skip

    def _measured_view(self, now: float) -> ClusterView:
        jobs = self._jobs
        lately = np.flatnonzero(now - jobs.ended_s < self._sight.gone_s)  # perhaps between two epochs
        numbers = np.union1d(jobs.running, lately)
        shown = tuple(self.meters.shown(number, now, self._probing.result(number)) for number in numbers.tolist())
        datasets = self._dataset_views(np.unique(jobs.dataset[numbers]))
        return ClusterView(self._cluster.cache_bytes, None, datasets, shown)

    def _cooperative_bytes(self, name: str, size: int, stored: Mapping[str, Stored]) -> int:
        if self._sight.measured:
            return two_chunks_bytes(size, stored[name].shards if name in stored else None)
        return _CHUNKS * min(CYCLIC_BYTES, int(CYCLIC_SHARE * size))

    def _dataset_views(self, numbers: Ints) -> tuple[DatasetView, ...]:
        contents = self._contents
        resident = (contents.resident[numbers] * contents.disk_bytes_each[numbers]).astype(np.int64)
        resident = np.minimum(self._size_bytes[numbers], resident)
        changed = resident != self._shown_bytes[numbers]
        moved, there = numbers[changed], resident[changed]
        self._shown_bytes[moved] = there
        now = map(self._now.__getitem__, moved.tolist())
        columns = (*self._always[:, moved].tolist(), now, repeat(None), there.tolist())
        self._shown[moved] = [*map(DatasetView, *columns)]
        return tuple(self._shown[numbers].tolist())

    def _check(self, plan: Plan) -> None:
        whose = type(self._policy).__name__
        total = 0
        for name, allocation in plan.allocations.items():
            if name not in self._datasets:
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
