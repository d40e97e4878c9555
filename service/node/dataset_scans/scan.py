"""First use of a data set: its files are cut and hashed, and the shards kept at their owners on the way."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import itertools
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor

from tfquiver import errors, stores
from tfquiver.digests.digest import Digest
from tfquiver.digests.file_entry import FileEntry
from tfquiver.listing.listing_terms import ListingTerms
from tfquiver.scanning import streams
from tfquiver.scanning.file_cut import cut_file, settled
from tfquiver.scanning.file_scan import ScannedFile, scanned_of
from tfquiver.scanning.scan_journal import to_rows
from tfquiver.service.node.dataset_scans.fair_queue import FairQueue
from tfquiver.service.node.dataset_scans.file_tables import FileTables, in_parts
from tfquiver.service.node.reading_the_object_store.damaged import Damaged
from tfquiver.service.node.reading_the_object_store.metered_store import Meter, MeteredStore
from tfquiver.service.node.sealed_memory_of_checked_shards.verified import VerifiedShard
from tfquiver.stores import ObjectStore
from tfquiver.stores.attempts import Attempts, on_retry
from tfquiver.stores.hanging_file_systems import patience

ScanReport = Callable[[int, int, str], None]  # stored bytes read or known, records, what is being tried again
StoreFor = Callable[[str], ObjectStore]
_SMALL_BYTES = 256 << 10  # what it costs to read a smaller file is waiting: for the store, and for the disk
_SMALL_AT_ONCE = 16
_MOST_TOGETHER = 128  # small files, on one way from the loop to the threads: what a kill costs, of each of these
_BATCHES = 256  # at least so many ways, that all threads have enough
_LOOK_S = 1.0  # how soon a scan that is over is seen by whoever waits for another one
_DAMAGED_S = 10.0  # a record whose CRC is wrong may have been damaged on the way: read again for so long


class Scanner:
    """Several files at a time, more of small ones, in threads of its own; about a shard and two chunks of memory each.

    Scans take turns, file by file. A file whose table is known is not read: a scan that failed or was killed goes on
    with the files that it had not finished, and a listing of known files needs no reading at all.

    Args:
      place: keeps a shard at its owner; called in threads.
    """

    def __init__(
        self,
        meter: Meter,
        place: Callable[[VerifiedShard], object],
        tables: FileTables | None = None,
        *,
        parallel_files: int = 4,
        read_deadline_s: float = streams.READ_DEADLINE_S,
    ) -> None:
        self._meter, self._place, self._tables = meter, place, tables
        self._read_deadline_s = read_deadline_s
        self._queue = FairQueue(parallel_files, "scan")
        self._small = ThreadPoolExecutor(_SMALL_AT_ONCE, "scan-small")
        self._again = Attempts()
        self._cutting: dict[bytes, _Cutting] = {}  # files being cut now: who wants the same one waits for it
        self._cutting_lock = threading.Lock()

    async def scan(
        self,
        name: str,
        files: Sequence[FileEntry],
        terms: ListingTerms,
        progress: ScanReport,
        store_for: StoreFor = stores.for_uri,
    ) -> Digest:
        """The digest of `files`. Cancelling it, or the first file that fails, stops all of them.

        Raises:
          DataLossError: a damaged record; names file and offset.
          StaleDigestError, NotFoundError, PermissionError_, UnauthenticatedError, UnavailableError: from the store.
        """
        scanned: list[ScannedFile | None] = [None] * len(files)
        await self.scan_files(files, range(len(files)), terms, progress, store_for, scanned.__setitem__)
        return await assembled(name, scanned, terms)

    async def scan_files(
        self,
        files: Sequence[FileEntry],
        numbers: Iterable[int],
        terms: ListingTerms,
        progress: ScanReport,
        store_for: StoreFor,
        found: Callable[[int, ScannedFile], object],
    ) -> None:
        """Those of `files`, asked for one by one as threads come free; `found` is told each, in a thread, before
        `progress` hears the last of it. Ends and raises as `scan`."""
        state = _State(asyncio.get_running_loop(), progress)

        def cut(some: list[int]) -> None:
            self._scan_some([(number, files[number]) for number in some], terms, store_for, state, found)

        def calls() -> Iterator[Callable[[], object]]:
            for some in _together(files, numbers):
                yield functools.partial(cut, some)

        try:
            await self._queue.run(state, calls())
        finally:
            state.stop.set()

    def known(self, files: Sequence[FileEntry], terms: ListingTerms) -> list[ScannedFile | None]:
        """Those that need no reading. Blocks."""
        return self._tables.get_all(files, terms) if self._tables is not None else [None] * len(files)

    def learn(self, file: FileEntry, terms: ListingTerms, scanned: ScannedFile) -> None:
        """Another node has scanned it. Blocks."""
        if self._tables is not None:
            self._tables.put(file, terms, scanned)

    def remember(self, before: Digest, files: Sequence[FileEntry], terms: ListingTerms) -> None:
        """What a digest says of those of its files that are as they are in `files` still. Blocks."""
        if self._tables is None:
            return
        now = {(file.uri, file.size_bytes, file.generation): file for file in files if file.generation}
        same = [
            (index, listed)
            for index, file in enumerate(before.files)
            if (listed := now.get((file.uri, file.size_bytes, file.generation))) is not None
        ]
        for some in in_parts(same):
            known = self._tables.get_all([listed for _, listed in some], terms)
            self._tables.put_all(
                [
                    (listed, scanned_of(before, index))
                    for (index, listed), one in zip(some, known, strict=True)
                    if one is None
                ],
                terms,
            )

    async def close(self) -> None:
        """After the scans have been cancelled: waits for their threads."""
        self._again.stop()
        await self._queue.close()
        await asyncio.to_thread(self._small.shutdown, True, cancel_futures=True)
        if self._tables is not None:
            await asyncio.to_thread(self._tables.close)

    def _scan_some(
        self,
        some: Sequence[tuple[int, FileEntry]],
        terms: ListingTerms,
        store_for: StoreFor,
        state: _State,
        found: Callable[[int, ScannedFile], object],
    ) -> None:
        """What of them another scan cuts just now is waited for, after those that this one cuts."""
        left = list(some)
        while left:
            state.go_on()
            own: list[_Cutting] = []
            others: list[tuple[int, FileEntry, _Cutting]] = []
            with self._cutting_lock:
                for number, file in left:
                    key = terms.key([file])
                    cutting = self._cutting.get(key)
                    if cutting is None:
                        cutting = self._cutting[key] = _Cutting(key, number, file)
                        own.append(cutting)
                    else:
                        others.append((number, file, cutting))
            try:
                self._scan_own(own, terms, store_for, state, found)
            finally:
                with self._cutting_lock:
                    for cutting in own:
                        del self._cutting[cutting.key]
                        cutting.over.set()
            left = []
            for number, file, cutting in others:
                while not cutting.over.wait(_LOOK_S):
                    state.go_on()
                # Without a generation nobody can say that it is what this scan has listed.
                if cutting.scanned is None or not file.generation:
                    left.append((number, file))
                else:
                    state.add(file.size_bytes, _records(cutting.scanned))
                    found(number, cutting.scanned)

    def _scan_own(
        self,
        own: Sequence[_Cutting],
        terms: ListingTerms,
        store_for: StoreFor,
        state: _State,
        found: Callable[[int, ScannedFile], object],
    ) -> None:
        """Each table is durable before anybody is told of it; those of many small files in one go."""
        unknown: list[_Cutting] = []
        for cutting, known in zip(own, self.known([cutting.file for cutting in own], terms), strict=True):
            if known is None:
                unknown.append(cutting)
                continue
            cutting.scanned = known
            state.add(cutting.file.size_bytes, _records(known))
            found(cutting.number, known)

        def cut(some: Sequence[_Cutting]) -> None:
            on_retry.set(state.tell)
            with patience.one_thread() if len(some) > 1 else contextlib.nullcontext():
                for one in some:
                    state.go_on()  # several together are begun as one
                    one.cut = self._cut(one.file, terms, store_for(one.file.uri), state)

        try:
            if len(unknown) > 1:
                each = -(-len(unknown) // _SMALL_AT_ONCE)
                for _ in self._small.map(cut, [unknown[at : at + each] for at in range(0, len(unknown), each)]):
                    pass
            else:
                cut(unknown)
        finally:
            cut_now = [(one, one.cut) for one in unknown if one.cut is not None]
            if self._tables is not None:
                self._tables.put_all([(one.file, scanned) for one, scanned in cut_now], terms)
            for one, scanned in cut_now:
                one.scanned = scanned
        for one, scanned in cut_now:
            found(one.number, scanned)

    def _cut(self, file: FileEntry, terms: ListingTerms, inner: ObjectStore, state: _State) -> ScannedFile:
        store = MeteredStore(inner, self._meter, lambda size_bytes: state.add(size_bytes, 0))
        entry = settled(file, store, terms.policy, self._read_deadline_s)
        rows: list[tuple[bytes, int, int, int]] = []

        def attempt(_: float) -> None:
            done_bytes = rows[-1][1] + rows[-1][2] if rows else 0
            start = done_bytes if entry.compression == "none" else 0
            try:
                for shard in cut_file(entry, store, terms.policy, start=start, deadline_s=self._read_deadline_s):
                    if shard.offset < done_bytes:  # of a compressed file, which is read from its start again
                        continue
                    self._place(VerifiedShard.from_cut(shard))
                    rows.append((shard.hash, shard.offset, shard.length_bytes, shard.records))
                    state.add(0, shard.records)
            except errors.DataLossError as error:
                raise Damaged(str(error)) from error

        patience_s = _DAMAGED_S if store.remote else 0.0
        while True:
            before = len(rows)
            try:
                self._again.run(file.uri, patience_s, attempt)
                return ScannedFile(entry, to_rows(rows))
            except errors.UnavailableError as error:
                damaged = error.__cause__
                if not isinstance(damaged, Damaged):
                    raise
                if len(rows) == before or not store.remote:
                    assert damaged.__cause__ is not None
                    raise damaged.__cause__ from error


def _together(files: Sequence[FileEntry], numbers: Iterable[int]) -> Iterator[list[int]]:
    """The numbers, in order; small files several together, where there are so many that all threads have enough."""
    most = min(_MOST_TOGETHER, len(files) // _BATCHES)
    left = iter(numbers)
    while some := list(itertools.islice(left, 1)):
        while len(some) < most and files[some[-1]].size_bytes < _SMALL_BYTES and (more := next(left, None)) is not None:
            some.append(more)
        yield some


async def assembled(name: str, scanned: Sequence[ScannedFile | None], terms: ListingTerms) -> Digest:
    from tfquiver.scanning import digest_build  # not for nodes that have nothing to scan

    def assemble() -> Digest:
        done = [file for file in scanned if file is not None]
        return digest_build.assemble(name, done, terms.policy.format)

    return await asyncio.to_thread(assemble)


class _Cutting:
    """A file that a scan has in hand."""

    def __init__(self, key: bytes, number: int, file: FileEntry) -> None:
        self.key, self.number, self.file = key, number, file
        self.cut: ScannedFile | None = None
        self.over = threading.Event()
        self.scanned: ScannedFile | None = None  # once it is over; None then: it failed


def _records(scanned: ScannedFile) -> int:
    return int(scanned.rows["records"].sum(dtype="u8"))


class _State:
    """What the threads of one scan share."""

    def __init__(self, loop: asyncio.AbstractEventLoop, progress: ScanReport) -> None:
        self.stop = threading.Event()
        self._loop, self._progress = loop, progress
        self._bytes = self._records = 0
        self._lock = threading.Lock()
        self._trouble: str | None = None  # newer than what the loop has been told of; None: it has been told of all

    def add(self, size_bytes: int, records: int) -> None:
        """Called in the threads, now and then: raises when the scan is over."""
        self.go_on()
        self._note(size_bytes, records, "")

    def go_on(self) -> None:
        """Raises CancelledError_ when the scan is over."""
        if self.stop.is_set():
            raise errors.CancelledError_("the scan was stopped")

    def tell(self, trouble: str) -> None:
        """The store is being asked again."""
        if not self.stop.is_set():
            self._note(0, 0, trouble)

    def _note(self, size_bytes: int, records: int, trouble: str) -> None:
        """The loop is woken once for all that comes until it looks: small files come by the thousand a second."""
        with self._lock:
            self._bytes += size_bytes
            self._records += records
            is_told, self._trouble = self._trouble is not None, trouble
        if not is_told:
            self._loop.call_soon_threadsafe(self._report)

    def _report(self) -> None:
        with self._lock:
            size_bytes, records, trouble, self._trouble = self._bytes, self._records, self._trouble, None
        if not self.stop.is_set():
            self._progress(size_bytes, records, trouble or "")
