"""Jobs for tests of probing: each reads through a buffer, from a cache or a store, as fast as it can; nodes that carry
out what they are told, within its bounds."""

from __future__ import annotations

import random
from collections import deque
from dataclasses import dataclass, field

from tfquiver.service.coordinator.measuring_jobs_and_stores.counters import Counters
from tfquiver.service.coordinator.probing.measurement import JobMeasurement, Order

RECORD_BYTES = 100
BATCH_RECORDS = 10
STEP_S = 0.1


@dataclass
class SimJob:
    """`compute`, `store`, `cache`: bytes/s that the trainer takes, and that come from each; `resident`: hit share."""

    name: str
    dataset: str = "data"
    compute: float = 1e5
    store: float = 2e4
    cache: float = 1e6
    resident: float = 1.0
    buffer_bytes: int = 20_000
    floor: float = 0.0
    noise: float = 0.0
    expected_bytes: int = 0
    obeys: bool = True
    silent: bool = False  # nothing moves any more
    ahead: bool = False  # what it hits is loaded just ahead of it, at the store's pace
    rng: random.Random = field(default_factory=lambda: random.Random(0))

    missing: bool = False
    told_at: float = 0.0
    order: Order | None = None
    delivered: float = 0.0
    waited_s: float = 0.0
    elapsed_s: float = 0.0
    hit_bytes: float = 0.0
    store_bytes: float = 0.0
    extra: float = 0.0
    extra_at_order: float = 0.0
    bytes_per_s: float | None = None
    stall_share: float | None = None
    _buffer: deque[float] = field(default_factory=deque)
    _buffered: float = 0.0

    def told(self, order: Order, now: float) -> None:
        if self.obeys:
            self.missing, self.order, self.told_at, self.extra_at_order = order.miss, order, now, self.extra

    def run(self, seconds: float, now: float) -> None:
        before, waited_before_s = self.delivered, self.waited_s
        for _ in range(round(seconds / STEP_S)):
            self._step(now)
        self.bytes_per_s = (self.delivered - before) / seconds
        self.stall_share = (self.waited_s - waited_before_s) / seconds

    def _step(self, now: float) -> None:
        if self.silent:
            return
        if self.missing and self.order and now >= self.told_at + self.order.for_s:
            self.missing = False
        hit = 0.0 if self.missing else self.resident
        noisy = self.rng.lognormvariate(0.0, self.noise) if self.noise else 1.0
        seconds_a_byte = 1 / self.store if self.ahead else hit / self.cache + (1 - hit) / self.store
        came = min(noisy * STEP_S / seconds_a_byte, self.buffer_bytes + self.compute * STEP_S - self._buffered)
        if self.missing and self.order and self.resident:
            left = self.order.most_extra_bytes - (self.extra - self.extra_at_order)
            came = min(came, left / self.resident)
            self.extra += came * self.resident
            self.missing = left / self.resident > came
        self.hit_bytes += came * hit
        self.store_bytes += came * (1 - hit)
        self._buffered += came
        took = min(self._buffered, self.compute * STEP_S)
        self._buffered -= took
        self.delivered += took
        self.elapsed_s += STEP_S
        self.waited_s += STEP_S * (1 - took / (self.compute * STEP_S))

    def measurement(self) -> JobMeasurement:
        size_bytes = int(self.delivered)
        totals = Counters(
            size_bytes // RECORD_BYTES, size_bytes, self.waited_s, self.elapsed_s, self.elapsed_s, int(self.hit_bytes),
            int(self.store_bytes),
        )  # fmt: skip
        ideal = totals.bytes_per_s / (1 - totals.stall_share) if totals.stall_share < 0.9 and size_bytes else None
        return JobMeasurement(
            self.name, self.dataset, totals,
            extra_store_bytes=int(self.extra), buffer=lambda: self.buffer_bytes, batch_records=BATCH_RECORDS,
            expected_bytes=self.expected_bytes, ideal_bytes_per_s=ideal, bytes_per_s=self.bytes_per_s,
            stall_share=self.stall_share, floor_bytes_per_s=self.floor, loaded_ahead=self.ahead,
        )  # fmt: skip
