"""Long work on the loop that nobody waits for."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterator

from absl import logging

from tfquiver.service.coordinator.long_work.in_parts import InParts


class Stepwise:
    """Lives on one event loop. Of several works each has a step in its turn, and all of them rest together: where each
    rested by itself, eight nodes that went at once had eight parts in one turn of the loop, and all of its time."""

    def __init__(self) -> None:
        self._works: deque[Iterator[None]] = deque()
        self._task: asyncio.Task[None] | None = None

    def run(self, steps: Iterator[None]) -> None:
        """Goes through `steps`; others may come in after each."""
        self._works.append(steps)
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._through())

    def stop(self) -> None:
        """What is under way is left as it is."""
        self._works.clear()
        if self._task is not None:
            self._task.cancel()

    async def _through(self) -> None:
        parts = InParts()
        try:
            while self._works:
                steps = self._works.popleft()
                try:
                    next(steps)
                    self._works.append(steps)
                except StopIteration:
                    pass
                except Exception:  # noqa: BLE001 - nobody awaits it
                    logging.exception("work in parts failed")
                await parts.rest()
        finally:
            self._task = None
