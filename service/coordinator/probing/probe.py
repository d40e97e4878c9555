"""One probe: a job misses, then hits, and what lay in buffers before is left out of both. Pure (Quiver 5.3).

MISS_DRAIN -> MISS -> HIT_DRAIN -> HIT -> result
    '---------'----------'----------'---> abandoned
"""

from __future__ import annotations

import enum
import math
from dataclasses import dataclass

from tfquiver.service.coordinator.measuring_jobs_and_stores.counters import Counters
from tfquiver.service.coordinator.probing import estimates
from tfquiver.service.coordinator.probing.estimates import Ratio, TimePerByte
from tfquiver.service.coordinator.probing.limits import ProbeLimits
from tfquiver.service.coordinator.probing.measurement import JobMeasurement, waits
from tfquiver.sizes_durations_amounts.amounts import of_rate

_FLOOR_S = 5.0  # over less a rate is chance


class Phase(enum.Enum):
    MISS_DRAIN = enum.auto()
    MISS = enum.auto()
    HIT_DRAIN = enum.auto()
    HIT = enum.auto()


@dataclass(frozen=True, slots=True)
class ProbeResult:
    """`benefit`: t_miss / t_hit. `basis`: "hit" (measured while all came from the cache), or "ideal" (the cache had too
    little of it: what the job reads where it never waits, JobMeter)."""

    job: str
    dataset: str
    at: float
    benefit: Ratio
    miss_bytes_per_s: float
    hit_bytes_per_s: float
    basis: str
    caching_is_wasted: bool  # the job is to be cached as `none`
    extra_store_bytes: int
    store_s_per_byte: float | None = None
    store_request_s_per_byte: float | None = None


class Probe:
    """`step` it with each measurement; `phase` says whether its job is to miss, `result` or `abandoned` (why) that it
    is over."""

    def __init__(self, seen: JobMeasurement, most_extra_bytes: int, limits: ProbeLimits, now: float) -> None:
        self.phase = Phase.MISS_DRAIN
        self.result: ProbeResult | None = None
        self.abandoned = ""
        self.most_extra_bytes = most_extra_bytes
        self._limits, self._loaded_ahead = limits, seen.loaded_ahead
        self._first = self._last = seen
        self._phase_began, self._read_before = seen.totals, seen.kept_back_bytes
        self._deadline = now + limits.phase_s
        self._windows = {Phase.MISS: TimePerByte(), Phase.HIT: TimePerByte()}

    @property
    def missing(self) -> bool:
        return self._first_half and not self._loaded_ahead

    @property
    def loaded_ahead(self) -> bool:
        """Whether it was measured as it reads, in the first half."""
        return self._loaded_ahead

    @property
    def _first_half(self) -> bool:
        return not self.over and self.phase in (Phase.MISS_DRAIN, Phase.MISS)

    @property
    def over(self) -> bool:
        return self.result is not None or bool(self.abandoned)

    def abandon(self, why: str) -> None:
        self.abandoned = self.abandoned or why

    def step(self, seen: JobMeasurement, now: float) -> None:
        before, self._last = self._last, seen
        self._loaded_ahead |= self._first_half and seen.loaded_ahead
        since = seen.totals.since(self._phase_began)
        too_slow = since.bytes_per_s < seen.floor_bytes_per_s and waits(since.stall_share)
        if self.missing and since.elapsed_s >= _FLOOR_S and too_slow:
            self.abandon(f"missing took it below its floor of {of_rate(seen.floor_bytes_per_s)}")
        elif self._first_half and self._loaded_ahead and not seen.loaded_ahead:
            self.abandon("its data set was given room while it was measured without")
        elif now >= self._deadline:
            self._late(now)
        elif self.phase in (Phase.MISS_DRAIN, Phase.HIT_DRAIN):
            if since.size_bytes >= seen.buffer_bytes + self._read_before:
                self._enter(Phase.MISS if self.phase is Phase.MISS_DRAIN else Phase.HIT)
        else:
            self._count(before, seen)
            self._judge(since, now)

    def _enter(self, phase: Phase) -> None:
        self.phase, self._phase_began, self._read_before = phase, self._last.totals, self._last.kept_back_bytes

    def _count(self, before: JobMeasurement, seen: JobMeasurement) -> None:
        delta = seen.totals.since(before.totals)
        wanted_bytes = delta.missed_bytes if self.phase is Phase.MISS else delta.hit_bytes
        handed_bytes = delta.hit_bytes + delta.missed_bytes
        if self._loaded_ahead and self.phase is Phase.MISS:
            wanted_bytes = handed_bytes
        elif seen.loaded_ahead and self.phase is Phase.HIT:
            return
        if wanted_bytes >= self._limits.pure_share * handed_bytes and delta.elapsed_s > 0:
            self._windows[self.phase].add(delta.elapsed_s, delta.size_bytes)

    def _judge(self, since: Counters, now: float) -> None:
        limits, window = self._limits, self._windows[self.phase]
        batches = since.records / max(self._last.batch_records, 1)
        spent = self._extra_bytes >= self.most_extra_bytes > 0
        if not window.enough or (batches < limits.least_batches and since.elapsed_s < limits.least_s):
            if spent and self.phase is Phase.MISS:
                self.abandon("all that missing may cost was spent before enough was measured")
            return
        at_most = batches >= limits.most_batches
        if self.phase is Phase.MISS:
            # Of two windows as sure as this one the ratio is as sure as is asked.
            if at_most or spent or estimates.half_width(window) <= limits.half_width / math.sqrt(2):
                self._deadline = now + limits.phase_s
                self._enter(Phase.HIT_DRAIN)
        elif at_most or self._ratio.half_width <= limits.half_width:
            self._finish(now)

    def _late(self, now: float) -> None:
        if self._first_half:
            self.abandon(f"missing took longer than {self._limits.phase_s:.0f} s")
        elif self._windows[Phase.HIT].enough:
            self._finish(now)
        elif self._last.ideal_bytes_per_s is not None:
            self._finish_by_ideal(self._last.ideal_bytes_per_s, now)
        else:
            self.abandon("too little of its data set came from the cache, and it always waited for data")

    @property
    def _extra_bytes(self) -> int:
        return self._last.extra_store_bytes - self._first.extra_store_bytes

    @property
    def _ratio(self) -> Ratio:
        return estimates.ratio(self._windows[Phase.MISS], self._windows[Phase.HIT])

    def _finish(self, now: float) -> None:
        ratio = self._ratio
        # Nobody is slower for hitting: a job that computes was still filling its buffers when its misses were counted.
        benefit = Ratio(max(ratio.value, 1.0), ratio.low, max(ratio.high, 1.0))
        self._conclude(benefit, 1 / self._windows[Phase.HIT].s_per_byte, "hit", now)

    def _finish_by_ideal(self, ideal_bytes_per_s: float, now: float) -> None:
        window = self._windows[Phase.MISS]
        value = max(ideal_bytes_per_s * window.s_per_byte, 1.0)
        reach = math.exp(estimates.half_width(window))
        self._conclude(Ratio(value, value / reach, value * reach), value / window.s_per_byte, "ideal", now)

    def _conclude(self, benefit: Ratio, hit_bytes_per_s: float, basis: str, now: float) -> None:
        self.result = ProbeResult(
            job=self._first.job,
            dataset=self._first.dataset,
            at=now,
            benefit=benefit,
            miss_bytes_per_s=1 / self._windows[Phase.MISS].s_per_byte,
            hit_bytes_per_s=hit_bytes_per_s,
            basis=basis,
            caching_is_wasted=benefit.high < self._limits.least_benefit,
            extra_store_bytes=self._extra_bytes,
        )
