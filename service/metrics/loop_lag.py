"""How late the event loop is, measured as those feel it who wait for their turn."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Iterator

from tfquiver.service.metrics.instruments import LOOP_LAG

PAUSE_S = 0.1
# To be woken costs a third of a millisecond where nothing else runs: ten times a second is more than all else that a
# server does whom nobody calls.
LONGEST_PAUSE_S = 1.0
_IDLE_SHARE, _LATE_S = 0.05, 0.005


@contextlib.contextmanager
def measured_lag(pause_s: float = PAUSE_S) -> Iterator[None]:
    """Of the running loop, for as long as the context lasts."""
    task = asyncio.get_running_loop().create_task(_measure(pause_s), name="loop lag")
    try:
        yield
    finally:
        task.cancel()


def next_pause_s(pause_s: float, lag_s: float, busy_share: float, least_s: float = PAUSE_S) -> float:
    """After one in which the loop's thread worked for that part of the time: where it has nothing to do, twice as long
    (pure)."""
    if lag_s > _LATE_S or busy_share > _IDLE_SHARE:
        return least_s
    return min(2 * pause_s, LONGEST_PAUSE_S)


async def _measure(least_s: float) -> None:
    loop, pause_s, worked_s = asyncio.get_running_loop(), least_s, time.thread_time()
    while True:
        due = loop.time() + pause_s
        await asyncio.sleep(pause_s)
        lag_s = max(loop.time() - due, 0.0)
        LOOP_LAG.observe(lag_s)
        before, worked_s = worked_s, time.thread_time()
        pause_s = next_pause_s(pause_s, lag_s, (worked_s - before) / (pause_s + lag_s), least_s)
