"""Asks the cluster every two seconds while somebody looks, and tells all who do."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncGenerator, Callable
from typing import Any

from absl import logging

from tfquiver import errors, plain_text
from tfquiver.cli.dashboard.shown import shown
from tfquiver.service.common_to_servers import fair_places

EVERY_S = 2.0
MOST_LOOKERS = 64

REPEATED_EVERY_S = 6.0  # to who looks; a page takes a silence of 15 s for a dashboard that is gone

Ask = Callable[[], dict[str, Any] | None]  # what `tfquiver status` collects; None: it is what it was


class Feed:
    """Lives on one loop. `ask` is called in a thread, one call at a time."""

    def __init__(self, ask: Ask) -> None:
        self._ask = ask
        self._latest, self._number = "", 0
        self._news = asyncio.Condition()
        self._lookers: dict[object, str] = {}  # by a token of each, who it is; who came last is last
        self._task: asyncio.Task[None] | None = None
        self._told_at = float("-inf")
        self._cluster = ""  # as it was told last, a JSON object but for its end

    async def follow(self, comer: str = "") -> AsyncGenerator[str, None]:
        """JSON objects, the newest there is whenever there is a newer one. `comer`: who looks (`fair_places.caller`).

        Raises ResourceExhaustedError, also later: one of those who have the most pages makes room for others.
        """
        if len(self._lookers) >= MOST_LOOKERS:
            if (leaving := fair_places.to_leave(self._lookers, comer)) is None:
                raise errors.ResourceExhaustedError(f"{MOST_LOOKERS} pages look at this dashboard already")
            del self._lookers[leaving]
        place = object()
        self._lookers[place] = comer
        seen = 0
        if self._task is None:
            seen = self._number  # what was told to those before may be of yesterday
            self._task = asyncio.get_running_loop().create_task(self._run())
        try:
            while True:
                async with self._news:
                    while self._number == seen:
                        await self._news.wait()
                    latest, seen = self._latest, self._number
                if place not in self._lookers:
                    raise errors.ResourceExhaustedError(
                        f"{MOST_LOOKERS} pages look at this dashboard, and more of yours than of others"
                    )
                yield latest
        finally:
            self._lookers.pop(place, None)

    async def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _run(self) -> None:
        self._told_at = float("-inf")
        while self._lookers:
            began_s = time.monotonic()
            if told := await asyncio.to_thread(self._told):
                self._told_at = began_s
                async with self._news:
                    self._latest, self._number = told, self._number + 1
                    self._news.notify_all()
            await asyncio.sleep(max(EVERY_S - (time.monotonic() - began_s), EVERY_S / 4))
        self._task = None

    def _told(self) -> str:
        """Empty: there is nothing that would have to be told."""
        now = time.monotonic()
        try:
            status = self._ask()
            if status is None:
                return self._now() if now >= self._told_at + REPEATED_EVERY_S else ""
            self._cluster = json.dumps(shown(status)).removesuffix("}")
            return self._now()
        except errors.TfquiverError as error:
            return trouble(error)
        except Exception as error:  # noqa: BLE001 - the thread's boundary: the next question may do
            logging.exception("what a status says could not be shown")
            return json.dumps({"error": f"tfquiver dashboard: {plain_text.of_error(error)}", "now_s": time.time()})

    def _now(self) -> str:
        return f'{self._cluster}, "now_s": {time.time()}}}'


def trouble(error: errors.TfquiverError) -> str:
    """In place of what there is to see."""
    return json.dumps({"error": plain_text.of_error(error), "now_s": time.time()})
