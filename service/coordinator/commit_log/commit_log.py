"""Group commit: many callers' records become durable with one sync; and compaction beside it.

A snapshot is written to a new file by a thread of its own while the log goes on: what is appended meanwhile goes to the
old file as ever, and once more behind the snapshot when the new file takes the old one's place.
"""

from __future__ import annotations

import asyncio
import gc
import math
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from absl import logging

from tfquiver import errors
from tfquiver.proto.tfquiver.v1.commit_log_pb2 import CommitRecord
from tfquiver.service.coordinator.commit_log.log_file import LogFile, NewLog, framed
from tfquiver.service.metrics.instruments import LOG_SYNC
from tfquiver.sizes_durations_amounts.amounts import many

COMPACT_BYTES = 64 << 20
# What nobody waits for is written with all that comes within so long of the last flush: where a thousand nodes come
# back, a millisecond after one another, each had a flush of its own.
SHARED_S = 0.05
HANGS_S = 10.0  # a disk that has not answered one write for so long is said to hang, as nodes say it of theirs
Snapshot = Iterable[Callable[[], Iterable[CommitRecord]]]


class CommitLog:
    """Lives on one event loop. What cannot be written stays pending and is tried again by the next caller."""

    def __init__(
        self,
        path: Path,
        snapshot: Callable[[], Snapshot],
        compact_bytes: int = COMPACT_BYTES,
        check: Callable[[], None] = lambda: None,
        is_trusted: Callable[[], bool] = lambda: True,
    ):
        """`snapshot()`: asked for on the loop when the log has grown; what it gives is called in a thread later, and
        gives records that stand together for everything appended before `snapshot()`. `check`: called in a thread
        before every write; raises TfquiverError when there must be none. `is_trusted`: it need not be called before a
        decision, or after a write."""
        self._path, self._file = path, LogFile(path)
        self._snapshot, self._check, self.is_trusted = snapshot, check, is_trusted
        self._compact_bytes = self._compact_at_bytes = compact_bytes
        self._pending: list[bytes] = []
        self._appended = 0
        self._durable = 0
        self._flush_to = 0  # nobody waits for it; where it fails it is left to who comes next
        self._flushed_at = -math.inf  # when the last flush began
        self._writes_since = math.inf  # while the thread does
        self._later: asyncio.TimerHandle | None = None  # one that is to begin
        self._flushing = self._failed = False  # a flush is under way, or about to begin; the last one failed
        # What each waits for: so many records durable, or why they are not; and for how long others may join it.
        self._waiters: list[tuple[int, float, asyncio.Future[errors.TfquiverError | None]]] = []
        self._compaction: asyncio.Task[None] | None = None
        self._tail: list[bytes] | None = None  # appended since the snapshot that is being written
        self._new: NewLog | None = None  # the snapshot, once it is written
        self._closing, self._trouble = False, ""
        self._thread = ThreadPoolExecutor(1, "commit-log")
        try:
            # Now: `submit` queues first and starts its thread then. Where that failed, what it has queued would be
            # written, and told of, beside what is flushed next.
            self._thread.submit(int).result()
        except RuntimeError as error:
            self._file.close()
            raise errors.UnavailableError(f"commit log: {error}") from error
        self._snapshot_thread = ThreadPoolExecutor(1, "commit-log-snapshot")

    def restored(self) -> list[CommitRecord]:
        """The records found at the start; once."""
        records, self._file.records = self._file.records, []
        return records

    @property
    def trouble(self) -> str:
        """Why it could not be written when that was last tried, or that its disk does not answer; empty: it could."""
        writes_s = asyncio.get_running_loop().time() - self._writes_since
        return f"{self._path}: the disk has not answered for {writes_s:.0f} s" if writes_s > HANGS_S else self._trouble

    @property
    def appended(self) -> int:
        """So many records, since this process began."""
        return self._appended

    def append(self, record: CommitRecord) -> None:
        """In the order of calls; durable when a `synced` that begins later returns."""
        data = framed(record)
        self._pending.append(data)
        self._appended += 1
        if self._tail is not None:
            self._tail.append(data)

    async def synced(self, within_s: float = 0.0) -> None:
        """Returns when everything appended so far is durable. `within_s`: for so long that need not begin, SHARED_S at
        most: it waits for others, whose sync it then shares.

        Raises UnavailableError, also where there is no room: callers try again, and go on when somebody has made some.
        """
        if self._durable < self._appended:
            await self._flushed(self._appended, min(within_s, SHARED_S))

    def flush(self) -> None:
        """Begins to make durable what was appended: at once, or, where the last flush began within SHARED_S, when that
        time is over, with all that has come by then. Nobody is told whether it could be."""
        self._flush_to = self._appended
        self._flush_within(self._flushed_at + SHARED_S - asyncio.get_running_loop().time())

    def _flush_within(self, wait_s: float) -> None:
        """Or whenever the one ends that is under way; or with what is written before."""
        if wait_s <= 0:
            self._flush_soon()
        elif not self._flushing:
            loop = asyncio.get_running_loop()
            if self._later is not None and self._later.when() > loop.time() + wait_s:
                self._end_later()
            self._later = self._later or loop.call_later(wait_s, self._flush_later)

    def _end_later(self) -> None:
        if self._later is not None:
            self._later.cancel()
            self._later = None

    def _flush_later(self) -> None:
        self._later = None
        if self._durable < self._flush_to or self._waiters:
            self._flush_soon()

    async def writable(self) -> None:
        """Raises as `synced` while it cannot be written, also where nothing is left to be: call before a decision, to
        refuse it."""
        if self._failed and not self._flushing:
            await self._flushed(self._appended)
        await self.trusted()

    async def trusted(self) -> None:
        """Raises as `synced` where it may not be this process's log any more: call before a decision that is not
        written."""
        while not self.is_trusted():
            await self._flushed(self._appended)

    def start_compaction(self) -> None:
        """Replaces the log by a snapshot, if there is room for one, while it goes on."""
        if self._compaction is None or self._compaction.done():
            self._compaction = asyncio.get_running_loop().create_task(self._compact())

    async def compact(self) -> None:
        """As `start_compaction`; returns when it is done, or has failed."""
        self.start_compaction()
        assert self._compaction
        await asyncio.shield(self._compaction)

    async def close(self) -> None:
        """Writes what is pending, if it can."""
        self._closing = True
        self._end_later()
        if self._compaction:
            await asyncio.wait([self._compaction])
        try:
            await self.synced()
        except errors.TfquiverError as error:
            lost = many(self._appended - self._durable, "record is", "records are")
            logging.error("commit log: %s lost: %s", lost, error)
        self._thread.shutdown()
        self._snapshot_thread.shutdown()
        self._file.close()

    async def _flushed(self, target: int = 0, within_s: float = 0.0) -> None:
        """Until so many records are durable; one flush at least, that is under way, or a new one. Raises as `synced`:
        a flush fails for all who wait."""
        waiter = asyncio.get_running_loop().create_future()
        self._waiters.append((target, within_s, waiter))
        self._flush_within(within_s)
        if failure := await waiter:
            raise failure

    def _flush_soon(self) -> None:
        """With all that comes in this turn of the loop."""
        if not self._flushing:
            self._flushing = True
            asyncio.get_running_loop().call_soon(self._flush)

    def _flush(self) -> None:
        """What is pending goes to the thread, which says itself when it is durable: a task that waited for it, and a
        shield of it for each caller, took the loop as long as a lease."""
        self._end_later()
        count, target = len(self._pending), self._appended
        self._flushed_at = self._writes_since = asyncio.get_running_loop().time()
        new, tail = self._new, b""
        if new and self._tail is not None:
            # The snapshot and this are all there is until now; what comes from here on is written behind it.
            tail = b"".join(self._tail)
            self._new = self._tail = None
        data, loop = b"".join(self._pending), asyncio.get_running_loop()

        def write() -> None:
            switched, failure = self._write(new, tail, data)
            loop.call_soon_threadsafe(self._written, switched, failure, count, target)

        try:
            self._thread.submit(write)
        except RuntimeError as error:  # it is closed
            self._written(False, errors.UnavailableError(f"commit log: {error}"), 0, 0)

    def _write(self, new: NewLog | None, tail: bytes, data: bytes) -> tuple[bool, errors.TfquiverError | None]:
        """In the thread: whether the new log is there now, with `data` in it; and why it is not durable, if so."""
        switched = False
        try:
            switched = self._switch(new, tail) if new else False
            with LOG_SYNC.time():
                self._append(b"" if switched else data)
        except errors.TfquiverError as error:
            return switched, error
        except Exception as error:  # noqa: BLE001 - nobody would be told: it is everybody's flush
            logging.exception("the commit log cannot be written")
            return switched, errors.UnavailableError(f"commit log: {type(error).__name__}: {error}")
        return switched, None

    def _written(self, switched: bool, failure: errors.TfquiverError | None, count: int, target: int) -> None:
        self._flushing, self._failed, self._writes_since = False, failure is not None, math.inf
        self._trouble = str(failure or "")
        told = failure and errors.UnavailableError(f"{failure}: what is asked for waits for that")
        if switched or failure is None:
            del self._pending[:count]
        if failure is None:
            self._durable = target
        waiters, self._waiters = self._waiters, []
        for of, within_s, waiter in waiters:
            if waiter.done():  # its caller has gone
                continue
            if failure is None and of > self._durable:
                self._waiters.append((of, within_s, waiter))
            else:
                waiter.set_result(told)
        if self._waiters:
            self._flush_within(min(within_s for _, within_s, _ in self._waiters))
        elif failure is None and self._durable < self._flush_to:
            self.flush()
        if failure is None and self._file.size_bytes > self._compact_at_bytes and not self._closing:
            self.start_compaction()

    def _append(self, data: bytes) -> None:
        self._check()
        self._file.append(data)
        if not self.is_trusted():  # where that took long another one may have read the log before
            self._check()

    def _switch(self, new: NewLog, tail: bytes) -> bool:
        try:
            self._check()
            self._file.switch(new, tail)
        except errors.TfquiverError as error:
            logging.warning("commit log: not compacted, goes on growing: %s", error)
            return False
        return True

    # Compaction.

    async def _compact(self) -> None:
        # Before the attempt: one that fails is not repeated with every flush.
        self._compact_at_bytes = self._file.size_bytes + self._compact_bytes
        try:
            snapshot = self._stills()
            self._tail = []
            self._new = await asyncio.get_running_loop().run_in_executor(
                self._snapshot_thread, self._file.prepare, self._framed(snapshot)
            )
            size_bytes = self._new.end
            while self._new:
                await self._flushed()
            if self._flushing:  # somebody else's, which may be about it
                await self._flushed()
            self._compact_at_bytes = max(self._compact_bytes, 4 * size_bytes)
        except errors.TfquiverError as error:
            logging.warning("commit log: not compacted, goes on growing: %s", error)
        except Exception:  # noqa: BLE001 - the log is whole without it
            logging.exception("commit log: not compacted, goes on growing")
        finally:
            self._tail = None
            if self._new:
                self._new.discard()
                self._new = None

    def _stills(self) -> list[Callable[[], Iterable[CommitRecord]]]:
        """On the loop. To look for garbage among so many new objects would take most of the time, and find none."""
        collects = gc.isenabled()
        gc.disable()
        try:
            return list(self._snapshot())
        finally:
            if collects:
                gc.enable()

    def _framed(self, snapshot: Snapshot) -> Iterator[bytes]:
        for records in snapshot:
            for record in records():
                if self._closing:
                    raise errors.UnavailableError("stopping")
                yield framed(record)
