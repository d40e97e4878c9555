"""Reads of one origin that block, in threads: so many at a time, and one that never comes back keeps no place.

An origin is what hangs as a whole: a bucket, a mounted file system. Each has places, threads and hung reads of its own
(see origins.py): who reads another one does not notice.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from typing import Any, TypeVar

from absl import logging

from tfquiver import errors
from tfquiver.sizes_durations_amounts.amounts import many

T = TypeVar("T")


class BoundedReads:
    """Lives on one loop. Stores are told a deadline; some (a hung mount, a synchronous client) do not keep it.

    Args:
      origin: its name, for messages.
      parallel: reads at the same time, those not counted that are taken for hung.
      most_hung: threads that may be lost to those; beyond that nothing more is begun until one comes back.
      limit_s: a read that brings nothing for longer is taken for hung.
      wait_s: who waits for a place is told so when nothing comes of the origin for so long.
      most: what `limit` may be set to later.
    """

    def __init__(
        self, origin: str, parallel: int, most_hung: int, limit_s: float, wait_s: float, most: int | None = None
    ) -> None:
        self.origin, self.limit, self.wait_s = origin, parallel, wait_s
        self.hung = 0
        self.on_free: Callable[[], None] = lambda: None  # told when there is a place, and nobody here waits for it
        self._most_hung, self._limit_s = most_hung, limit_s
        self._pool = ThreadPoolExecutor((most or parallel) + most_hung, "fetch")
        self._under_way: dict[asyncio.Task[Any], Callable[[], object]] = {}  # read -> where it is
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._granted = 0  # of those that have waited, who have not begun yet
        self._come = 0  # reads that came to their end
        self._closed = False

    @property
    def free(self) -> bool:
        """Whether `start` may be called. Where too many hang it may: it says so."""
        taken = len(self._under_way) + self._granted + len(self._waiting)
        return self._closed or self.hung >= self._most_hung or taken < self.limit

    @property
    def idle(self) -> bool:
        return not (self._under_way or self._waiting or self._granted or self.hung)

    @property
    def progress(self) -> object:
        """Another one each time that something has come."""
        return self._come, tuple(at() for at in self._under_way.values())

    async def run(
        self, what: str, read: Callable[..., T], *arguments: object, at: Callable[[], object] = lambda: None
    ) -> T:
        """What `read` returns or raises. A place is waited for as long as something comes of the origin.

        `at`: where it is. One that gets further within the limit does not hang. It goes on when this is cancelled.

        Raises:
          UnavailableError: names `what`, the origin and how many reads hang: it does not come back, there are too many
            such already, or no place came free.
          CancelledError_: after `close`.
        """
        if not self.free:
            await self._place(what)
            self._granted -= 1
        return await asyncio.shield(self.start(what, read, *arguments, at=at))

    def start(
        self, what: str, read: Callable[..., T], *arguments: object, at: Callable[[], object] = lambda: None
    ) -> asyncio.Task[T]:
        """As `run`, in a place that is `free`: it is taken now."""
        task = asyncio.get_running_loop().create_task(self._read(what, read, arguments, at))
        self._under_way[task] = at
        task.add_done_callback(self._ended)
        return task

    def no_place(self, what: str) -> errors.UnavailableError:
        """What is said to who has waited for nothing."""
        return errors.UnavailableError(
            f"{what}: no place to read it: of {self.origin} {many(len(self._under_way), 'read is', 'reads are')} "
            f"under way, and nothing has come for {self.wait_s:g} s; {many(self.hung, 'more hangs', 'more hang')}. "
            "Is it "
            "gone? Other stores are read as before"
        )

    async def close(self) -> None:
        """Waits for the threads."""
        self._closed = True
        self._wake()
        await asyncio.to_thread(self._pool.shutdown, True, cancel_futures=True)
        await asyncio.gather(*self._under_way, return_exceptions=True)

    def forget(self) -> None:
        """Instead of `close`, where it is idle."""
        self._pool.shutdown(wait=False)

    async def _place(self, what: str) -> None:
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(waiter)
        try:
            while not waiter.done():
                before = self.progress
                await asyncio.wait([waiter], timeout=self.wait_s)
                if not waiter.done() and self.progress == before:
                    raise self.no_place(what)
        except BaseException:
            if waiter.done():
                self._granted -= 1
                self._wake()
            else:
                self._waiting.remove(waiter)
            raise

    async def _read(
        self, what: str, read: Callable[..., T], arguments: tuple[object, ...], at: Callable[[], object]
    ) -> T:
        if self._closed:
            raise errors.CancelledError_(f"{what}: the node is stopping")
        if self.hung >= self._most_hung:
            raise errors.UnavailableError(f"{what}: {self._hanging()} already: is it gone?")
        running = asyncio.get_running_loop().run_in_executor(self._pool, copy_context().run, read, *arguments)
        was_at: object = object()
        while was_at != (was_at := at()):
            done, _ = await asyncio.wait([running], timeout=self._limit_s)
            if done:
                self._come += 1
                return running.result()
        self.hung += 1
        running.add_done_callback(self._back)
        logging.error(
            "%s: a read hangs; it has not kept its deadline (%d such now of %s)", what, self.hung, self.origin
        )
        raise errors.UnavailableError(
            f"{what}: the read has not come back within {self._limit_s:g} s ({self._hanging()})"
        )

    def _hanging(self) -> str:
        return many(self.hung, f"read of {self.origin} hangs", f"reads of {self.origin} hang")

    def _ended(self, task: asyncio.Task[Any]) -> None:
        del self._under_way[task]
        if not task.cancelled():
            task.exception()  # perhaps nobody waits for it any more
        self._wake()

    def _back(self, running: asyncio.Future[Any]) -> None:
        self.hung -= 1
        self._come += 1
        if not running.cancelled():
            running.exception()
        self._wake()

    def _wake(self) -> None:
        """Those that have waited longest get the places that are free; where nothing may be begun, all are told so."""
        refused = self._closed or self.hung >= self._most_hung
        while self._waiting and (refused or len(self._under_way) + self._granted < self.limit):
            self._waiting.popleft().set_result(None)
            self._granted += 1
        if self.free:
            self.on_free()
