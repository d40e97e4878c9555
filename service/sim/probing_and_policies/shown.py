"""What a policy is shown of a simulated cluster. Pure.

Everything, by column, and by rows for a policy that looks at them: those that are as they were shown last are the same
objects. Or what a running coordinator would have measured (`sight`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import repeat
from math import isnan

import numpy as np

from tfquiver.service.coordinator.dataset_caching.chunk_counts import CYCLIC_BYTES, CYCLIC_SHARE
from tfquiver.service.coordinator.policies.views_and_plans.columns import Rows
from tfquiver.service.coordinator.policies.views_and_plans.interface import (
    MODES,
    Allocation,
    ClusterView,
    DatasetView,
    JobView,
    ViewColumns,
)
from tfquiver.service.sim.cache_contents.contents import Contents
from tfquiver.service.sim.job_queue_rates_store_bandwidth.jobs import Jobs
from tfquiver.service.sim.job_queue_rates_store_bandwidth.rates import Rates
from tfquiver.service.sim.job_queue_rates_store_bandwidth.sharing import Bools, Floats, Ints, alone_from_store
from tfquiver.service.sim.probing_and_policies.probing import Probing
from tfquiver.service.sim.probing_and_policies.sight import Meters, Sight, two_chunks_bytes
from tfquiver.service.sim.workloads_and_recordings.workload import Cluster, Stored, Workload
from tfquiver.shard_owners_chunks_hash_prefixes.sorted_numbers import distinct

_CHUNKS = 2


@dataclass(frozen=True, slots=True)
class Shown:
    """`datasets`: the numbers of the view's data sets, in its order; `jobs`: of its jobs."""

    view: ClusterView
    datasets: Ints
    jobs: Ints


class Views:
    def __init__(
        self, workload: Workload, cluster: Cluster, jobs: Jobs, contents: Contents, sight: Sight, probing: Probing,
        probes: bool = True,
    ) -> None:  # fmt: skip
        """`probes`: whether the policy looks at what probing measures: else nobody has measured it."""
        self._probes = probes
        self._cluster, self._jobs, self._contents = cluster, jobs, contents
        self._sight, self.meters, self._probing = sight, Meters(jobs), probing
        names = list(workload.datasets)
        self._names = np.array(names, object)
        self._ranks = np.argsort(np.argsort(np.array(names, np.str_)))
        sizes = [workload.disk_bytes(name) for name in names]
        self._size_bytes = np.array(sizes, np.int64)
        two_chunks = map(self._two_chunks_bytes, names, sizes, repeat(workload.stored))
        self._cooperative_bytes = np.array([*two_chunks], np.int64)
        # Of job and data set by number: the row that was shown last, and the figures that may differ in the next one.
        self._dataset_rows, self._dataset_figures = np.full(len(names), None, object), np.full((3, len(names)), -1)
        self._job_rows, self._job_figures = np.full(len(jobs.all), None, object), np.full((3, len(jobs.all)), np.nan)
        # As last measured while it ran; nan: it was stopped before anything was planned.
        self._missing, self._hits = np.full(len(jobs.all), np.nan), np.zeros(len(jobs.all))
        self._unknown = np.full(len(jobs.all), np.nan)
        # Not out of the column of names: that ends each before its last zeros, and two may be one.
        self._job_names = np.array([job.name for job in jobs.all], object)

    def everything(self, rates: Callable[[], Rates], hits: Floats) -> Shown:
        """`rates`: as they are now; of a policy that does not look at what comes of them they are not asked."""
        jobs, running, contents = self._jobs, self._jobs.running, self._contents
        limit = self._cluster.remote_bytes_per_s
        if self._probes:
            self._missing[running] = alone_from_store(
                jobs.ideal[running], rates().fetched, limit, np.ones(len(running))
            )  # fmt: skip
        self._hits[running] = hits
        # Those that only wait for their turn are jobs as well: what they left in the cache they will want again.
        begun = jobs.begun
        shows: Bools = contents.resident > 0
        shows[jobs.dataset[begun]] = True
        numbers = np.flatnonzero(shows)
        resident = self._resident_bytes(numbers)
        seen_hits, unknown = self._hits[begun], self._unknown[: len(begun)]
        missing = self._missing[begun] if self._probes else unknown
        mode, given, done = contents.mode, contents.given, jobs.done.copy()  # the first two are never changed
        rows = (
            Rows(len(numbers), lambda: self._rows_of_datasets(numbers, resident, mode[numbers], given[numbers])),
            Rows(len(begun), lambda: self._rows_of_jobs(begun, missing, jobs.total[begun] - done[begun], seen_hits)),
        )
        ideal = jobs.ideal[begun]
        nobody = np.zeros(max(len(numbers), len(begun)), np.bool_)
        names: tuple[Sequence[str], Sequence[str]] = (
            Rows(len(numbers), lambda: self._names[numbers].tolist()),
            Rows(len(begun), lambda: self._job_names[begun].tolist()),
        )
        columns = ViewColumns(
            names[0], self._ranks[numbers], self._size_bytes[numbers],
            self._cooperative_bytes[numbers], resident, nobody[: len(numbers)],
            names[1], _places(numbers, jobs.dataset[begun], len(shows)),
            ideal, ideal, missing, unknown, seen_hits, jobs.accelerators[begun].astype(np.int64),
            jobs.irregular[begun], nobody[: len(begun)], rows,
        )  # fmt: skip
        known = None if limit == np.inf else limit
        view = ClusterView(self._cluster.cache_bytes, known, *rows, self._cluster.accelerators, columns)
        return Shown(view, numbers, begun)

    def measured(self, now: float) -> Shown:
        jobs = self._jobs
        lately = np.flatnonzero(now - jobs.ended_s < self._sight.gone_s)  # perhaps between two epochs
        numbers = np.union1d(jobs.running, lately)
        shown = tuple(self.meters.shown(number, now, self._probing.result(number)) for number in numbers.tolist())
        read, contents = distinct(jobs.dataset[numbers]), self._contents
        datasets = self._rows_of_datasets(read, self._resident_bytes(read), contents.mode[read], contents.given[read])
        return Shown(ClusterView(self._cluster.cache_bytes, None, tuple(datasets), shown), read, numbers)

    def _resident_bytes(self, numbers: Ints) -> Ints:
        contents = self._contents
        resident = (contents.resident[numbers] * contents.disk_bytes_each[numbers]).astype(np.int64)
        return np.minimum(self._size_bytes[numbers], resident)

    def _rows_of_datasets(self, numbers: Ints, resident: Ints, mode: Ints, given: Ints) -> Sequence[DatasetView]:
        figures = np.stack((resident, mode, given))
        changed = (figures != self._dataset_figures[:, numbers]).any(axis=0)
        moved = numbers[changed]
        self._dataset_figures[:, moved] = figures[:, changed]
        always = self._names[moved], self._size_bytes[moved].tolist(), self._cooperative_bytes[moved].tolist()
        now = map(Allocation, map(MODES.__getitem__, mode[changed].tolist()), given[changed].tolist())
        self._dataset_rows[moved] = [*map(DatasetView, *always, now, repeat(None), resident[changed].tolist())]
        return tuple(self._dataset_rows[numbers].tolist())

    def _rows_of_jobs(self, numbers: Ints, missing: Floats, left: Floats, hits: Floats) -> Sequence[JobView]:
        figures = np.stack((missing, left, hits))
        changed = (figures != self._job_figures[:, numbers]).any(axis=0)
        moved = numbers[changed]
        self._job_figures[:, moved] = figures[:, changed]
        self._job_rows[moved] = [*map(self._job, moved.tolist(), *figures[:, changed].tolist())]
        return tuple(self._job_rows[numbers].tolist())

    def _job(self, number: int, missing: float, left: float, hits: float) -> JobView:
        job = self._jobs.all[number]
        return JobView(
            job.name, job.dataset, job.ideal_bytes_per_s, job.ideal_bytes_per_s, None if isnan(missing) else missing,
            job.accelerators, left, job.pacing is not None, hit_ratio=hits,
        )  # fmt: skip

    def _two_chunks_bytes(self, name: str, size: int, stored: Mapping[str, Stored]) -> int:
        if self._sight.measured:
            return two_chunks_bytes(size, stored[name].shards if name in stored else None)
        return _CHUNKS * min(CYCLIC_BYTES, int(CYCLIC_SHARE * size))


def _places(numbers: Ints, of: Ints, count: int) -> Ints:
    """Where in `numbers` each of `of` stands."""
    places = np.zeros(count, np.int64)
    places[numbers] = np.arange(len(numbers))
    return np.asarray(places[of])
