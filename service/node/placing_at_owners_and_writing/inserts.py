"""Shards on their way onto this node's disk: in threads of their own, with patience that ends."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor

from absl import logging

from tfquiver import errors
from tfquiver.log_files_and_lines.logs import about
from tfquiver.log_files_and_lines.rare_lines import every_n_seconds
from tfquiver.service.node.sealed_memory_of_checked_shards.verified import VerifiedShard
from tfquiver.sizes_durations_amounts.amounts import of_bytes

PATIENCE_S = 2.0
_THREADS = 4
_MOST_BYTES = 256 << 20


class Inserts:
    """Lives on one loop.

    Args:
      insert: blocks; raises ResourceExhaustedError.
      most_bytes: of shards that are under way. Beyond it a shard is not kept; it is served all the same.
    """

    def __init__(self, insert: Callable[[VerifiedShard], None], most_bytes: int = _MOST_BYTES) -> None:
        self._insert, self._most_bytes = insert, most_bytes
        self._pool = ThreadPoolExecutor(_THREADS, "insert")
        self._under_way: dict[bytes, VerifiedShard] = {}
        self._running: dict[bytes, asyncio.Future[None]] = {}  # the same
        self._size_bytes = 0
        self._closed = False

    def __len__(self) -> int:
        """Those that are under way."""
        return len(self._under_way)

    def under_way(self, hash: bytes) -> VerifiedShard | None:
        """It is here, though not on the disk yet (I-9: nobody fetches it meanwhile)."""
        return self._under_way.get(hash)

    async def keep(self, shard: VerifiedShard) -> None:
        """Returns when it stands, is refused (which is logged), or has not landed for a while: it goes on then."""
        try:
            await self._start(shard, PATIENCE_S)
        except errors.ResourceExhaustedError as error:
            every_n_seconds(logging.INFO, "not kept: %s", 60, error, extra=about(hash=shard.hash))

    async def insert(self, shard: VerifiedShard) -> None:
        """Returns when it stands. Raises ResourceExhaustedError: it does not."""
        await self._start(shard, None)

    def running(self) -> set[bytes]:
        """Hashes of what is on its way, though nobody may wait for it any more."""
        return set(self._running)

    async def still(self, hashes: Iterable[bytes]) -> None:
        """Returns when of these none is on its way that is now."""
        if running := [self._running[hash] for hash in hashes if hash in self._running]:
            await asyncio.wait(running)

    async def close(self) -> None:
        """Waits for the threads; what they have not begun is not kept."""
        self._closed = True
        await asyncio.to_thread(self._pool.shutdown, True, cancel_futures=True)

    async def _start(self, shard: VerifiedShard, patience_s: float | None) -> None:
        if self._closed:
            raise errors.ResourceExhaustedError("the node is stopping")
        if shard.hash in self._under_way or self._size_bytes + len(shard.raw) > self._most_bytes:
            raise errors.ResourceExhaustedError(f"{of_bytes(self._size_bytes)} wait for the disk already")
        running = asyncio.get_running_loop().run_in_executor(self._pool, self._insert, shard)
        self._under_way[shard.hash], self._running[shard.hash] = shard, running
        self._size_bytes += len(shard.raw)
        running.add_done_callback(lambda _: self._landed(shard, running))
        done, _ = await asyncio.wait([running], timeout=patience_s)
        if done:
            running.result()
        else:
            every_n_seconds(
                logging.WARNING, "the disk takes longer than %g s to keep a shard; serving from memory", 60, patience_s
            )

    def _landed(self, shard: VerifiedShard, running: asyncio.Future[None]) -> None:
        del self._under_way[shard.hash], self._running[shard.hash]
        self._size_bytes -= len(shard.raw)
        if not running.cancelled():
            running.exception()  # whoever waited for it knows
