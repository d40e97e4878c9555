"""Digests that the disk has refused, or does not answer for: they are kept when it takes something again. Until then a
kill would leave this node without what it finds by which of its shards go when their data set is removed."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from absl import logging

from tfquiver.service.common_to_servers.repeated import OwnTask

PAUSE_S = 15.0
_LONGER = 20  # times as long at last: each try may cost entries that make way


class KeptLater:
    """Lives on one loop. `start` it, `close` it.

    Args:
      keep: keeps the digest with that id, if it is still to be kept; False: not now, nor any other.
    """

    def __init__(self, keep: Callable[[bytes], Awaitable[bool]], pause_s: float = PAUSE_S) -> None:
        self._keep, self._pause_s = keep, pause_s
        self.digest_ids = dict[bytes, None]()  # in the order in which they were refused
        self._news = asyncio.Event()
        self._own_task = OwnTask(self._run)

    def start(self) -> None:
        self._own_task.start()

    async def close(self) -> None:
        await self._own_task.close()

    def refused(self, digest_id: bytes) -> None:
        self.digest_ids[digest_id] = None
        self._news.set()

    def over(self, digest_id: bytes) -> None:
        """It is kept, or not wanted any more."""
        self.digest_ids.pop(digest_id, None)

    async def _run(self) -> None:
        pause_s = self._pause_s
        while True:
            await self._news.wait()
            self._news.clear()
            await asyncio.sleep(pause_s)
            pause_s = min(2 * pause_s, _LONGER * self._pause_s)
            try:
                for digest_id in list(self.digest_ids):
                    if not await self._keep(digest_id):
                        break
                    self.over(digest_id)
            except Exception:  # noqa: BLE001 - whatever it was: without this task none of them would be kept
                logging.exception("digests that are to be kept")
            if self.digest_ids:
                self._news.set()
            else:
                pause_s = self._pause_s
