"""Probing on the real system: measurements go into the schedule, its orders to those who hand out shards.

A job that is told to miss is given leases that pass by the cache. What that costs the store beyond what it would have
read anyway is counted here, as it is handed out, and ends the miss when it is enough.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from types import MappingProxyType
from typing import Any

from absl import logging

from tfquiver.clock import Clock
from tfquiver.log_files_and_lines.logs import about
from tfquiver.service.coordinator.measuring_jobs_and_stores.counters import Counters
from tfquiver.service.coordinator.measuring_jobs_and_stores.job_meter import JobMeter, Measured
from tfquiver.service.coordinator.measuring_jobs_and_stores.meters import SILENT_S, JobMeters
from tfquiver.service.coordinator.measuring_jobs_and_stores.step_meter import Steps
from tfquiver.service.coordinator.measuring_jobs_and_stores.step_meters import StepMeters
from tfquiver.service.coordinator.measuring_jobs_and_stores.store_load import StoreLoad
from tfquiver.service.coordinator.probing.floors import floors
from tfquiver.service.coordinator.probing.ideal import ideal_bytes_per_s
from tfquiver.service.coordinator.probing.measurement import DEFAULT_BATCH_RECORDS, JobMeasurement, Order
from tfquiver.service.coordinator.probing.probe import ProbeResult
from tfquiver.service.coordinator.probing.schedule import ProbeSchedule

Reading = tuple[str, bytes]  # job and digest id
_AT_A_TIME = 32  # jobs
_Of = tuple[int, int, bool, bool, float, int, Steps | None]  # reports of a job, and all else that is measured of it


@dataclass(frozen=True, slots=True)
class Held:
    """What lies between the cache and the trainer at most (leased, not all emitted), and the epoch it is part of."""

    leased_bytes: Callable[[], int] = int  # now
    epoch_bytes: int = 0
    loaded_ahead: bool = False  # JobMeasurement says what that is


class Probes:
    """`probed`: what sessions look at: who reads past the cache."""

    def __init__(
        self, clock: Clock, meters: JobMeters, probed: set[Reading], step_meters: StepMeters | None = None
    ) -> None:
        self._clock, self._meters, self._probed = clock, meters, probed
        self._step_meters = StepMeters(clock, meters) if step_meters is None else step_meters
        self._schedule = ProbeSchedule()
        self._extra_bytes: dict[Reading, int] = {}
        self._seen: dict[Reading, tuple[JobMeter, _Of, JobMeasurement]] = {}  # at the last tick
        self._passed: dict[Reading, bytearray] = {}  # of who misses: a byte a shard
        self._until: dict[Reading, tuple[int, float]] = {}  # who misses: until so much is extra, or it is so late

    @property
    def results(self) -> dict[Reading, ProbeResult]:
        return {(job, bytes.fromhex(dataset)): one for (job, dataset), one in self._schedule.results.items()}

    def result(self, job: str, digest_id: bytes) -> ProbeResult | None:
        return self._schedule.results.get((job, digest_id.hex()))

    def measured(self, job: str, digest_id: bytes) -> Measured | None:
        return self._meters.measured_of((job, digest_id))

    def last(self, job: str, digest_id: bytes) -> tuple[Counters | None, Measured | None]:
        """What it has read, and how fast at last; also of a job that has finished."""
        return self._meters.totals((job, digest_id)), self._meters.last((job, digest_id))

    def steps(self, job: str, digest_id: bytes) -> Steps | None:
        return self._step_meters.of((job, digest_id))

    def extra_bytes(self, job: str, digest_id: bytes) -> int:
        """What its probes have cost the store."""
        return self._extra_bytes.get((job, digest_id), 0)

    def told(self, job: str, digest_id: bytes, unix_s: float) -> dict[str, Any]:
        """For people: what was measured, if anything, and why it is not now. `unix_s`: of our clock's zero."""
        found, why = self.result(job, digest_id), self._schedule.waits_for(job, digest_id.hex())
        if found is None:
            return {"waits_for": why}
        return {
            "waits_for": why,
            "at_s": found.at + unix_s,
            "benefit": asdict(found.benefit),
            "basis": found.basis,
            "miss_bytes_per_s": found.miss_bytes_per_s,
            "hit_bytes_per_s": found.hit_bytes_per_s,
            "caching_is_wasted": found.caching_is_wasted,
            "extra_store_bytes": found.extra_store_bytes,
        }

    def again(self, job: str, digest_id: bytes, shards: Sequence[int], of: int) -> list[int]:
        """Those of `shards` that the job has been leased past the cache before, in this probe: had they been kept then,
        as those of others are, they would be there. `of`: so many shards the data set has."""
        key = job, digest_id
        if (passed := self._passed.get(key)) is None:
            passed = self._passed[key] = bytearray(of)
        found = [shard for shard in shards if passed[shard]]
        for shard in shards:
            passed[shard] = 1
        return found

    def leased(self, job: str, digest_id: bytes, cached_bytes: int) -> None:
        """So much was to be had from the cache, and was leased past it."""
        key = job, digest_id
        self._extra_bytes[key] = self._extra_bytes.get(key, 0) + cached_bytes
        if key in self._until and self._extra_bytes[key] >= self._until[key][0]:
            self._normal(key)

    def tick(
        self,
        reading: Mapping[Reading, Held],
        wanting: Collection[bytes],
        store: StoreLoad = StoreLoad(),  # noqa: B008  It is frozen.
        pins_bytes_per_s: Mapping[str, float] = MappingProxyType({}),
    ) -> None:
        """Call it, or `ticking`, every second.

        Args:
          reading: who reads now, or did a moment ago, and what each has in hand.
          wanting: digest ids of data sets that may be cached.
          pins_bytes_per_s: by job, what it is to read from the store: nobody is probed while it waits and has less.
        """
        for _ in self.ticking(reading, wanting, store, pins_bytes_per_s):
            pass

    def ticking(
        self,
        reading: Mapping[Reading, Held],
        wanting: Collection[bytes],
        store: StoreLoad,
        pins_bytes_per_s: Mapping[str, float],
    ) -> Iterator[None]:
        """As `tick`, some jobs at a time: others may be served between. To its end, and one after the other.

        A job is heard of every few seconds where there are many, and measured anew only then.
        """
        now = self._clock.now()
        for key, (_, end) in list(self._until.items()):
            if key not in reading or end <= now:
                self._normal(key)
        # As long as what it has read is known: who is back after a pause has not paid for another probe.
        self._extra_bytes = {key: extra for key, extra in self._extra_bytes.items() if self._meters.totals(key)}
        # Of leases that were on their way when their probe ended.
        self._passed = {key: passed for key, passed in self._passed.items() if key in self._until}
        measured_now: dict[Reading, tuple[JobMeter, Measured, int]] = {}
        for at, (key, meter) in enumerate(self._meters, 1):
            if key in reading and meter.heard_at >= now - SILENT_S and (measured := meter.measured()) is not None:
                measured_now[key] = meter, measured, meter.reports
            if at % _AT_A_TIME == 0:
                yield
        rates = {key: its.bytes_per_s for key, (_, its, _) in measured_now.items()} if pins_bytes_per_s else {}
        least = floors(pins_bytes_per_s, rates)
        seen, self._seen = self._seen, {}
        for at, (key, (meter, measured, reports)) in enumerate(measured_now.items(), 1):
            held, steps = reading[key], self._step_meters.of(key)
            of = (
                reports, held.epoch_bytes, held.loaded_ahead, key[1] in wanting, least.get(key, 0.0),
                self.extra_bytes(*key), steps,
            )  # fmt: skip
            last = seen.get(key)
            if last is None or last[0] is not meter or last[1] != of:
                last = meter, of, self._measurement(key, meter, measured, held, of)
            self._seen[key] = last
            if at % _AT_A_TIME == 0:
                yield
        measurements = [one for _, _, one in self._seen.values()]
        before = dict(self._schedule.results)
        for orders in self._schedule.ticking(now, measurements, store):
            for order in orders:
                self._carry_out(order, now)
            yield
        for (job, dataset), result in self._schedule.results.items():
            if before.get((job, dataset)) is not result:
                logging.info(
                    "job %s was probed: %s", result.job, result, extra=about(job=job, digest=bytes.fromhex(dataset))
                )

    def _measurement(self, key: Reading, meter: JobMeter, measured: Measured, held: Held, of: _Of) -> JobMeasurement:
        *_, wants_cache, floor, extra_bytes, steps = of
        return JobMeasurement(
            job=key[0],
            dataset=key[1].hex(),
            totals=meter.settled,
            kept_back_bytes=meter.kept_back_bytes,
            wants_cache=wants_cache,
            extra_store_bytes=extra_bytes,
            buffer=held.leased_bytes,
            batch_records=(steps.batch_records if steps else None) or DEFAULT_BATCH_RECORDS,
            expected_bytes=held.epoch_bytes,
            ideal_bytes_per_s=ideal_bytes_per_s(measured, steps),
            bytes_per_s=measured.bytes_per_s,
            stall_share=measured.stall_share,
            floor_bytes_per_s=floor,
            loaded_ahead=held.loaded_ahead,
        )

    def _carry_out(self, order: Order, now: float) -> None:
        key = order.job, bytes.fromhex(order.dataset)
        if not order.miss:
            if why := self._schedule.waits_for(order.job, order.dataset):
                logging.info("job %s is probed again later: %s", order.job, why, extra=about(job=key[0], digest=key[1]))
            self._normal(key)
            return
        logging.info(
            "job %s is probed: it reads past the cache for a while",
            order.job,
            extra=about(job=order.job, digest=key[1]),
        )
        extra_bytes = self._extra_bytes.get(key, 0) + order.most_extra_bytes
        self._until[key] = extra_bytes, now + order.for_s
        self._probed.add(key)

    def _normal(self, key: Reading) -> None:
        self._until.pop(key, None)
        self._passed.pop(key, None)
        self._probed.discard(key)
