"""The shipping policy's part in a simulation: it is asked, and what it says is done. Pure."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tfquiver import errors
from tfquiver.service.coordinator.policies.views_and_plans.columns import AllocationColumns, RateColumns
from tfquiver.service.coordinator.policies.views_and_plans.interface import MODES, ClusterView, Plan, Policy
from tfquiver.service.coordinator.speed_model_and_weighted_shares.filling import whole_sum
from tfquiver.service.sim.cache_contents.contents import Contents
from tfquiver.service.sim.job_queue_rates_store_bandwidth.jobs import Jobs
from tfquiver.service.sim.job_queue_rates_store_bandwidth.rates import Rates
from tfquiver.service.sim.job_queue_rates_store_bandwidth.sharing import Floats, Ints
from tfquiver.service.sim.probing_and_policies.probing import Probing
from tfquiver.service.sim.probing_and_policies.shown import Shown, Views
from tfquiver.service.sim.probing_and_policies.sight import Sight
from tfquiver.service.sim.workloads_and_recordings.workload import Cluster, Workload
from tfquiver.sizes_durations_amounts.amounts import apart


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
        probes = getattr(policy, "probing", True)
        self._sight, self._views = sight, Views(workload, cluster, jobs, contents, sight, probing, probes)
        self.meters = self._views.meters
        self._datasets = {name: number for number, name in enumerate(workload.datasets)}
        self._numbers = {job.name: number for number, job in enumerate(jobs.all)}
        self._promised: Floats | None = None  # bytes/s from the store; None: nothing to anybody
        self.plans = 0
        self._last: ClusterView | None = None  # that was planned for

    def plan(self, now: float, rates: Callable[[], Rates], hits: Floats) -> None:
        """Asks the policy, and does what it says. Raises InvalidArgumentError: that cannot be."""
        shown = self._views.measured(now) if self._sight.measured else self._views.everything(rates, hits)
        # The same view gives the same plan, which is in force; but for one that has to be asked several times.
        if shown.view == self._last and getattr(self._policy, "settled", True):
            self.plans += 1
            return
        plan = self._policy.plan(shown.view, now)
        datasets, modes, given = self._allocated(plan, shown)
        limited, bytes_per_s = self._limited(plan, shown)
        self.plans += 1
        spare_bytes = self._cluster.cache_bytes if self._sight.measured else 0.0
        self._contents.apply(datasets, modes, given, self._jobs.dataset, spare_bytes)
        self._promised = np.zeros(len(self._jobs.all)) if limited.size else None
        if self._promised is not None:
            self._promised[limited] = bytes_per_s
        self._last = shown.view if self._sight.measured else None  # what is left to read is never the same

    def promised(self, jobs: Ints) -> Floats | None:
        """Bytes/s from the store to each; None: nothing to anybody."""
        return None if self._promised is None else self._promised[jobs]

    def _allocated(self, plan: Plan, shown: Shown) -> tuple[Ints, Ints, Ints]:
        """Data sets, modes, bytes; of what cannot be the first is named."""
        whose, told = f"{type(self._policy).__name__}: allocations", plan.allocations
        columns = shown.view.columns
        if isinstance(told, AllocationColumns) and columns is not None and told.names is columns.datasets:
            datasets, modes, given = shown.datasets[told.places], told.modes, told.cache_bytes
        else:
            for name in told:
                if name not in self._datasets:
                    raise errors.InvalidArgumentError(f"{whose}[{name!r}]: there is no such data set")
            datasets = np.array([self._datasets[name] for name in told], np.int64)
            modes = np.array([MODES.index(one.mode) for one in told.values()], np.int64)
            given = np.array([one.cache_bytes for one in told.values()], np.int64)
        if (given < 0).any():
            name = list(told)[int(np.argmax(given < 0))]
            raise errors.InvalidArgumentError(f"{whose}[{name!r}].cache_bytes is negative")
        total = whole_sum(given)
        if total > self._cluster.cache_bytes:
            asked, there = apart(total, self._cluster.cache_bytes)
            raise errors.InvalidArgumentError(f"{whose}: {asked} are more than the {there} of the cache")
        return datasets, modes, given

    def _limited(self, plan: Plan, shown: Shown) -> tuple[Ints, Floats]:
        """Jobs, and bytes/s of each."""
        whose, told = f"{type(self._policy).__name__}: remote_bytes_per_s", plan.remote_bytes_per_s
        columns = shown.view.columns
        if isinstance(told, RateColumns) and columns is not None and told.names is columns.jobs:
            jobs, bytes_per_s = shown.jobs[told.places], told.bytes_per_s
        else:
            jobs = np.array([self._numbers.get(name, -1) for name in told], np.int64)
            bytes_per_s = np.array([*told.values()], np.float64)
        wrong = (jobs < 0) | ~((bytes_per_s >= 0) & (bytes_per_s < np.inf))
        if wrong.any():
            name = list(told)[int(np.argmax(wrong))]
            raise errors.InvalidArgumentError(f"{whose}[{name!r}]: no such job, or no rate")
        return jobs, bytes_per_s
