"""Collections of all garbage: seldom, since each looks at every object there is, and nothing else happens meanwhile.

Python makes one whenever a quarter as many objects have come as there were. A coordinator of a thousand jobs has
160 000: 100 ms each time, every few seconds while sessions come and go, and the calls that wait are late by that.
Nearly all it makes is freed without them: what is left for them was 10 objects a second
(`tests/bench/coordinator_thousand.py`).
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
from collections.abc import Iterator

PAUSE_S = 60.0
_NEVER = 1 << 30


@contextlib.contextmanager
def now_and_then(pause_s: float = PAUSE_S) -> Iterator[None]:
    """One every `pause_s`, and none beside, of a process that is all its own: for as long as the context lasts."""
    before = gc.get_threshold()
    gc.set_threshold(before[0], before[1], _NEVER)
    task = asyncio.get_running_loop().create_task(_collect(pause_s))
    try:
        yield
    finally:
        task.cancel()
        gc.set_threshold(*before)


async def _collect(pause_s: float) -> None:
    while True:
        await asyncio.sleep(pause_s)
        gc.collect()
