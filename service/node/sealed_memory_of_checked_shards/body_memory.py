"""How many bytes of bodies may be in memory at one time."""

from __future__ import annotations

import asyncio


class BodyMemory:
    """Bytes that may be in memory at one time."""

    def __init__(self, limit_bytes: int) -> None:
        self.limit_bytes, self._used_bytes = limit_bytes, 0
        self._changed = asyncio.Condition()

    async def take(self, size_bytes: int) -> None:
        """Waits for it; `size_bytes` is at most the limit."""
        if size_bytes > self.limit_bytes:
            raise ValueError(f"{size_bytes} bytes never fit {self.limit_bytes}")
        async with self._changed:
            await self._changed.wait_for(lambda: self._used_bytes + size_bytes <= self.limit_bytes)
            self._used_bytes += size_bytes

    async def give_back(self, size_bytes: int) -> None:
        async with self._changed:
            self._used_bytes -= size_bytes
            self._changed.notify_all()
