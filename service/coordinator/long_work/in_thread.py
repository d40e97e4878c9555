"""What takes seconds to compute, beside the loop."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from absl import logging


class InThread:
    """Lives on one event loop."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[None]] = set()

    def run(self, make: Callable[[], object], then: Callable[[object | None], None]) -> None:
        """Calls `then` on the loop with what `make` has returned in a thread; None where it failed, which is logged."""
        task = asyncio.get_running_loop().create_task(_made(make, then))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def stop(self) -> None:
        """Nobody is told any more."""
        for task in self._tasks:
            task.cancel()


async def _made(make: Callable[[], object], then: Callable[[object | None], None]) -> None:
    made = None
    try:
        made = await asyncio.to_thread(make)
    except Exception:  # noqa: BLE001 - whatever it was: `then` hears of it
        logging.exception("computing beside the loop failed")
    then(made)
