"""The baseline of a simulation: every job in an order of its own, and the least recently read shard goes. Pure."""

from __future__ import annotations

import random
from collections import OrderedDict

import numpy as np

from tfquiver.service.coordinator.samplers_and_orders_of_an_epochs_shards.sampler import InAnyOrder, Sampler
from tfquiver.service.sim.shard_by_shard.engine import Engine
from tfquiver.service.sim.shard_by_shard.job import Job
from tfquiver.service.sim.shard_by_shard.store import Store


class LruCache:
    def __init__(
        self,
        engine: Engine,
        allocation_bytes: int,
        lengths: list[int],
        store_bytes_per_s: float,
        rng: random.Random,
    ) -> None:
        self._allocation_bytes, self._lengths, self._rng = allocation_bytes, lengths, rng
        self._blind = bytearray(len(lengths))  # jobs do not know what is resident
        self._kept: OrderedDict[int, None] = OrderedDict()
        self._kept_bytes = 0
        self.store = Store(engine, lengths, store_bytes_per_s, self._arrived)

    def open(self, job: Job) -> Sampler:
        pending = np.ones(len(self._lengths), np.bool_)
        return InAnyOrder(pending, self._blind, self._lengths, random.Random(self._rng.getrandbits(63)))

    def get(self, job: Job, shard: int) -> None:
        if shard in self._kept:
            self._kept.move_to_end(shard)
            job.came(shard)
        else:
            self.store.demand(shard, lambda: job.came(shard))

    def changed(self) -> None:
        pass

    def finish(self, job: Job) -> None:
        pass

    def _arrived(self, shard: int) -> None:
        self._kept[shard] = None
        self._kept_bytes += self._lengths[shard]
        while self._kept_bytes > self._allocation_bytes:
            self._kept_bytes -= self._lengths[self._kept.popitem(last=False)[0]]
