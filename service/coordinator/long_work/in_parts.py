"""Long work on the loop, in parts: calls are served between, as if it were not going on."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable

PART_S, MOST_REST_S = 0.001, 0.05


class InParts:
    """Of one piece of work, from when it is made. Await `rest` wherever others may come in.

    To let one turn of the loop pass after each part would not do: a call passes through the loop about ten times, and
    would meet ten parts.
    """

    def __init__(
        self,
        now: Callable[[], float] = time.perf_counter,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._now, self._sleep = now, sleep
        self._began_s = now()

    async def rest(self) -> None:
        """Once a millisecond has been worked, for as long as it was: no more than half of the loop's time is taken.
        Before, nothing. A process that was stopped meanwhile has not worked for that long: it rests for 50 ms at most.
        """
        worked_s = self._now() - self._began_s
        if worked_s >= PART_S:
            await self._sleep(min(worked_s, MOST_REST_S))
            self._began_s = self._now()
