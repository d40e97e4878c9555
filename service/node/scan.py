"""First use of a data set: its files are cut and hashed, and the shards kept at their owners on the way."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

from tfquiver import digest_build, errors, stores, streams
from tfquiver.cutting import CutPolicy
from tfquiver.digest import Digest
from tfquiver.file_cut import cut_file
from tfquiver.file_entry import FileEntry
from tfquiver.file_scan import ScannedFile
from tfquiver.scan_journal import to_rows
from tfquiver.service.node.metered_store import Meter, MeteredStore
from tfquiver.service.node.store.verified import VerifiedShard
from tfquiver.stores import ObjectStore

Progress = Callable[[int, int], None]  # stored bytes read, records seen


class Scanner:
    """Several files at a time, in threads of its own; about a shard and two chunks of memory each.

    A scan that is killed and begun again reads the files again, but does not write shards again that are kept already.

    Args:
      place: keeps a shard at its owner; called in threads.
    """

    def __init__(
        self,
        meter: Meter,
        place: Callable[[VerifiedShard], object],
        *,
        parallel_files: int = 4,
        read_deadline_s: float = streams.READ_DEADLINE_S,
        store_for: Callable[[str], ObjectStore] = stores.for_uri,
    ) -> None:
        self._meter, self._place = meter, place
        self._read_deadline_s = read_deadline_s
        self._store_for = store_for
        self._pool = ThreadPoolExecutor(parallel_files, "scan")

    async def scan(self, name: str, files: Sequence[FileEntry], policy: CutPolicy, progress: Progress) -> Digest:
        """The digest of `files`. Cancelling it, or the first file that fails, stops all of them.

        Raises:
          DataLossError: a damaged record; names file and offset.
          StaleDigestError, NotFoundError, PermissionError_, UnavailableError: from the store.
        """
        state = _State(asyncio.get_running_loop(), progress)
        loop = asyncio.get_running_loop()
        work = [loop.run_in_executor(self._pool, self._scan_file, file, policy, state) for file in files]
        try:
            scanned = await asyncio.gather(*work)
        finally:
            state.stop.set()
            for future in work:
                future.cancel()
        return await loop.run_in_executor(self._pool, digest_build.assemble, name, scanned)

    async def close(self) -> None:
        """After the scans have been cancelled: waits for their threads."""
        await asyncio.to_thread(self._pool.shutdown, True, cancel_futures=True)

    def _scan_file(self, file: FileEntry, policy: CutPolicy, state: _State) -> ScannedFile:
        store = MeteredStore(self._store_for(file.uri), self._meter, lambda size_bytes: state.add(size_bytes, 0))
        file = streams.resolve(file, store, self._read_deadline_s)
        rows = []
        for shard in cut_file(file, store, policy, deadline_s=self._read_deadline_s):
            self._place(VerifiedShard.from_cut(shard))
            rows.append((shard.hash, shard.offset, shard.length_bytes, shard.records))
            state.add(0, shard.records)
        return ScannedFile(file, to_rows(rows))


class _State:
    """What the threads of one scan share."""

    def __init__(self, loop: asyncio.AbstractEventLoop, progress: Progress) -> None:
        self.stop = threading.Event()
        self._loop, self._progress = loop, progress
        self._bytes = self._records = 0

    def add(self, size_bytes: int, records: int) -> None:
        """Called in the threads, now and then: raises when the scan is over."""
        if self.stop.is_set():
            raise errors.CancelledError_("the scan was stopped")
        self._loop.call_soon_threadsafe(self._count, size_bytes, records)

    def _count(self, size_bytes: int, records: int) -> None:
        self._bytes += size_bytes
        self._records += records
        if not self.stop.is_set():
            self._progress(self._bytes, self._records)
