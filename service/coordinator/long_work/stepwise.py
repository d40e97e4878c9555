"""Long work on the loop that nobody waits for."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

from absl import logging

from tfquiver.service.coordinator.long_work.in_parts import InParts


class Stepwise:
    """Lives on one event loop."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[None]] = set()

    def run(self, steps: Iterator[None]) -> None:
        """Goes through `steps`; others may come in after each."""
        task = asyncio.get_running_loop().create_task(_through(steps))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def stop(self) -> None:
        """What is under way is left as it is."""
        for task in self._tasks:
            task.cancel()


async def _through(steps: Iterator[None]) -> None:
    parts = InParts()
    try:
        for _ in steps:
            await parts.rest()
    except Exception:  # noqa: BLE001 - nobody awaits it
        logging.exception("work in parts failed")
