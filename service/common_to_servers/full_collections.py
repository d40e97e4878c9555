"""Collections of all garbage: seldom, since each looks at every object there is, and nothing else happens meanwhile.

Python makes one whenever a quarter as many objects have come as there were. A coordinator of a thousand jobs has
160 000: 100 ms each time, every few seconds while sessions come and go, and the calls that wait are late by that.
Nearly all it makes is freed without them: what is left for them was 10 objects a second
(`tests/bench/coordinator_thousand.py`).

What a collection has left is put aside (`gc.freeze`): the next ones look at what has come since. Of what was put aside
what is garbage by then waits for one that looks at all of it again, every `WHOLE_EVERY` times.

Of the others, which look at young objects only, Python makes one whenever 700 more are there than after the last one:
seven a second of 300 nodes and jobs, whose calls under way are thousands that come and go, for 4 % of all the CPU that
the coordinator takes. Here it is 10 000 more, and one in ten seconds. Python has every eleventh of them look at those
that the ten before it have left, too: every second one does here, so that none has much to look at. Of a coordinator of
500 nodes and jobs nearly all that held its loop up for more than 6 ms were such elevenths, one a second.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
from collections.abc import Iterator

PAUSE_S, WHOLE_EVERY = 60.0, 15
_NEVER = 1 << 30
_YOUNG = 10_000  # objects more than after the last collection, where calls under way are thousands
_YOUNG_BETWEEN = 1  # collections of the youngest, between two that look at those they have left


@contextlib.contextmanager
def now_and_then(pause_s: float = PAUSE_S, whole_every: int = WHOLE_EVERY) -> Iterator[None]:
    """One every `pause_s`, and none beside, of a process that is all its own: for as long as the context lasts."""
    before = gc.get_threshold()
    gc.set_threshold(max(before[0], _YOUNG), _YOUNG_BETWEEN, _NEVER)
    gc.freeze()
    task = asyncio.get_running_loop().create_task(_collect(pause_s, whole_every))
    try:
        yield
    finally:
        task.cancel()
        gc.unfreeze()
        gc.set_threshold(*before)


async def _collect(pause_s: float, whole_every: int) -> None:
    while True:
        for number in range(whole_every):
            await asyncio.sleep(pause_s)
            if number == whole_every - 1:
                gc.unfreeze()
            gc.collect()
            gc.freeze()
