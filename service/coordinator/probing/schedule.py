"""Who is probed when: new jobs, then now and then, and when the store is another one than it was. Pure (Quiver 5.3).

Invariants:

* at most one probe that misses is under way of a data set, and `ProbeLimits.at_once` altogether; those that need not
  miss take no place of them, and each other's neither;
* a job that misses was told so by the last order it was given, and is told to go back within `phase_s`; one that ends,
  or reads another data set, at the next tick;
* what missing costs the store stays within `extra_share` of what its job reads;
* nobody begins to miss while somebody reads below a floor, and who takes somebody there stops at the next tick.

A coordinator that was restarted makes a new schedule of the results it kept: each job is told to go back to normal
when it is first seen, so that a probe of the time before ends there.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from tfquiver.service.coordinator.measuring_jobs_and_stores.store_load import StoreLoad
from tfquiver.service.coordinator.probing.estimates import LEAST_BATCHES
from tfquiver.service.coordinator.probing.limits import ProbeLimits
from tfquiver.service.coordinator.probing.measurement import JobMeasurement, Order
from tfquiver.service.coordinator.probing.probe import Probe, ProbeResult
from tfquiver.service.coordinator.probing.store_change import StoreBefore

MOST_RESULTS = 4096
_REPORTS_AROUND = 2  # of a window: buffers are empty in the middle of the first, and the last begins before its end
_AT_A_TIME = 32  # jobs: of all that there may be it takes a tenth of a second, and others want to be served

Key = tuple[str, str]  # (job, data set)


@dataclass(slots=True)
class _Job:
    seen: JobMeasurement
    not_before: float
    failures: int = 0
    hit_share: float = 1.0
    report_bytes: int = 0  # that it reads between two reports: the least that can be counted
    waits_for: str = ""
    store_then: StoreLoad = field(default_factory=StoreLoad)  # when its last probe began
    store: StoreBefore = field(default_factory=StoreBefore)  # since then


class ProbeSchedule:
    """`results`: of each job and data set the last one, as they were kept."""

    def __init__(self, limits: ProbeLimits | None = None, results: Iterable[ProbeResult] = ()) -> None:
        self._limits = limits or ProbeLimits()
        self.results: dict[Key, ProbeResult] = {(one.job, one.dataset): one for one in results}
        self._jobs: dict[Key, _Job] = {}
        self._probes: dict[Key, Probe] = {}
        self._now = float("-inf")

    @property
    def under_way(self) -> dict[Key, Probe]:
        return dict(self._probes)

    def waits_for(self, job: str, dataset: str) -> str:
        """Why the job is not probed just now; empty: nothing is due, or it is. For people."""
        known = self._jobs.get((job, dataset))
        return known.waits_for if known else ""

    def tick(self, now: float, jobs: Sequence[JobMeasurement], store: StoreLoad) -> list[Order]:
        """Each job at most once in `jobs` for a data set; those that are not there have ended. `now` may jump; it is
        never taken back."""
        return [order for orders in self.ticking(now, jobs, store) for order in orders]

    def ticking(self, now: float, jobs: Sequence[JobMeasurement], store: StoreLoad) -> Iterator[list[Order]]:
        """As `tick`, some jobs at a time: what is given is to be carried out before the next part is asked for. To its
        end, and one after the other."""
        self._now = now = max(now, self._now)
        seen = {(one.job, one.dataset): one for one in jobs}
        orders = [_normal(key) for key in self._forget_ended(seen)]
        for at, (key, one) in enumerate(seen.items(), 1):
            known = self._jobs.get(key)
            if known is None:
                self._jobs[key] = known = _Job(one, now, report_bytes=one.totals.size_bytes)
                if result := self.results.get(key):
                    known.store.changed(_store_of(result), self._limits.load_factor)
                orders.append(_normal(key))
                known.hit_share = _hit_share(one, one)
            elif known.seen is not one:  # else it has not been heard of since
                known.hit_share = _hit_share(known.seen, one)
                known.report_bytes = _report_bytes(known, one)
                known.seen = one
            if at % _AT_A_TIME == 0:
                yield orders
                orders = []
        yield orders + self._step(seen, store)
        yield from self._begin(seen, store)

    def _forget_ended(self, seen: dict[Key, JobMeasurement]) -> list[Key]:
        ended = [key for key in self._jobs if key not in seen]
        missed = [key for key in ended if key in self._probes and self._probes[key].missing]
        for key in ended:
            del self._jobs[key]
            self._probes.pop(key, None)
        return missed

    def _step(self, seen: dict[Key, JobMeasurement], store: StoreLoad) -> list[Order]:
        orders = []
        starving = [key for key, one in seen.items() if one.starves]
        for key, probe in list(self._probes.items()):
            missed = probe.missing
            if missed and starving:
                probe.abandon(f"job {starving[0][0]} reads below its floor")
            else:
                probe.step(seen[key], self._now)
            if missed and not probe.missing:
                orders.append(_normal(key))
            if probe.over:
                self._conclude(key, probe, store)
        return orders

    def _conclude(self, key: Key, probe: Probe, store: StoreLoad) -> None:
        del self._probes[key]
        known, limits = self._jobs[key], self._limits
        if probe.result:
            self.results.pop(key, None)
            if len(self.results) >= MOST_RESULTS:
                del self.results[next(iter(self.results))]
            # As it was when the probe began: if it is another one by now, that is not what was measured.
            then = store if known.store_then.s_per_byte is None else known.store_then
            self.results[key] = replace(
                probe.result, store_s_per_byte=then.s_per_byte, store_request_s_per_byte=then.request_s_per_byte
            )
            known.store = StoreBefore()
            known.store.changed(then, limits.load_factor)
            known.failures = 0
        else:
            known.failures += 1
        known.waits_for = probe.abandoned
        known.not_before = self._now + min(limits.gap_s * 2 ** min(known.failures, 30), limits.repeat_s)

    def _begin(self, seen: dict[Key, JobMeasurement], store: StoreLoad) -> Iterator[list[Order]]:
        busy = {dataset for _, dataset in self._probes}
        ahead = sum(probe.loaded_ahead for probe in self._probes.values())
        left, left_ahead = self._limits.at_once - len(self._probes) + ahead, self._limits.ahead_at_once - ahead
        starving = any(one.starves for one in seen.values())
        floors = sum(one.floor_bytes_per_s > 0 for one in seen.values())
        ready = [
            (known.not_before, key)
            for key, known in self._jobs.items()
            if key not in self._probes and self._now >= known.not_before and known.seen.wants_cache
        ]
        orders: list[Order] = []
        for at, (_, key) in enumerate(sorted(ready), 1):
            known = self._jobs[key]
            if self._due(key, known, store):
                is_ahead = known.seen.loaded_ahead
                has_place = left_ahead > 0 if is_ahead else left > 0 and known.seen.dataset not in busy
                allowed_bytes, known.waits_for = self._allowed(known, has_place, starving, floors, store)
                if not known.waits_for:
                    probe = Probe(known.seen, allowed_bytes, self._limits, self._now)
                    self._probes[key], known.store_then = probe, store
                    busy.add(known.seen.dataset)
                    left, left_ahead = left - (not is_ahead), left_ahead - is_ahead
                    if probe.missing:
                        orders.append(Order(*key, True, probe.most_extra_bytes, self._limits.phase_s))
            if at % _AT_A_TIME == 0:
                yield orders
                orders = []
        yield orders

    def _allowed(self, known: _Job, has_place: bool, starving: bool, floors: int, store: StoreLoad) -> tuple[int, str]:
        """What its probe may cost, or why there is none. `floors`: how many jobs have one."""
        one = known.seen
        if not one.totals.records:
            return 0, "it has read nothing yet"
        if not has_place:
            return 0, "others are being probed"
        if one.loaded_ahead:
            return 0, ""
        if starving or _would_starve(known, floors, store):
            return 0, "somebody would read below a floor"
        allowed_bytes = int(self._limits.extra_share * max(one.totals.size_bytes, one.expected_bytes))
        allowed_bytes -= one.extra_store_bytes
        how, (need_bytes, most_bytes) = "at least", _costs(known, self._limits, 0)
        if need_bytes <= allowed_bytes:  # what is in buffers takes as long to know as all else together
            how, (need_bytes, most_bytes) = "about", _costs(known, self._limits, one.buffer_bytes)
        if need_bytes > allowed_bytes:
            may, need = _said_mb(allowed_bytes, math.floor), _said_mb(need_bytes, math.ceil)
            return 0, f"to measure it {may} may be read from the store by now, and it would need {how} {need}"
        return min(most_bytes, max(allowed_bytes, 0)), ""

    def _due(self, key: Key, known: _Job, store: StoreLoad) -> bool:
        last, limits = self.results.get(key), self._limits
        if last is None or self._now >= last.at + limits.repeat_s:
            return True
        return known.store.changed(store, limits.load_factor)


def _said_mb(size_bytes: int, rounded: Callable[[float], int]) -> str:
    """To two digits: what its reports and buffers come to is another number each time, and no more is known of it."""
    unit = 10.0 ** max(4, len(str(max(0, size_bytes))) - 2)
    return f"{rounded(max(0, size_bytes) / unit) * unit / 1e6:,.12g} MB"


def _store_of(result: ProbeResult) -> StoreLoad:
    return StoreLoad(result.store_s_per_byte, request_s_per_byte=result.store_request_s_per_byte)


def _normal(key: Key) -> Order:
    return Order(*key, miss=False)


def _would_starve(known: _Job, floors: int, store: StoreLoad) -> bool:
    """As far as the store's limit is known: itself, or others that must not be slowed down. `floors`: how many jobs
    have one; to count the others anew for each took a second with some thousand jobs."""
    if store.spare_bytes_per_s is None:
        return False
    would_take_bytes_per_s = (known.seen.bytes_per_s or 0.0) * known.hit_share
    others = floors > (known.seen.floor_bytes_per_s > 0)
    least_bytes_per_s = max(known.seen.floor_bytes_per_s, would_take_bytes_per_s if others else 0.0)
    return store.spare_bytes_per_s < least_bytes_per_s


def _hit_share(before: JobMeasurement, one: JobMeasurement) -> float:
    """The higher of what came last and of all: missing costs no more. Nothing was handed out: all may be there."""
    shares = [one.totals.hit_share, one.totals.since(before.totals).hit_share]
    return max((share for share in shares if share is not None), default=1.0)


def _report_bytes(known: _Job, one: JobMeasurement) -> int:
    """Between two reports, the last of which came just now, or at another time."""
    if one.reports_s is not None and one.bytes_per_s is not None:
        return int(one.reports_s * one.bytes_per_s)
    size_bytes = one.totals.size_bytes - known.seen.totals.size_bytes
    return size_bytes if size_bytes > 0 else known.report_bytes


def _costs(known: _Job, limits: ProbeLimits, buffer_bytes: int) -> tuple[int, int]:
    """(at least, at most) bytes that would have come from the cache, and that missing reads from the store. A window is
    so many reports at least, however many mini-batches there are between two; and no faster than now.

    Buffers are paid for twice: what they held has to leave before anything counts, and what is leased ahead when the
    window ends has been paid for. Whose last probes came to nothing is given half as much again, and then twice.
    """
    one, reports_bytes = known.seen, (LEAST_BATCHES + _REPORTS_AROUND) * known.report_bytes
    more = min(1 + known.failures / 2, 2.0)
    batch_bytes = one.batch_records * one.totals.size_bytes / max(one.totals.records, 1)
    window_bytes = min(limits.least_batches * batch_bytes, limits.least_s * (one.bytes_per_s or math.inf))
    least = 2 * buffer_bytes + max(window_bytes, reports_bytes)
    most = 2 * buffer_bytes + max(limits.most_batches * batch_bytes, reports_bytes)
    return int(more * least * known.hit_share), int(more * most)
