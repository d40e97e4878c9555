"""Loads shards of the chunks that this node was ordered to load, ahead of the readers.

Those that some session waits for go first. The others take spare bandwidth of the store only: they are begun while no
reader waits for the store, and within a rate; so is what a lost node leaves behind fetched again.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Mapping, Sequence

from absl import logging

from tfquiver.clock import Clock
from tfquiver.log_files_and_lines.logs import about, telling
from tfquiver.log_files_and_lines.rare_lines import every_n_seconds
from tfquiver.service.node.coordinator_orders.chunk_map import ChunkMap
from tfquiver.service.node.coordinator_orders.load_plan import PARALLEL_LOADS, ChunkLoad, Load, LoadPlan
from tfquiver.service.node.disk.disk_cache import DiskCache
from tfquiver.service.node.rate_limits.token_bucket import TokenBucket
from tfquiver.service.node.shards_from_disk_other_nodes_or_store.shard_source import ShardSource

_BURST_S = 0.5
# Of data sets that have a rate. Their jobs may make up for 0.2 s at the coordinator; with what was leased before, and
# is fetched late, it is to be within 5 % of ten seconds.
_LIMITED_BURST_S = 0.1
_TRY_AGAIN_S = 2.0


class ChunkLoads:
    """Lives on one loop. `run` it in a task, cancel that, `close` it.

    Args:
      others_have_room: whether others have room for an entry of so many bytes, after so many more.
      refill_bytes_per_s: of loads that nobody waits for; 0: no limit.
    """

    def __init__(
        self,
        disk: DiskCache,
        source: ShardSource,
        others_have_room: Callable[[int, int], bool],
        refill_bytes_per_s: float,
        clock: Clock,
    ) -> None:
        self._disk, self._source, self._others_have_room, self._clock = disk, source, others_have_room, clock
        self._bucket: TokenBucket | None = None
        if refill_bytes_per_s:
            self._bucket = TokenBucket(refill_bytes_per_s, refill_bytes_per_s * _BURST_S, clock.now())
        self._refill_from_s = 0.0
        self._limits: dict[bytes, TokenBucket] = {}  # of data sets that have a rate
        self._plan = LoadPlan(self._lacks, self._has_room)
        self._maps: Mapping[bytes, ChunkMap] = {}
        self._landing_bytes = 0
        self._wake = asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()
        source.on_spare = self._wake.set

    async def run(self) -> None:
        while True:
            self._wake.clear()
            try:
                pause_s = self._start_loads()
            except Exception:  # noqa: BLE001 - whatever it is, later loads must not wait for ever
                logging.exception("loads")
                pause_s = _TRY_AGAIN_S
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(pause_s):
                    await self._wake.wait()

    def __len__(self) -> int:
        """Those that are under way."""
        return len(self._tasks)

    def replace(
        self, chunks: Sequence[ChunkLoad], maps: Mapping[bytes, ChunkMap], bytes_per_s: Mapping[bytes, float]
    ) -> None:
        """These instead of all that were to be loaded.

        Args:
          maps: of their data sets.
          bytes_per_s: what this node may load of those that have a rate.
        """
        self._maps, now = maps, self._clock.now()
        limits, self._limits = self._limits, {}
        for digest_id, rate in bytes_per_s.items():
            bucket = self._limits[digest_id] = limits.get(digest_id) or TokenBucket(rate, rate * _LIMITED_BURST_S, now)
            bucket.refill_at(rate, rate * _LIMITED_BURST_S, now)
            self._plan.hold(digest_id, now + bucket.take(0, now))
        for digest_id in limits.keys() - bytes_per_s.keys():
            self._plan.hold(digest_id, now)
        self._plan.replace(chunks, now)
        self._wake.set()

    async def close(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _lacks(self, digest_id: bytes, shard: int) -> bool:
        hash = self._maps[digest_id].digest.hashes[shard].tobytes()
        return hash not in self._disk and not self._source.is_handed_over(hash)

    def _has_room(self, digest_id: bytes, shard: int) -> bool:
        map = self._maps[digest_id]
        hash, size_bytes = map.digest.hashes[shard].tobytes(), int(map.entry_bytes[shard])
        if self._disk.has_room(hash, size_bytes, self._landing_bytes):
            return True
        return self._disk.may_stand_in(hash) and self._others_have_room(size_bytes, self._landing_bytes)

    def _start_loads(self) -> float | None:
        """As many as may be under way now; seconds after which there may be more though nothing has happened."""
        now = self._clock.now()
        while len(self._tasks) < PARALLEL_LOADS and (load := self._plan.next(now, urgent=True)):
            self._start(load)
        pause_s = self._plan.pause_s(now)
        while len(self._tasks) < PARALLEL_LOADS and not self._plan.under_way(urgent=True) and self._source.is_spare:
            if now < self._refill_from_s:
                wait_s = self._refill_from_s - now
                return wait_s if pause_s is None else min(pause_s, wait_s)
            load = self._plan.next(now, urgent=False)
            if load is None:
                break
            self._start(load)
            if self._bucket:
                size_bytes = int(self._maps[load.digest_id].digest.lengths[load.shard])
                self._refill_from_s = now + self._bucket.take(size_bytes, now)
        return pause_s

    def _start(self, load: Load) -> None:
        map = self._maps[load.digest_id]
        size_bytes = int(map.entry_bytes[load.shard])
        self._landing_bytes += size_bytes
        if load.digest_id in self._limits:
            now, raw_bytes = self._clock.now(), int(map.digest.lengths[load.shard])
            self._plan.hold(load.digest_id, now + self._limits[load.digest_id].take(raw_bytes, now))
        with telling(dataset=map.digest.name, digest=load.digest_id, shard=load.shard, alone=True):
            task = asyncio.get_running_loop().create_task(self._source.load(map.digest, load.shard))
        self._tasks.add(task)
        task.add_done_callback(lambda task: self._landed(task, load, size_bytes, map.digest.name))

    def _landed(self, task: asyncio.Task[None], load: Load, size_bytes: int, called: str) -> None:
        self._tasks.discard(task)
        self._landing_bytes -= size_bytes
        trouble = None if task.cancelled() else task.exception()
        if trouble is not None:
            every_n_seconds(
                logging.WARNING, "shard %d of data set %s was not loaded: %s", 5,
                load.shard, called, trouble,
                extra=about(digest=load.digest_id, shard=load.shard),
            )  # fmt: skip
        self._plan.ended(load, self._clock.now(), failed=task.cancelled() or trouble is not None)
        self._wake.set()
