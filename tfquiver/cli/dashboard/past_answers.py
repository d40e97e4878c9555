"""What was, for all pages that ask for the same: the coordinator is asked once in a few seconds for all of them."""

from __future__ import annotations

import asyncio
import json
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

STANDS_S = 5.0  # a page asks every ten seconds, and steps are ten seconds
_MOST_ASKED = 4
_MOST_KEPT = 64  # up to half a megabyte each

# day, jobs, digest id in hexadecimal digits -> what GetPast tells; raises TfquiverError.
AskPast = Callable[[bool, list[str], str], dict[str, Any]]
_Key = tuple[bool, tuple[str, ...], str]


class PastAnswers:
    """Lives on one loop. `ask` is called in threads."""

    def __init__(self, ask: AskPast) -> None:
        self._ask, self._places = ask, asyncio.Semaphore(_MOST_ASKED)
        self._kept: OrderedDict[_Key, tuple[float, asyncio.Task[str]]] = OrderedDict()

    async def told(self, day: bool, jobs: list[str], digest_id: str) -> str:
        """JSON. Raises as `ask`."""
        key, now = (day, tuple(jobs), digest_id), asyncio.get_running_loop().time()
        begun_at, task = self._kept.get(key, (now, None))
        if task is None or (task.done() and (now >= begun_at + STANDS_S or task.exception() is not None)):
            task = asyncio.create_task(self._asked(key))
            task.add_done_callback(_look_at)
            self._kept[key] = (now, task)
        self._kept.move_to_end(key)
        while len(self._kept) > _MOST_KEPT:
            self._kept.popitem(last=False)
        return await asyncio.shield(task)  # who hangs up takes it from nobody else

    async def _asked(self, key: _Key) -> str:
        day, jobs, digest_id = key
        async with self._places:
            return await asyncio.to_thread(self._text, day, list(jobs), digest_id)

    def _text(self, day: bool, jobs: list[str], digest_id: str) -> str:
        """In the thread: of a day of twenty jobs it takes longer than others should wait."""
        return json.dumps(self._ask(day, jobs, digest_id), allow_nan=False)


def _look_at(task: asyncio.Task[str]) -> None:
    """So that nobody reports an error that nobody waits for any more."""
    if not task.cancelled():
        task.exception()
