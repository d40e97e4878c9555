"""Long lists that many ask for: one is made for all who ask alike, and one of them at a time."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Hashable
from dataclasses import dataclass
from typing import Generic, TypeVar

Reply = TypeVar("Reply")


@dataclass(slots=True, eq=False)
class _Asked(Generic[Reply]):
    task: asyncio.Task[Reply]
    waiting: int = 0


class AskedAlike(Generic[Reply]):
    """Lives on one event loop. Of fifty who asked for a list of ten thousand data sets every second each made one of
    its own: as many parts in every turn of the loop, and half of them were given up before they were done."""

    def __init__(self) -> None:
        self.turn = asyncio.Lock()  # held by what is made while it works on the loop; not where it waits for a disk
        self._given = asyncio.Lock()
        self._next = dict[Hashable, _Asked[Reply]]()  # not begun yet
        self._under_way = dict[Hashable, asyncio.Task[Reply]]()

    async def made(self, alike: Hashable, make: Callable[[], Awaitable[Reply]]) -> Reply:
        """What a `make` of those who ask alike gives that has begun since this was called. Not to be changed: several
        may be given the same. What nobody waits for any more is given up. Raises as `make`."""
        if (asked := self._next.get(alike)) is None:
            task = asyncio.get_running_loop().create_task(self._made(alike, make))
            asked = self._next[alike] = _Asked(task)
        asked.waiting += 1
        try:
            reply = await asyncio.shield(asked.task)
            async with self._given:  # one in a turn of the loop: bytes are made of it for each, of a megabyte in 5 ms
                await asyncio.sleep(0)
            return reply
        finally:
            asked.waiting -= 1
            if not asked.waiting and asked.task.cancel() and self._next.get(alike) is asked:
                del self._next[alike]

    async def _made(self, alike: Hashable, make: Callable[[], Awaitable[Reply]]) -> Reply:
        if (before := self._under_way.get(alike)) is not None:
            await asyncio.wait([before])
        self._under_way[alike] = self._next.pop(alike).task
        try:
            return await make()
        finally:
            del self._under_way[alike]
