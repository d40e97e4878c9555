"""What is under way when a node is told to stop: waited for while it goes on, and no longer than it is worth."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

STALLED_S = 0.75  # a disk or a peer that hangs is not waited for
_LOOK_S = 0.02


async def finished(under_way: Callable[[], int], deadline_s: float, stalled_s: float = STALLED_S) -> int:
    """Returns when nothing is under way, nothing has got done for a while, or `deadline_s` are over: what is left."""
    loop = asyncio.get_running_loop()
    give_up_s = loop.time() + deadline_s
    left, changed_s = under_way(), loop.time()
    while left and loop.time() < min(give_up_s, changed_s + stalled_s):
        await asyncio.sleep(_LOOK_S)
        if (now := under_way()) != left:
            left, changed_s = now, loop.time()
    return left
