"""Work of several owners in few threads: each owner in turn gets the next free one, however much another has queued."""

from __future__ import annotations

import asyncio
import functools
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator
from concurrent.futures import ThreadPoolExecutor


class FairQueue:
    """Lives on one loop.

    Args:
      threads: how many calls run at a time.
    """

    def __init__(self, threads: int, name: str) -> None:
        self._free = threads
        self._pool = ThreadPoolExecutor(threads, name)
        self._waiting: OrderedDict[Hashable, tuple[Iterator[Callable[[], object]], _Run]] = OrderedDict()

    async def run(self, owner: Hashable, calls: Iterator[Callable[[], object]]) -> None:
        """Makes all of an owner's calls; returns when they have returned.

        The first exception of a call is raised; those not begun are not made then, nor when this is cancelled. Whoever
        calls has to stop those that run.
        """
        run = _Run(asyncio.get_running_loop().create_future())
        self._waiting[owner] = calls, run
        self._start()
        try:
            await run.over
        finally:
            self._waiting.pop(owner, None)

    async def close(self) -> None:
        await asyncio.to_thread(self._pool.shutdown, True, cancel_futures=True)

    def _start(self) -> None:
        while self._free and self._waiting:
            owner, (calls, run) = self._waiting.popitem(last=False)
            call = next(calls, None)
            if call is None:
                run.all_begun = True
                run.settle()
                continue
            self._waiting[owner] = calls, run  # at the end of the line
            self._free -= 1
            run.running += 1
            future = asyncio.get_running_loop().run_in_executor(self._pool, call)
            future.add_done_callback(functools.partial(self._ended, owner, run))

    def _ended(self, owner: Hashable, run: _Run, done: asyncio.Future[object]) -> None:
        self._free += 1
        run.running -= 1
        error = None if done.cancelled() else done.exception()
        if error is not None:
            self._waiting.pop(owner, None)
            if not run.over.done():
                run.over.set_exception(error)
        run.settle()
        self._start()


class _Run:
    """One owner's calls."""

    def __init__(self, over: asyncio.Future[None]) -> None:
        self.over = over
        self.running = 0
        self.all_begun = False

    def settle(self) -> None:
        if self.all_begun and not self.running and not self.over.done():
            self.over.set_result(None)
