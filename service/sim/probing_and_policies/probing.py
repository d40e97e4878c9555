"""The coordinator's schedule of probes over simulated jobs: who misses on purpose, and what that measures. Pure.

A job that misses reads past the cache: all of it comes from the store for it alone, and nothing of that is kept.
"""

from __future__ import annotations

import numpy as np

from tfquiver.service.coordinator.measuring_jobs_and_stores.counters import Counters
from tfquiver.service.coordinator.measuring_jobs_and_stores.store_load import StoreLoad
from tfquiver.service.coordinator.probing.measurement import JobMeasurement
from tfquiver.service.coordinator.probing.probe import ProbeResult
from tfquiver.service.coordinator.probing.schedule import ProbeSchedule
from tfquiver.service.sim.job_queue_rates_store_bandwidth.jobs import Jobs
from tfquiver.service.sim.job_queue_rates_store_bandwidth.sharing import Bools, Floats, Ints

TICK_S = 1.0  # as often as readers report
_IDLE_TICK_S = 30.0  # while nobody is probed, and nobody is new
_NEW_S = 60.0


class Probing:
    def __init__(self, jobs: Jobs, record_bytes: Floats) -> None:
        """`record_bytes`: a record's, of each job."""
        count = len(jobs.all)
        self._jobs, self._schedule = jobs, ProbeSchedule()
        self._names = {job.name: number for number, job in enumerate(jobs.all)}
        self._record_bytes = record_bytes
        self.missing: Bools = np.zeros(count, np.bool_)
        self._read, self._hit, self._missed = np.zeros(count), np.zeros(count), np.zeros(count)
        self._waited_s, self._elapsed_s = np.zeros(count), np.zeros(count)
        self._extra, self._most_extra = np.zeros(count), np.full(count, np.inf)
        self._until_s = np.full(count, np.inf)
        self._rate = np.zeros(count)
        # Read past the cache, in this probe: in this epoch, and in those before, of which this one reads again.
        self._passed, self._passed_before = np.zeros(count), np.zeros(count)

    def result(self, number: int) -> ProbeResult | None:
        job = self._jobs.all[number]
        return self._schedule.results.get((job.name, job.dataset))

    def account(self, passed_s: float, read: Floats, hits: Floats, room: Floats) -> None:
        """Of the running jobs: what each has read, the part that was to be had from the cache, and the part of its data
        set for which there is room: what it has read before would be there, had it been kept."""
        running = self._jobs.running
        bypass = self.missing[running]
        found = np.where(bypass, 0.0, read * hits)
        self._read[running] += read
        self._hit[running] += found
        self._missed[running] += read - found
        again = (1 - hits) * room * np.minimum(1.0, self._passed_before[running] / self._jobs.size[running])
        self._extra[running] += np.where(bypass, read * (hits + again), 0.0)
        self._passed[running] = np.where(bypass, self._passed[running] + read, 0.0)
        self._elapsed_s[running] += passed_s
        ideal = self._jobs.ideal[running] * passed_s
        self._waited_s[running] += np.where(read < ideal * 0.999, passed_s, 0.0)
        self._rate[running] = read / passed_s

    def begin_epoch(self, numbers: Ints) -> None:
        self._passed_before[numbers] = self._passed[numbers]

    def tick(self, now: float, ideals: dict[int, float | None]) -> tuple[bool, bool]:
        """Whether somebody misses from now on, or does not any more; and whether something was measured.

        Args:
          ideals: of the running jobs, what is known that they could read.
        """
        over = self.missing & ((self._extra >= self._most_extra) | (now >= self._until_s))
        self.missing &= ~over
        self._passed_before[~self.missing] = 0.0
        changed = bool(over.any())
        before = dict(self._schedule.results)
        for order in self._schedule.tick(now, [self._measurement(*one) for one in ideals.items()], StoreLoad()):
            number = self._names[order.job]
            changed |= bool(self.missing[number]) != order.miss
            self.missing[number] = order.miss
            self._most_extra[number] = self._extra[number] + order.most_extra_bytes
            self._until_s[number] = now + order.for_s
        return changed, any(before.get(key) is not one for key, one in self._schedule.results.items())

    def next_tick_s(self) -> float:
        running = self._jobs.running
        busy = self._schedule.under_way or (self._elapsed_s[running] < _NEW_S).any()
        return TICK_S if busy else _IDLE_TICK_S

    def _measurement(self, number: int, ideal: float | None) -> JobMeasurement:
        job = self._jobs.all[number]
        elapsed_s, read = float(self._elapsed_s[number]), int(self._read[number])
        totals = Counters(
            int(read / self._record_bytes[number]), read, float(self._waited_s[number]), elapsed_s, elapsed_s,
            int(self._hit[number]), int(self._missed[number]),
        )  # fmt: skip
        return JobMeasurement(
            job.name, job.dataset, totals, extra_store_bytes=int(self._extra[number]),
            expected_bytes=int(self._jobs.size[number]), ideal_bytes_per_s=ideal, bytes_per_s=float(self._rate[number]),
            reports_s=TICK_S,
        )  # fmt: skip
