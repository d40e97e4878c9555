"""What every job measures: reports of readers in, one JobMeter for each job and data set. Pure."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator

from tfquiver import errors
from tfquiver.clock import Clock
from tfquiver.proto.tfquiver.v1 import coordinator_pb2 as pb2
from tfquiver.service.coordinator.measuring_jobs_and_stores.counters import Counters
from tfquiver.service.coordinator.measuring_jobs_and_stores.job_meter import JobMeter, Measured, Reading
from tfquiver.service.coordinator.sessions.session import Session

SILENT_S = 15.0  # nobody has reported for so long: what was measured is of the past
GONE_S = 30.0  # a job of which nobody has read for so long has ended: between two epochs it reads nothing for a while
FORGET_S = 3600.0
MOST_JOBS = 16384

JobKey = tuple[str, bytes]  # (its name, or the key of its sessions where it has none; digest id)


class JobMeters:
    """`session`: the one with that id; raises NotFoundError."""

    def __init__(self, clock: Clock, session: Callable[[str], Session]) -> None:
        self._clock, self._session = clock, session
        self._meters: dict[JobKey, JobMeter] = {}  # who was heard of last, last
        self._names: dict[JobKey, str] = {}
        self._keys: dict[str, set[JobKey]] = {}  # by name
        self._before: dict[str, tuple[int, int]] = {}  # by name: as `handed_bytes`, of data sets that are forgotten

    def take(self, reports: Iterable[pb2.ReaderReport]) -> None:
        """What a heartbeat brought. Of sessions that are forgotten nothing is kept."""
        now = self._clock.now()
        for report in reports:
            try:
                session = self._session(report.session_id)
            except errors.NotFoundError:
                continue
            key = session.reads
            if key not in self._meters:
                self._named(key, session.job or session.session_key.partition(":")[0])
            meter = self._meters.pop(key, None) or JobMeter()
            self._meters[key] = meter
            reading = Reading(
                report.records, report.bytes, report.waited_us / 1e6, report.elapsed_us / 1e6, report.hit_bytes,
                report.missed_bytes,
            )  # fmt: skip
            meter.report(report.reader_id, reading, now, report.heard_ago_ms / 1000)
        while self._meters:
            oldest = next(iter(self._meters))
            if len(self._meters) <= MOST_JOBS and self._meters[oldest].heard_at > now - FORGET_S:
                break
            self._forget(oldest)

    @property
    def heard_at(self) -> float:
        """When anybody reported last."""
        return next(reversed(self._meters.values())).heard_at if self._meters else -math.inf

    def name_of(self, key: JobKey) -> str:
        """What its training processes call it: the job, or without one the part of its sessions' key that is claimed.
        Empty: nothing is measured of it."""
        return self._names.get(key, "")

    def of_name(self, name: str) -> dict[JobKey, JobMeter]:
        """Its meters, one for each data set. Empty: nobody of that name is known."""
        return {key: self._meters[key] for key in self._keys.get(name, ())}

    def handed_bytes(self, name: str) -> tuple[int, int]:
        """From the cache, and from the store, of all data sets of the jobs of that name; falls when none of them is
        known any more, and not before."""
        hit, missed = self._before.get(name, (0, 0))
        every = [meter.totals for meter in self.of_name(name).values()]
        return hit + sum(one.hit_bytes for one in every), missed + sum(one.missed_bytes for one in every)

    def measured(self, session: Session) -> Measured | None:
        """Of the session's job over its data set; None where nobody reports of it."""
        return self.measured_of(session.reads)

    def measured_of(self, key: JobKey) -> Measured | None:
        meter = self._meters.get(key)
        if meter is None or meter.heard_at < self._clock.now() - SILENT_S:
            return None
        return meter.measured()

    def last(self, key: JobKey) -> Measured | None:
        """As `measured_of`, however long ago that was."""
        meter = self._meters.get(key)
        return meter.measured() if meter else None

    def _named(self, key: JobKey, name: str) -> None:
        self._names[key] = name
        self._keys.setdefault(name, set()).add(key)

    def _forget(self, key: JobKey) -> None:
        totals, name = self._meters.pop(key).totals, self._names.pop(key)
        self._keys[name].discard(key)
        if not self._keys[name]:
            del self._keys[name]
            self._before.pop(name, None)
        else:
            hit, missed = self._before.get(name, (0, 0))
            self._before[name] = hit + totals.hit_bytes, missed + totals.missed_bytes

    def totals(self, key: JobKey) -> Counters | None:
        """Since it was first heard of; None: it is not known, or not any more."""
        meter = self._meters.get(key)
        return meter.totals if meter else None

    def delivered_bytes(self, key: JobKey, reader_id: str) -> int:
        """To its pipeline, since its first draw, as that reader says; 0: nothing is known of it."""
        meter = self._meters.get(key)
        return meter.delivered_bytes(reader_id) if meter else 0

    def __iter__(self) -> Iterator[tuple[JobKey, JobMeter]]:
        return iter(list(self._meters.items()))
