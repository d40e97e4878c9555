"""Shards made ready of what this node has on the disk or in memory, in a bounded pool of threads."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from absl import logging

from tfquiver import errors
from tfquiver.digests.digest import ShardRef
from tfquiver.log_files_and_lines.rare_lines import every_n_seconds
from tfquiver.service.node.disk import codec, entry
from tfquiver.service.node.disk.disk_cache import DiskCache, OpenEntry
from tfquiver.service.node.hanging_disk.hanging import HANGS_S
from tfquiver.service.node.sealed_memory_of_checked_shards import ready_shard
from tfquiver.service.node.sealed_memory_of_checked_shards.hot import HotSet
from tfquiver.service.node.sealed_memory_of_checked_shards.ready_shard import ReadyShard
from tfquiver.service.node.sealed_memory_of_checked_shards.sealed_memory import NoMemoryError
from tfquiver.service.node.sealed_memory_of_checked_shards.verified import VerifiedShard

T = TypeVar("T")
_THREADS = 4
_SAID_EVERY_S = 30.0


class DiskReads:
    """`run` and `close` on one loop; the others block, and are what `run` runs.

    One that hangs is the disk's trouble (`DiskCache.hanging`), and is said.
    """

    def __init__(self, disk: DiskCache, hot: HotSet) -> None:
        self._disk, self._hot = disk, hot
        self._pool = ThreadPoolExecutor(_THREADS, "disk")
        self._since_s: dict[asyncio.Future[Any], float] = {}  # of calls that have not come back, oldest first
        self._looks: asyncio.TimerHandle | None = None

    @property
    def hang(self) -> bool:
        """No thread has come back for so long: whatever else is asked for would wait, too."""
        longest = list(itertools.islice(self._since_s.values(), _THREADS))
        return len(longest) == _THREADS and asyncio.get_running_loop().time() - longest[-1] > HANGS_S

    @property
    def oldest_s(self) -> float:
        """How long the call has lasted that has been under way for longest; 0: there is none."""
        since_s = next(iter(self._since_s.values()), None)
        return 0.0 if since_s is None else asyncio.get_running_loop().time() - since_s

    async def run(self, call: Callable[..., T], *arguments: object) -> T:
        """The outcome of a call in a thread; when nobody waits for it any more its descriptors are closed."""
        loop = asyncio.get_running_loop()
        running = loop.run_in_executor(self._pool, self._waits_for, call, *arguments)
        self._since_s[running] = loop.time()
        running.add_done_callback(self._since_s.pop)
        self._look_later(loop)
        try:
            return await asyncio.shield(running)
        except asyncio.CancelledError:
            running.add_done_callback(_close_outcome)
            raise

    async def close(self) -> None:
        if self._looks:
            self._looks.cancel()
        await asyncio.to_thread(self._pool.shutdown, True)

    def _waits_for(self, call: Callable[..., T], *arguments: object) -> T:
        with self._disk.hanging.waits():
            return call(*arguments)

    def _look_later(self, loop: asyncio.AbstractEventLoop) -> None:
        if self._looks is None:
            self._looks = loop.call_later(HANGS_S, self._look, loop)

    def _look(self, loop: asyncio.AbstractEventLoop) -> None:
        self._looks = None
        if not self._since_s:
            return
        if trouble := self._disk.hanging.trouble():
            every_n_seconds(logging.WARNING, "%s: readers of what is there wait for it", _SAID_EVERY_S, trouble)
        self._look_later(loop)

    def raw_entries(self, hashes: list[bytes]) -> dict[bytes, ReadyShard]:
        """Those that stand raw. Raises ResourceExhaustedError when not even one can be opened."""
        found: dict[bytes, ReadyShard] = {}
        try:
            for hash in hashes:
                opened = self._disk.open_entry(hash) if hash not in found else None
                if opened and opened.header.codec == entry.RAW:
                    found[hash] = _of_raw_entry(opened, "disk")
                elif opened:
                    opened.close()
        except errors.ResourceExhaustedError:
            if not found:
                raise
        return found

    def here(self, ref: ShardRef) -> ReadyShard | None:
        """None: it is not here, or damaged. Raises ResourceExhaustedError."""
        opened = self._disk.open_entry(ref.hash)
        if opened is None:
            return None
        header = opened.header
        if header.codec == entry.RAW:
            return _of_raw_entry(opened, "disk")
        try:
            raw = codec.decompress(opened.read_stored(), header.raw_length, f"entry {ref.hash.hex()}")
        except (errors.DataLossError, OSError) as error:
            self._disk.drop(ref.hash, str(error), opened.fd)
            return None
        finally:
            opened.close()
        return self.kept_hot(ref.hash, ReadyShard.from_bytes(raw, header.crc32c_raw, "disk"))

    def fetched(self, ref: ShardRef, shard: VerifiedShard, keep: bool) -> ReadyShard:
        """A shard that has come from the store: of the entry that it was made, where that is raw."""
        opened = self._disk.open_entry(ref.hash) if keep else None
        if opened and opened.header.codec == entry.RAW:
            return _of_raw_entry(opened, "store")
        if opened:
            opened.close()
        return self.kept_hot(ref.hash, ReadyShard.from_bytes(shard.raw, shard.crc32c, "store"))

    def kept_hot(self, hash: bytes, ready: ReadyShard) -> ReadyShard:
        """The same; the hot set has it from now on, if it is wanted."""
        if self._disk.wanted(hash):
            with contextlib.suppress(NoMemoryError):  # out of descriptors: this reader is served all the same
                self._hot.put(hash, ready)
        return ready

    @staticmethod
    def copied(ref: ShardRef, ready: ReadyShard) -> VerifiedShard:
        """What a reader could be given, as something that can be kept. Raises DataLossError."""
        pieces, at, end = [], ready.offset, ready.offset + ready.length_bytes
        while at < end and (piece := os.pread(ready.fd, end - at, at)):  # at most 2 GiB come at a time
            pieces.append(piece)
            at += len(piece)
        raw = b"".join(pieces)
        return VerifiedShard.check(ref.hash, raw, f"{ref.file.uri} at {ref.offset}")


def _of_raw_entry(opened: OpenEntry, source: str) -> ReadyShard:
    header = opened.header
    return ReadyShard(ready_shard.FILE, opened.fd, entry.HEADER_BYTES, header.raw_length, header.crc32c_raw, source)


def _close_outcome(running: asyncio.Future[Any]) -> None:
    if running.cancelled() or running.exception() is not None:
        return
    outcome = running.result()
    for opened in outcome.values() if isinstance(outcome, dict) else [outcome]:
        if isinstance(opened, ReadyShard | OpenEntry):
            opened.close()
