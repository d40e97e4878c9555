"""Reads that block, in threads: so many at a time, and one that never comes back does not keep its place."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from absl import logging

from tfquiver import errors

T = TypeVar("T")


class BoundedReads:
    """Lives on one loop. Stores are told a deadline; some (a hung mount, a synchronous client) do not keep it.

    Args:
      parallel: reads at the same time, those not counted that are taken for hung.
      most_hung: threads that may be lost to those; beyond that nothing more is begun until one comes back.
      limit_s: a read that takes longer is taken for hung.
    """

    def __init__(self, parallel: int, most_hung: int, limit_s: float) -> None:
        self._most_hung, self._limit_s = most_hung, limit_s
        self._pool = ThreadPoolExecutor(parallel + most_hung, "fetch")
        self._places = asyncio.Semaphore(parallel)
        self.hung = 0
        self._closed = False

    async def run(
        self, what: str, read: Callable[..., T], *arguments: object, at: Callable[[], object] = lambda: None
    ) -> T:
        """What `read` returns or raises. Raises UnavailableError naming `what` when it does not come back,
        CancelledError_ after `close`.

        `at`: where it is. One that gets further within the limit does not hang.
        """
        async with self._places:
            if self._closed:
                raise errors.CancelledError_(f"{what}: the node is stopping")
            if self.hung >= self._most_hung:
                raise errors.UnavailableError(f"{what}: {self.hung} reads hang already: is a mount or a store gone?")
            running = asyncio.get_running_loop().run_in_executor(self._pool, read, *arguments)
            was_at: object = object()
            while was_at != (was_at := at()):
                done, _ = await asyncio.wait([running], timeout=self._limit_s)
                if done:
                    return running.result()
            self.hung += 1
            running.add_done_callback(self._back)
            logging.error("%s: a read hangs; it has not kept its deadline (%d such now)", what, self.hung)
            raise errors.UnavailableError(f"{what}: the read has not come back within {self._limit_s:g} s")

    async def close(self) -> None:
        """Waits for the threads."""
        self._closed = True
        await asyncio.to_thread(self._pool.shutdown, True, cancel_futures=True)

    def _back(self, running: asyncio.Future[T]) -> None:
        self.hung -= 1
        if not running.cancelled():
            running.exception()  # nobody waits for it any more
