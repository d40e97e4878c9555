"""Readers who wait until their session may have something for them."""

from __future__ import annotations

import asyncio


class Waiting:
    """Lives on one event loop."""

    def __init__(self) -> None:
        self._events: dict[str, asyncio.Event] = {}

    def event(self, session_id: str) -> asyncio.Event:
        """Set with the next `wake` of the session, and never cleared."""
        return self._events.setdefault(session_id, asyncio.Event())

    def wake(self, session_id: str) -> None:
        event = self._events.pop(session_id, None)
        if event:
            event.set()

    def wake_all(self) -> None:
        for session_id in list(self._events):
            self.wake(session_id)

    def session_ids(self) -> list[str]:
        """Of those that somebody waits in."""
        return list(self._events)
