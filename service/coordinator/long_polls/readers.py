"""Readers who wait until their session may have something for them."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

# A lease costs most of a millisecond where a thousand jobs read thousands of chunks, and a call passes through the loop
# about ten times: each time it waits for so many of them.
WOKEN_AT_ONCE = 2


class Waiting:
    """Lives on one event loop."""

    def __init__(self) -> None:
        self._events: dict[str, asyncio.Event] = {}
        self._due: dict[str, None] = {}  # in the order in which they were said to be

    def event(self, session_id: str) -> asyncio.Event:
        """Set with the next `wake` of the session, and never cleared."""
        return self._events.setdefault(session_id, asyncio.Event())

    def wake(self, session_id: str) -> None:
        event = self._events.pop(session_id, None)
        if event:
            event.set()

    def wake_soon(self, session_ids: Iterable[str]) -> None:
        """A few in each turn of the loop, so that nobody else waits for all of them."""
        idle = not self._due
        self._due.update(dict.fromkeys(session_ids))
        if idle and self._due:
            asyncio.get_running_loop().call_soon(self._wake_some)

    def wake_all(self) -> None:
        for session_id in list(self._events):
            self.wake(session_id)

    def session_ids(self) -> list[str]:
        """Of those that somebody waits in."""
        return list(self._events)

    def _wake_some(self) -> None:
        woken = 0
        while self._due and woken < WOKEN_AT_ONCE:
            session_id = next(iter(self._due))
            del self._due[session_id]
            woken += session_id in self._events
            self.wake(session_id)
        if self._due:
            asyncio.get_running_loop().call_soon(self._wake_some)
