"""Shards for which this node, their owner, has no room, on their way to another one."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor

from tfquiver.service.node.checked_shards_in_memory.verified import VerifiedShard

_THREADS = 2
_MOST = 32  # shards that wait to be handed over; what a reader brings beyond that is fetched again some day


class HandingOver:
    """Lives on one loop.

    Args:
      stands_in: blocks; whether another node keeps the shard now.
    """

    def __init__(self, stands_in: Callable[[VerifiedShard], bool]) -> None:
        self._stands_in = stands_in
        self._taken: set[bytes] = set()
        self._under_way: dict[bytes, asyncio.Task[bool]] = {}
        self._pool = ThreadPoolExecutor(_THREADS, "hand-over")

    def __len__(self) -> int:
        """Those that are under way."""
        return len(self._under_way)

    @property
    def full(self) -> bool:
        return len(self._under_way) >= _MOST

    def taken(self, hash: bytes) -> bool:
        """Whether another node took it, as far as is known."""
        return hash in self._taken

    def all_taken(self) -> set[bytes]:
        """That others have taken."""
        return set(self._taken)

    def forget(self, hashes: Iterable[bytes]) -> None:
        """Nobody has them any more, or nobody is to."""
        if self._taken:
            self._taken.difference_update(hashes)

    def under_way(self, hash: bytes) -> asyncio.Task[bool] | None:
        return self._under_way.get(hash)

    def start(self, shard: VerifiedShard) -> asyncio.Task[bool]:
        """Without keeping readers waiting; whether one took it."""
        task = self._under_way.get(shard.hash)
        if task is None:
            task = asyncio.get_running_loop().create_task(self._hand_over(shard))
            self._under_way[shard.hash] = task
            task.add_done_callback(lambda _: self._under_way.pop(shard.hash))
        return task

    async def close(self) -> None:
        tasks = list(self._under_way.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._pool.shutdown(wait=False, cancel_futures=True)  # closing the peers ends what is under way

    async def _hand_over(self, shard: VerifiedShard) -> bool:
        took = await asyncio.get_running_loop().run_in_executor(self._pool, self._stands_in, shard)
        if took:
            self._taken.add(shard.hash)
        return took
