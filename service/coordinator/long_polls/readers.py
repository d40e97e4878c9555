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
        self._digest_of: dict[str, bytes] = {}
        # By data set: nodes tell of a thousand many times a second, and each time all who wait were looked through.
        self._of_digest: dict[bytes, dict[str, None]] = {}
        self._due: dict[str, None] = {}  # in the order in which they were said to be

    def event(self, session_id: str, digest_id: bytes) -> asyncio.Event:
        """Set with the next `wake` of the session, and never cleared. `digest_id`: what it reads."""
        if (event := self._events.get(session_id)) is None:
            event = self._events[session_id] = asyncio.Event()
            self._digest_of[session_id] = digest_id
            self._of_digest.setdefault(digest_id, {})[session_id] = None
        return event

    def wake(self, session_id: str) -> None:
        if event := self._events.pop(session_id, None):
            digest_id = self._digest_of.pop(session_id)
            del self._of_digest[digest_id][session_id]
            if not self._of_digest[digest_id]:
                del self._of_digest[digest_id]
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

    def session_ids(self, digest_id: bytes) -> list[str]:
        """Of those over a data set that somebody waits in."""
        return list(self._of_digest.get(digest_id, ()))

    def _wake_some(self) -> None:
        woken = 0
        while self._due and woken < WOKEN_AT_ONCE:
            session_id = next(iter(self._due))
            del self._due[session_id]
            woken += session_id in self._events
            self.wake(session_id)
        if self._due:
            asyncio.get_running_loop().call_soon(self._wake_some)
