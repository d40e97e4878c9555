"""Whether a cluster is as it was, for those who watch it: while it is, they need not ask for all of it again."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Hashable


class Changes:
    """Lives on one event loop. `state` is asked for when somebody calls and, while somebody waits, with each `look`:
    once for all who do. What it gives is equal for as long as nothing has changed."""

    def __init__(self, state: Callable[[], Hashable], first_version: int) -> None:
        """`first_version`: so that versions of this process are never taken for those of the one before."""
        self._state, self._version = state, first_version
        self._seen: Hashable = None
        self._waiting: asyncio.Future[None] | None = None
        self._waiters = 0
        self._released = False

    async def newer(self, version: int, wait_s: float) -> int:
        """The version of now, as soon as it is not `version`, or after `wait_s`."""
        self._compare()
        if version != self._version or self._released:  # a coordinator that goes is a change, too
            return self._version
        if self._waiting is None:
            self._waiting = asyncio.get_running_loop().create_future()
        self._waiters += 1
        try:
            await asyncio.wait([self._waiting], timeout=wait_s)
        finally:
            self._waiters -= 1
        return self._version

    def look(self) -> None:
        """Who waits is told when something has changed."""
        if self._waiters:
            self._compare()

    def release_waiters(self) -> None:
        """Calls that wait return at once, from now on."""
        self._released = True
        self._version += 1
        self._tell()

    def _compare(self) -> None:
        if (state := self._state()) != self._seen:
            self._seen, self._version = state, self._version + 1
            self._tell()

    def _tell(self) -> None:
        told, self._waiting = self._waiting, None
        if told is not None:
            told.set_result(None)
