"""What changes the disk beside inserts (deleting, notes), in threads of its own.

Of the threads that a node has for all else a disk that hangs would take one for each data set that is emptied: soon
nothing would go on, no scan, no digest, no reader.
"""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Protocol, TypeVar

T = TypeVar("T")
_THREADS = 4


class OnDisk(Protocol):
    """`DiskThreads.run`; or `asyncio.to_thread`, where no disk hangs."""

    def __call__(self, call: Callable[..., T], /, *arguments: Any) -> Coroutine[Any, Any, T]: ...


class DiskThreads:
    """Lives on one loop."""

    def __init__(self) -> None:
        self._pool = ThreadPoolExecutor(_THREADS, "disk-changes")

    async def run(self, call: Callable[..., T], /, *arguments: Any) -> T:
        """As `asyncio.to_thread`. What nobody waits for any more, and no thread has begun, is not done."""
        context = contextvars.copy_context()
        return await asyncio.get_running_loop().run_in_executor(self._pool, context.run, call, *arguments)

    async def close(self) -> None:
        """Waits for the threads; what they have not begun is not done."""
        await asyncio.to_thread(self._pool.shutdown, True, cancel_futures=True)
