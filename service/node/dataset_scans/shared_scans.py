"""The scan of a large data set, by the node whose task it is: what others can do of it they are asked for.

Nothing of it is durable but the tables of files that are done, on each node (dataset_scans/file_tables.py): a scan that
is begun again, by this node or by another, asks for the same files of the same nodes, which have their tables.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import aclosing

from absl import logging

from tfquiver import errors
from tfquiver.digests.digest import Digest
from tfquiver.digests.file_entry import FileEntry
from tfquiver.listing.listing_terms import ListingTerms
from tfquiver.log_files_and_lines.logs import about
from tfquiver.log_files_and_lines.rare_lines import every_n_seconds
from tfquiver.proto.tfquiver.v1 import types_pb2
from tfquiver.scanning.file_scan import ScannedFile
from tfquiver.service.node.dataset_scans.asking import Asking
from tfquiver.service.node.dataset_scans.file_pool import FilePool
from tfquiver.service.node.dataset_scans.scan import Scanner, ScanReport, assembled
from tfquiver.sizes_durations_amounts.amounts import many
from tfquiver.stores import ObjectStore

MOST_OTHERS = 63
_CALLS = 2  # of each other node: so that it never waits for the next files
_CALL_SHARE = 32  # of a node's share of the data set, at least so many calls
_CALL_BYTES, _CALL_FILES = 512 << 20, 256
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 1.0, 60.0
_LOOK_S = 2.0  # between looks who is there
# Of the store, or of the moment, as in coordinator/named_dataset_lifecycle/progress.py: that node is asked again.
_OF_THE_MOMENT = (errors.UnavailableError, errors.DeadlineError, errors.ResourceExhaustedError, errors.CancelledError_)


class SharedScans:
    """
    Args:
      members: every live node.
      share_bytes: a node takes part in a scan for each so many bytes of it; 0: none is shared.
      patience_s: how long others are waited for at the end, and besides as long as this node itself would take.
    """

    def __init__(
        self,
        node_id: str,
        scanner: Scanner,
        asking: Asking,
        members: Callable[[], Sequence[types_pb2.NodeInfo]],
        share_bytes: int,
        patience_s: float = 30.0,
    ) -> None:
        self._node_id, self._scanner, self._asking = node_id, scanner, asking
        self._members, self._share_bytes, self._patience_s = members, share_bytes, patience_s

    async def scan(
        self,
        task_id: str,
        name: str,
        files: Sequence[FileEntry],
        terms: ListingTerms,
        progress: ScanReport,
        store_for: Callable[[str], ObjectStore],
    ) -> Digest:
        """As Scanner.scan."""
        known = await asyncio.to_thread(self._known, files, terms)
        if known is None:
            return await self._scanner.scan(name, files, terms, progress, store_for)
        most = self._most(known.left_bytes)

        def others() -> list[str]:
            """Who is asked; another few for each data set, the same ones when it is scanned again."""
            able = [node.node_id for node in self._members() if node.node_id != self._node_id and _is_able(node)]
            return sorted(able, key=lambda one: hashlib.sha256(f"{name}\0{one}".encode()).digest())[:most]

        pool = await asyncio.to_thread(FilePool, files, known.left, self._node_id, others())
        shared = _Shared(self._scanner, self._asking, self._members, task_id, files, terms, progress, known, pool)
        call_bytes = max(1, min(_CALL_BYTES, self._share_bytes // _CALL_SHARE))
        logging.info("data set %s: %s may scan it", name, many(most + 1, "node"), extra=about(dataset=name))
        await shared.run(self._node_id, others, store_for, call_bytes, self._patience_s)
        by = ", ".join(f"{count} by {node_id}" for node_id, count in sorted(shared.files_by.items()))
        logging.info("data set %s: files scanned: %s", name, by or "none", extra=about(dataset=name))
        return await assembled(name, known.scanned, terms)

    def _known(self, files: Sequence[FileEntry], terms: ListingTerms) -> _Known | None:
        """None: others have no share in it. For a thread: there may be a million files."""
        if not self._most(sum(file.size_bytes for file in files)):
            return None
        return _Known(files, self._scanner.known(files, terms))

    def _most(self, size_bytes: int) -> int:
        """How many others have a share in so much."""
        return max(0, min(MOST_OTHERS, size_bytes // self._share_bytes - 1)) if self._share_bytes else 0


def _is_able(node: types_pb2.NodeInfo) -> bool:
    return node.quota_bytes > 0 and bool(node.control_address) and not node.control_address.startswith("unix:")


class _Known:
    """What of the files needs no reading, and what is left. Takes a while for a million of them."""

    def __init__(self, files: Sequence[FileEntry], scanned: list[ScannedFile | None]) -> None:
        self.scanned = scanned
        self.left = [number for number, known in enumerate(scanned) if known is None]
        self.left_bytes = sum(files[number].size_bytes for number in self.left if files[number].generation)
        self.done_bytes = sum(file.size_bytes for file, known in zip(files, scanned, strict=True) if known is not None)
        self.done_records = sum(_records(known) for known in scanned if known is not None)


class _Shared:
    """One scan. On one loop."""

    def __init__(
        self,
        scanner: Scanner,
        asking: Asking,
        members: Callable[[], Sequence[types_pb2.NodeInfo]],
        task_id: str,
        files: Sequence[FileEntry],
        terms: ListingTerms,
        progress: ScanReport,
        known: _Known,
        pool: FilePool,
    ) -> None:
        self._scanner, self._asking, self._members, self._task_id = scanner, asking, members, task_id
        self._files, self._terms, self._progress = files, terms, progress
        self._scanned, self._pool = known.scanned, pool
        self._loop = asyncio.get_running_loop()
        self._news = asyncio.Event()
        self._began_s = self._loop.time()
        self._here_bytes = 0  # that this node has scanned
        self._done_bytes, self._done_records = known.done_bytes, known.done_records  # of files that are done
        self._open: dict[object, tuple[int, int]] = {}  # bytes and records of those that are under way
        self.files_by: Counter[str] = Counter()

    async def run(
        self,
        host: str,
        others: Callable[[], Sequence[str]],
        store_for: Callable[[str], ObjectStore],
        call_bytes: int,
        patience_s: float,
    ) -> None:
        """Raises as Scanner.scan: for a file that this node could not scan either."""
        asked = asyncio.create_task(self._ask_all(others, call_bytes))
        try:
            give_up_s = None
            while not self._pool.over:
                news = self._news
                if await self._here(host, store_for):
                    give_up_s = None
                    continue
                if give_up_s is None:
                    give_up_s = self._loop.time() + patience_s + self._own_s()
                try:
                    async with asyncio.timeout_at(give_up_s):
                        await news.wait()
                except TimeoutError:
                    logging.info("%d bytes that others are late with are scanned here", self._pool.in_hands_bytes())
                    await _cancel([asked])
        finally:
            await _cancel([asked])

    def _own_s(self) -> float:
        """How long it would take itself for what others have in hand: who waits no longer loses half of the time at
        most."""
        passed_s = self._loop.time() - self._began_s
        return self._pool.in_hands_bytes() * passed_s / self._here_bytes if self._here_bytes else 0.0

    def _bump(self) -> None:
        """There is more to take, or it is over: who waits for `_news` as it was looks again."""
        self._news.set()
        self._news = asyncio.Event()

    # This node's part.

    async def _here(self, host: str, store_for: Callable[[str], ObjectStore]) -> bool:
        """Scans what nobody else has in hand; whether there was any."""
        taken = 0
        over_bytes = over_records = 0

        def numbers() -> Iterator[int]:
            nonlocal taken
            while some := self._pool.take(host, 1, 1):
                taken += 1
                yield from some

        def report(done_bytes: int, records: int, trouble: str) -> None:
            self._under_way(host, done_bytes - over_bytes, records - over_records, trouble)

        def found(number: int, file: ScannedFile) -> None:
            self._loop.call_soon_threadsafe(finish, number, file)

        def finish(number: int, file: ScannedFile) -> None:
            nonlocal over_bytes, over_records
            over_bytes += self._files[number].size_bytes
            over_records += _records(file)
            self._here_bytes += self._files[number].size_bytes
            self._finished(number, file, host)

        try:
            await self._scanner.scan_files(self._files, numbers(), self._terms, report, store_for, found)
        finally:
            self._open.pop(host, None)
        return taken > 0

    # Others' parts.

    async def _ask_all(self, others: Callable[[], Sequence[str]], call_bytes: int) -> None:
        """Also those that come later: a node that was just started knows of few."""
        asked: dict[str, list[asyncio.Task[None]]] = {}
        try:
            while True:
                for node_id in others():
                    if node_id not in asked:
                        asked[node_id] = [asyncio.create_task(self._ask(node_id, call_bytes)) for _ in range(_CALLS)]
                await asyncio.sleep(_LOOK_S)
        finally:
            await _cancel([task for tasks in asked.values() for task in tasks])

    async def _ask(self, node_id: str, call_bytes: int) -> None:
        """Until nothing is left, or that node cannot do it."""
        pause_s = 0.0
        while not self._pool.over:
            node = next((one for one in self._members() if one.node_id == node_id), None)
            if node is None:  # it may come back
                await asyncio.sleep(_LOOK_S)
                continue
            news = self._news
            numbers = self._pool.take(node_id, call_bytes, _CALL_FILES)
            if not numbers:
                await news.wait()
                continue
            refused = False
            try:
                await self._ask_for(node, numbers)
                pause_s = 0.0
            except _OF_THE_MOMENT as error:
                every_n_seconds(logging.WARNING, "a scan's files: %s", 10, str(error))
                pause_s = min(_LONGEST_PAUSE_S, max(_FIRST_PAUSE_S, 2 * pause_s))
            except Exception as error:  # noqa: BLE001 - whatever it was: the scan goes on without that node
                refused = True
                known = isinstance(error, errors.TfquiverError)
                logging.warning("this node scans what another could not: %s", str(error), exc_info=not known)
            finally:
                if self._pool.back(node_id, numbers, to_host=refused):
                    self._bump()
            if refused:
                return
            await asyncio.sleep(pause_s)

    async def _ask_for(self, node: types_pb2.NodeInfo, numbers: Sequence[int]) -> None:
        key = object()
        done_bytes = done_records = 0

        def report(all_bytes: int, records: int, trouble: str) -> None:
            self._under_way(key, all_bytes - done_bytes, records - done_records, trouble)

        files = [self._files[number] for number in numbers]
        try:
            replies = self._asking.scanned(node, self._task_id, files, self._terms, report)
            async with aclosing(replies):
                async for at, file in replies:
                    await asyncio.to_thread(self._scanner.learn, files[at], self._terms, file)
                    done_bytes += files[at].size_bytes
                    done_records += _records(file)
                    self._finished(numbers[at], file, node.node_id)
        finally:
            self._open.pop(key, None)

    # What comes of it.

    def _finished(self, number: int, file: ScannedFile, by: str) -> None:
        self._scanned[number] = file
        self._pool.done(number)
        self.files_by[by] += 1
        self._done_bytes += self._files[number].size_bytes
        self._done_records += _records(file)
        if self._pool.over:  # else there is no more to take than before, and all would look after every file
            self._bump()

    def _under_way(self, key: object, size_bytes: int, records: int, trouble: str) -> None:
        self._open[key] = max(0, size_bytes), max(0, records)
        open_bytes = sum(one for one, _ in self._open.values())
        open_records = sum(one for _, one in self._open.values())
        self._progress(self._done_bytes + open_bytes, self._done_records + open_records, trouble)


async def _cancel(tasks: list[asyncio.Task[None]]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


def _records(file: ScannedFile) -> int:
    return int(file.rows["records"].sum(dtype="u8"))
