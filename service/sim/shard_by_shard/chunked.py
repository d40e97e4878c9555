"""A cooperative data set of a simulation: the coordinator's own ChunkCache before a simulated store. Pure."""

from __future__ import annotations

import random

import numpy as np

from tfquiver.service.coordinator.chunk_rotation.chunk_cache import ChunkCache
from tfquiver.service.coordinator.chunk_rotation.interface import Decision
from tfquiver.service.coordinator.samplers_and_orders_of_an_epochs_shards.sampler import Sampler
from tfquiver.service.sim.shard_by_shard.engine import Engine
from tfquiver.service.sim.shard_by_shard.job import Job
from tfquiver.service.sim.shard_by_shard.store import Store

TICK_S = 1.0


class ChunkedCache:
    """Checks that what is resident never exceeds the allocation, and counts the chunks that are."""

    def __init__(
        self,
        engine: Engine,
        cache: ChunkCache,
        resident: bytearray,
        lengths: list[int],
        store_bytes_per_s: float,
        rng: random.Random,
        mix: int = 1,
    ) -> None:
        self._engine, self._cache, self._resident, self._lengths = engine, cache, resident, lengths
        self._rng, self._mix = rng, mix
        self.store = Store(engine, lengths, store_bytes_per_s, self._arrived)
        self._jobs: list[Job] = []
        self._decided_at = -1
        self._decision = Decision()
        self.most_chunks = 0
        engine.after(TICK_S, self._tick)

    def open(self, job: Job) -> Sampler:
        if job not in self._jobs:
            self._jobs.append(job)
        pending = np.ones(len(self._lengths), np.bool_)
        return self._cache.open(job.name, pending, (), random.Random(self._rng.getrandbits(63)), self._mix)

    def finish(self, job: Job) -> None:
        self._cache.finish(job.name)

    def get(self, job: Job, shard: int) -> None:
        if self._resident[shard]:
            job.came(shard)
        else:
            self.store.demand(shard, lambda: job.came(shard))

    def changed(self) -> None:
        if self._cache.board.version != self._decided_at:
            self._decide()

    def _tick(self) -> None:
        self._decide()
        self._engine.after(TICK_S, self._tick)

    def _decide(self) -> None:
        was = self._decision
        version = self._cache.rotation.version
        self._decision = self._cache.decide(self._engine.now)
        evicted = [
            shard
            for chunk in self._decision.evict
            for shard in self._cache.layout.shards_of(chunk)
            if self._resident[shard]
        ]
        if evicted:
            for shard in evicted:
                self._resident[shard] = 0
            self._told(evicted)
            self._decision = self._cache.decide(self._engine.now)
        self._decided_at = self._cache.board.version
        if self._decision.load != was.load:
            self.store.load_ahead(self._missing())
        if self._cache.rotation.version != version or evicted:
            self._wake()

    def _missing(self) -> list[int]:
        missing: list[int] = []
        for chunk in self._decision.load:
            missing += [shard for shard in self._cache.layout.shards_of(chunk) if not self._resident[shard]]
        return missing

    def _arrived(self, shard: int) -> None:
        if not self._cache.keeps(shard) or self._resident[shard]:
            return
        self._resident[shard] = 1
        self._told([shard])
        board = self._cache.board
        assert sum(board.resident) <= board.allocation_bytes, "more is resident than allocated"
        self.most_chunks = max(self.most_chunks, sum(size > 0 for size in board.resident))
        self.changed()
        self._wake()

    def _told(self, shards: list[int]) -> None:
        self._cache.residency_changed(shards)
        for job in self._jobs:
            job.residency_changed(shards)

    def _wake(self) -> None:
        # Not at once: the sampler of one of them may be at work.
        self._engine.after(0.0, self._look)

    def _look(self) -> None:
        for job in self._jobs:
            job.look()
