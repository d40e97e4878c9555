"""How late the event loop is, measured as those feel it who wait for their turn."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator

from tfquiver.service.metrics.instruments import LOOP_LAG

PAUSE_S = 0.1


@contextlib.contextmanager
def measured_lag(pause_s: float = PAUSE_S) -> Iterator[None]:
    """Of the running loop, for as long as the context lasts."""
    task = asyncio.get_running_loop().create_task(_measure(pause_s), name="loop lag")
    try:
        yield
    finally:
        task.cancel()


async def _measure(pause_s: float) -> None:
    loop = asyncio.get_running_loop()
    while True:
        due = loop.time() + pause_s
        await asyncio.sleep(pause_s)
        LOOP_LAG.observe(max(loop.time() - due, 0.0))
