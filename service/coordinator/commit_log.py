"""Group commit: many callers' records become durable with one sync."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from absl import logging

from tfquiver import errors
from tfquiver.proto.tfquiver.v1.commit_log_pb2 import CommitRecord
from tfquiver.service.coordinator.log_file import LogFile, framed

COMPACT_BYTES = 64 << 20


class CommitLog:
    """Lives on one event loop. What cannot be written stays pending and is tried again by the next caller."""

    def __init__(self, path: Path, snapshot: Callable[[], Iterable[CommitRecord]], compact_bytes: int = COMPACT_BYTES):
        """`snapshot()`: records that stand for everything appended so far; asked for when the log has grown."""
        self._file = LogFile(path)
        self._snapshot = snapshot
        self._compact_bytes = compact_bytes
        self._snapshot_bytes = 0
        self._pending: list[bytes] = []
        self._appended = 0
        self._durable = 0
        self._flush: asyncio.Task[errors.TfquiverError | None] | None = None
        self._thread = ThreadPoolExecutor(1, "commit-log")

    def restored(self) -> list[CommitRecord]:
        """The records found at the start; once."""
        records, self._file.records = self._file.records, []
        return records

    def append(self, record: CommitRecord) -> None:
        """In the order of calls; durable when a `synced` that begins later returns."""
        self._pending.append(framed(record))
        self._appended += 1

    async def synced(self) -> None:
        """Returns when everything appended so far is durable. Raises ResourceExhaustedError, UnavailableError."""
        target = self._appended
        while self._durable < target:
            if self._flush is None:
                self._flush = asyncio.get_running_loop().create_task(self._flush_pending())
            failure = await asyncio.shield(self._flush)
            if failure:
                raise failure

    async def writable(self) -> None:
        """Raises as `synced` while what failed earlier cannot be written: call before a decision, to refuse it."""
        if self._durable < self._appended and self._flush is None:
            await self.synced()

    async def compact(self) -> None:
        """Replaces the log by a snapshot, if there is room for one."""
        await self.synced()
        await asyncio.get_running_loop().run_in_executor(self._thread, self._try_replace, self._framed_snapshot())

    async def close(self) -> None:
        """Writes what is pending, if it can."""
        try:
            await self.synced()
        except errors.TfquiverError as error:
            logging.error("commit log: %d records are lost: %s", self._appended - self._durable, error)
        self._thread.shutdown()
        self._file.close()

    async def _flush_pending(self) -> errors.TfquiverError | None:
        count, target = len(self._pending), self._appended
        grown = self._file.size_bytes > max(self._compact_bytes, 4 * self._snapshot_bytes)
        snapshot = self._framed_snapshot() if grown else None
        write = asyncio.get_running_loop().run_in_executor(self._thread, self._write, b"".join(self._pending), snapshot)
        try:
            await write
        except errors.TfquiverError as error:
            return error
        finally:
            self._flush = None
        del self._pending[:count]
        self._durable = target
        return None

    def _framed_snapshot(self) -> list[bytes]:
        return [framed(record) for record in self._snapshot()]

    def _write(self, data: bytes, snapshot: list[bytes] | None) -> None:
        self._file.append(data)  # first: what is durable must not depend on a new file
        if snapshot is not None:
            self._try_replace(snapshot)

    def _try_replace(self, snapshot: list[bytes]) -> None:
        try:
            self._replace(snapshot)
        except errors.TfquiverError as error:
            logging.warning("commit log: not compacted, goes on growing: %s", error)

    def _replace(self, records: list[bytes]) -> None:
        self._file.replace(records)
        self._snapshot_bytes = self._file.size_bytes
