"""Shards that come by (a scan, a pass over a compressed file) on their way onto this node's disk: in threads of their
own, with patience that ends. A scan that waited for a disk that hangs would stand still, though it needs none."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor

from tfquiver import errors
from tfquiver.service.node.disk.disk_cache import DiskCache
from tfquiver.service.node.disk_quota_books_and_eviction.rules import Why
from tfquiver.service.node.hanging_disk.patient_thread import PATIENCE_S, result_of
from tfquiver.service.node.sealed_memory_of_checked_shards.verified import VerifiedShard

_THREADS = 24  # as many as come with shards at the same time: the threads of scans and of passes


class PlacedHere:
    """`insert` blocks, and may be called from any thread; the rest lives on one loop."""

    def __init__(self, disk: DiskCache, patience_s: float = PATIENCE_S) -> None:
        self._disk, self._patience_s = disk, patience_s
        self._pool = ThreadPoolExecutor(_THREADS, "place")
        self._lock = threading.Lock()
        self._under_way: dict[Future[None], bytes] = {}
        self._late: set[Future[None]] = set()  # nobody waits for these any more

    def insert(self, shard: VerifiedShard, why: Why) -> None:
        """As DiskCache.insert_placed; raises ResourceExhaustedError, too, where it is not kept yet: it goes on."""
        if shard.hash in self._disk or not self._disk.wanted(shard.hash, why):
            return
        with self._lock:
            if self._late:
                raise errors.ResourceExhaustedError("the disk takes too long to keep what came by before")
            running = self._pool.submit(self._disk.insert_placed, shard, why)
            self._under_way[running] = shard.hash
        running.add_done_callback(self._over)
        try:
            result_of(running, self._patience_s, self._disk.hanging)
        except TimeoutError as error:
            if not running.cancel():  # where it has not begun, that calls `_over`, which takes the lock
                with self._lock:
                    if running in self._under_way:
                        self._late.add(running)
            hangs = self._disk.hanging.trouble()
            raise errors.ResourceExhaustedError(
                hangs or f"the disk takes longer than {self._patience_s:g} s to keep a shard"
            ) from error

    def coming(self) -> set[bytes]:
        """Hashes of what may yet stand here."""
        with self._lock:
            return set(self._under_way.values())

    async def still(self, hashes: Sequence[bytes]) -> None:
        """Returns when of these none is on its way onto the disk that is now."""
        with self._lock:
            under_way = dict(self._under_way)
        if under_way:
            wanted = await asyncio.to_thread(frozenset(under_way.values()).intersection, hashes)
            if waited_for := [asyncio.wrap_future(one) for one, hash in under_way.items() if hash in wanted]:
                await asyncio.wait(waited_for)
                for one in waited_for:
                    if not one.cancelled():
                        one.exception()  # who waited for it knows

    def close(self) -> None:
        """Blocks: waits for the threads."""
        self._pool.shutdown(True)

    def _over(self, running: Future[None]) -> None:
        with self._lock:
            self._under_way.pop(running, None)
            self._late.discard(running)
