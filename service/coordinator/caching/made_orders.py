"""The orders and units that sessions have asked for, made once for those that ask for the same."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TypeVar, cast

from absl import logging

T = TypeVar("T")
MADE_AT_ONCE = 20_000  # shards: what a session of fewer needs is made on the loop, in a few ms
_MADE_KEPT = 8  # orders and units that sessions to come may share
Key = tuple[bytes, str, int, int]  # the data set's digest id first


class MadeOrders:
    def __init__(self, wake: Callable[[bytes], None]) -> None:
        """`wake`: told of a data set of which something has been made."""
        self._wake = wake
        self._made: dict[Key, object] = {}  # oldest first
        self._making: dict[Key, asyncio.Task[None]] = {}

    def get(self, key: Key, shards: int, make: Callable[[], T]) -> T | None:
        """What a session of a data set of so many shards needs for an order of its own. None: a thread is making it;
        its readers are woken then."""
        found = self._made.get(key)
        if found is None and shards <= MADE_AT_ONCE:
            found = self._keep(key, make())
        if found is None and key not in self._making:

            async def making() -> None:
                try:
                    self._keep(key, await asyncio.to_thread(make))
                except Exception:  # noqa: BLE001 - whatever it was: it is tried again when a reader asks again
                    logging.exception("the order of data set %s could not be made", key[0].hex()[:8])
                finally:
                    del self._making[key]
                self._wake(key[0])

            self._making[key] = asyncio.get_running_loop().create_task(making())
        return cast(T | None, found)

    def stop(self) -> None:
        for task in self._making.values():
            task.cancel()

    def _keep(self, key: Key, made: T) -> T:
        self._made[key] = made
        while len(self._made) > _MADE_KEPT:
            del self._made[next(iter(self._made))]
        return made
