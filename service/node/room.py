"""How many bytes of bodies may be in memory at one time."""

from __future__ import annotations

import asyncio


class Room:
    """Bytes that may be in memory at one time; one that is larger than all of it waits to be alone."""

    def __init__(self, limit_bytes: int) -> None:
        self._limit_bytes, self._used_bytes = limit_bytes, 0
        self._changed = asyncio.Condition()

    async def take(self, size_bytes: int) -> None:
        async with self._changed:
            await self._changed.wait_for(lambda: not self._used_bytes or self._fits(size_bytes))
            self._used_bytes += size_bytes

    async def give_back(self, size_bytes: int) -> None:
        async with self._changed:
            self._used_bytes -= size_bytes
            self._changed.notify_all()

    def _fits(self, size_bytes: int) -> bool:
        return self._used_bytes + size_bytes <= self._limit_bytes
