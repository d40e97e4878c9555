"""A training job of a simulation: epoch after epoch, some shards ahead of what it is working on. Pure."""

from __future__ import annotations

from collections import deque
from typing import Protocol

from tfquiver.service.coordinator.samplers_and_orders_of_an_epochs_shards.sampler import Sampler
from tfquiver.service.sim.shard_by_shard.engine import Engine

AHEAD_SHARDS = 2


class Cache(Protocol):
    """What a job reads through."""

    def open(self, job: Job) -> Sampler:
        """A new epoch of this job."""

    def get(self, job: Job, shard: int) -> None:
        """Calls job.came(shard), now or later."""

    def changed(self) -> None:
        """A job has taken or read something."""

    def finish(self, job: Job) -> None: ...


class Job:
    """Checks I-6: every shard once an epoch."""

    def __init__(
        self, name: str, engine: Engine, cache: Cache, lengths: list[int], bytes_per_s: float, offset_s: float
    ) -> None:
        self.name, self.bytes_per_s = name, bytes_per_s
        self._engine, self._cache, self._lengths = engine, cache, lengths
        self._sampler: Sampler
        self._coming: set[int] = set()
        self._ready: deque[int] = deque()
        self._busy = False
        self._read: set[int] = set()
        self.epoch_ends: list[float] = []
        self.started_at: float | None = None
        engine.after(offset_s, self._begin)

    def came(self, shard: int) -> None:
        self._coming.remove(shard)
        self._ready.append(shard)
        self._work()

    def look(self) -> None:
        """There may be something to take."""
        if self.started_at is None:
            return
        took = False
        while len(self._coming) + len(self._ready) < AHEAD_SHARDS:
            shards = self._sampler.take(1, 1)
            if not shards:
                break
            took = True
            self._coming.update(shards)
            for shard in shards:
                self._cache.get(self, shard)
        if took:
            self._cache.changed()

    def residency_changed(self, shards: list[int]) -> None:
        self._sampler.residency_changed(shards)

    def _begin(self) -> None:
        self.started_at = self._engine.now if self.started_at is None else self.started_at
        self._read.clear()
        self._sampler = self._cache.open(self)
        self._cache.changed()
        self.look()

    def _work(self) -> None:
        if self._busy or not self._ready:
            return
        shard = self._ready.popleft()
        self._busy = True
        self._engine.after(self._lengths[shard] / self.bytes_per_s, lambda: self._done(shard))
        self.look()

    def _done(self, shard: int) -> None:
        self._busy = False
        assert shard not in self._read, f"{self.name} read shard {shard} twice"
        self._read.add(shard)
        self._sampler.remove([shard])
        if len(self._read) == len(self._lengths):
            self.epoch_ends.append(self._engine.now)
            self._cache.finish(self)
            self._begin()
            return
        self._cache.changed()
        self._work()
        self.look()
