"""Writes down now and then what a node has counted, on top of what those before it had."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

from absl import logging

from tfquiver.log_files_and_lines.rare_lines import every_n_seconds
from tfquiver.service.node.counters import totals_file
from tfquiver.service.node.counters.totals_file import Totals
from tfquiver.service.node.hanging_disk.disk_threads import OnDisk

_EVERY_S = 60.0
_SAY_EVERY_S = 600


class KeptTotals:
    """Lives on one loop. `start` it, `close` it once nothing counts any more.

    Args:
      counted: what this node has counted since it started.
      on_disk: runs what waits for the disk.
    """

    def __init__(self, directory: Path, counted: Callable[[], Totals], on_disk: OnDisk = asyncio.to_thread) -> None:
        self._directory, self._counted, self._on_disk = directory, counted, on_disk
        self._before = self._written = Totals()
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        self._before = self._written = await asyncio.to_thread(totals_file.read, self._directory)
        self._task = asyncio.create_task(self._write_on(), name="totals")

    def now(self) -> Totals:
        return self._before.plus(self._counted())

    async def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])
            await self._write()

    async def _write_on(self) -> None:
        while True:
            await asyncio.sleep(_EVERY_S)
            await self._write()

    async def _write(self) -> None:
        if (now := self.now()) == self._written:
            return
        try:
            await self._on_disk(totals_file.write, self._directory, now)
            self._written = now
        except OSError as error:
            every_n_seconds(
                logging.WARNING, "%s: %s", _SAY_EVERY_S, self._directory / totals_file.TOTALS_FILE, error.strerror
            )
