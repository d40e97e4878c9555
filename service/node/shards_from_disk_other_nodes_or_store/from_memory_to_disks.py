"""Shards that are read from memory though they stand on no disk, brought onto one again: that of their owner."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Sequence

from absl import logging

from tfquiver import errors
from tfquiver.digests.digest import ShardRef
from tfquiver.log_files_and_lines.rare_lines import every_n_seconds
from tfquiver.service.node.disk import entry
from tfquiver.service.node.disk.disk_cache import DiskCache
from tfquiver.service.node.evicting_emptying_removing_leftovers.given_up import GivenUp
from tfquiver.service.node.evicting_emptying_removing_leftovers.letting_go import among
from tfquiver.service.node.placing_at_owners_and_writing.handing_over import HandingOver
from tfquiver.service.node.placing_at_owners_and_writing.inserts import Inserts
from tfquiver.service.node.sealed_memory_of_checked_shards.hot import HotSet
from tfquiver.service.node.shards_from_disk_other_nodes_or_store.disk_reads import DiskReads

_MOST_QUEUED = 4096


class FromMemoryToDisks:
    """Lives on one loop. The node that had them is gone: whoever reads them from memory would do so until it leaves,
    too, and the store would be asked for all of them. One after the other; no reader waits for it."""

    def __init__(
        self,
        node_id: str,
        disk: DiskCache,
        hot: HotSet,
        reads: DiskReads,
        inserts: Inserts,
        handing_over: HandingOver,
        unkept: GivenUp,
    ) -> None:
        self._node_id, self._disk, self._hot, self._reads = node_id, disk, hot, reads
        self._inserts, self._handing_over, self._unkept = inserts, handing_over, unkept
        self._queue: dict[bytes, tuple[ShardRef, bool]] = {}  # by hash; whether this node is its owner
        self._under_way, self._held = b"", 0
        self._task: asyncio.Task[None] | None = None

    def was_read(self, ref: ShardRef, owner: str, missing: bool) -> None:
        """A reader was given a shard from memory, here. `missing`: as in ShardSource.get."""
        is_owner = owner == self._node_id
        if not (is_owner or (owner and missing)) or len(self._queue) >= _MOST_QUEUED or ref.hash in self._queue:
            return
        if missing:
            self._handing_over.forget([ref.hash])  # whoever took it is gone, too
        if not self._lacks_disk(ref, is_owner):
            return
        self._queue[ref.hash] = ref, is_owner
        self._go_on()

    @contextlib.asynccontextmanager
    async def none_of(self, hashes: Sequence[bytes]) -> AsyncIterator[None]:
        """Around what gives these up: nothing is brought meanwhile, and of what waits then nobody asks for these. What
        is read of them until they have gone from memory would be kept again. (What is under way: `GivenUp`.)"""
        self._held += 1
        try:
            yield
            if waiting := self._queue.keys() - {self._under_way}:
                for hash in await asyncio.to_thread(among, waiting, hashes):
                    self._queue.pop(hash, None)
        finally:
            self._held -= 1
            self._go_on()

    async def close(self) -> None:
        self._queue.clear()
        if self._task:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    def _go_on(self) -> None:
        if self._queue and not self._held and self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._work_off())

    def _lacks_disk(self, ref: ShardRef, is_owner: bool) -> bool:
        """Whether it stands nowhere, as far as is known here, and would be kept."""
        if ref.hash in self._disk or self._inserts.under_way(ref.hash) or not self._disk.wanted(ref.hash):
            return False
        if self._handing_over.taken(ref.hash) or self._handing_over.under_way(ref.hash):
            return False
        return not is_owner or self._has_room(ref) or self._handing_over.may(ref.hash, ref.length_bytes)

    def _has_room(self, ref: ShardRef) -> bool:
        """Without another entry that goes for it: nobody has missed it."""
        disk_bytes = entry.disk_bytes(entry.HEADER_BYTES + ref.length_bytes)
        return not self._disk.is_full(disk_bytes) and self._disk.has_room(ref.hash, disk_bytes)

    async def _work_off(self) -> None:
        try:
            while self._queue and not self._held:
                ref, is_owner = next(iter(self._queue.values()))
                self._under_way = ref.hash
                try:
                    await self._bring(ref, is_owner)
                except (errors.TfquiverError, OSError) as error:
                    where = f"{ref.file.uri} at {ref.offset}"
                    every_n_seconds(logging.INFO, "from memory to a disk: %s: %s", 60, where, error)
                finally:
                    self._queue.pop(ref.hash, None)
        finally:
            self._task, self._under_way = None, b""

    async def _bring(self, ref: ShardRef, is_owner: bool) -> None:
        with self._unkept.until_here(ref.hash) as getting:
            ready = self._hot.get(ref.hash)
            if ready is None:
                return
            try:
                shard = await self._reads.run(self._reads.copied, ref, ready)
            finally:
                ready.close()
            if getting.is_given_up or not self._lacks_disk(ref, is_owner):
                return
            if not is_owner:
                await asyncio.shield(self._handing_over.start(shard, to_owner=True))
            elif self._has_room(ref):
                await self._inserts.keep(shard)
            else:
                await asyncio.shield(self._handing_over.start(shard))
