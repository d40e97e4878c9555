"""How much is fetched ahead at a time. Needs trio.

A store shares its rate among all that is under way, so what was asked for first comes about when the last does. Were
all that a reader may be ahead under way at once, it would wait for its next shard, find the rest there, and read
through it while the store does nothing. With half of it under way the other half is there to be read meanwhile. That
is so of each reader: half of one's, for all, would keep each of eight waiting for the others.
"""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import trio


class AheadPlaces:
    """First come first served. Lives on one trio loop.

    Args:
      most: that are under way at a time.
      most_bytes: the same, of all together; what is larger goes alone.
    """

    def __init__(self, most: int, most_bytes: int) -> None:
        self._most, self._most_bytes = most, most_bytes
        self._count = self._bytes = 0
        self._waiting: deque[tuple[int, trio.Event]] = deque()

    def resize(self, most_bytes: int) -> None:
        self._most_bytes = most_bytes
        self._admit()

    @asynccontextmanager
    async def place(self, size_bytes: int) -> AsyncIterator[None]:
        if self._waiting or not self._fits(size_bytes):
            await self._admitted(size_bytes)
        else:
            self._take(size_bytes)
        try:
            yield
        finally:
            self._give_back(size_bytes)

    async def _admitted(self, size_bytes: int) -> None:
        waiter = (size_bytes, trio.Event())
        self._waiting.append(waiter)
        try:
            await waiter[1].wait()
        except trio.Cancelled:
            if waiter[1].is_set():
                self._give_back(size_bytes)
            else:
                self._waiting.remove(waiter)
                self._admit()  # it may have been the one that does not fit
            raise

    def _fits(self, size_bytes: int) -> bool:
        return not self._count or (self._count < self._most and self._bytes + size_bytes <= self._most_bytes)

    def _take(self, size_bytes: int) -> None:
        self._count += 1
        self._bytes += size_bytes

    def _give_back(self, size_bytes: int) -> None:
        self._count -= 1
        self._bytes -= size_bytes
        self._admit()

    def _admit(self) -> None:
        while self._waiting and self._fits(self._waiting[0][0]):
            size_bytes, admitted = self._waiting.popleft()
            self._take(size_bytes)
            admitted.set()
