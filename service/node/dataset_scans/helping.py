"""What other nodes ask of this one: that it scan some of their files. Its own orders say what of it may be done."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Iterator, Sequence

from tfquiver import errors, stores
from tfquiver.digests.file_entry import FileEntry
from tfquiver.glob_patterns_and_file_trees.globs import is_glob, literal_prefix
from tfquiver.listing.listing_terms import ListingTerms, format_name
from tfquiver.proto.tfquiver.v1 import named_datasets_pb2, node_pb2
from tfquiver.scanning.cutting import CutPolicy
from tfquiver.scanning.file_scan import ScannedFile
from tfquiver.service.node.dataset_scans.first_use import entry_of, total_bytes
from tfquiver.service.node.dataset_scans.scan import Scanner
from tfquiver.service.node.dataset_scans.tables import messages
from tfquiver.service.node.reading_the_object_store.named_access import NamedAccess, Way
from tfquiver.stores.local import path_of, whole_path

MOST_FILES = 1024
MOST_CALLS = 64  # at the same time
_SAY_S = 1.0
_MESSAGE_BYTES = 1 << 20  # of tables, about


class Helping:
    """Lives on one loop.

    Args:
      orders_s: so long a task is waited for that is not ordered yet: its node may have been told so much sooner.
    """

    def __init__(self, scanner: Scanner, access: NamedAccess, orders_s: float = 10.0) -> None:
        self._scanner, self._access, self._orders_s = scanner, access, orders_s
        self._ordered: dict[str, named_datasets_pb2.ScanTask] = {}
        self._news = asyncio.Event()
        self._calls: dict[_Call, str] = {}

    @property
    def busy(self) -> bool:
        return bool(self._calls)

    def works(self) -> list[node_pb2.Work]:
        """Those under way, for people."""
        return [
            node_pb2.Work(
                kind=node_pb2.WORK_KIND_SCAN, name=name, done_bytes=call.done_bytes, total_bytes=call.total_bytes,
                trouble=call.trouble,
            )
            for call, name in self._calls.items()
        ]  # fmt: skip

    def ordered(self, tasks: Sequence[named_datasets_pb2.DatasetTask]) -> None:
        """The newest orders, of all nodes."""
        self._ordered = {task.task_id: task.scan for task in tasks if task.HasField("scan")}
        self._news.set()
        self._news = asyncio.Event()

    async def scan(self, request: node_pb2.ScanFilesRequest) -> AsyncGenerator[node_pb2.ScanFilesReply, None]:
        """Ends with the call, or with the task. Raises as the proto says."""
        if not 0 < len(request.files) <= MOST_FILES:
            raise errors.InvalidArgumentError(f"files: {len(request.files)}; from 1 to {MOST_FILES}")
        if len(self._calls) >= MOST_CALLS:
            raise errors.UnavailableError(f"{MOST_CALLS} such calls are served already: ask again later")
        files = [entry_of(file, number) for number, file in enumerate(request.files)]
        call = _Call(files)
        self._calls[call] = ""
        try:
            task = await self._task(request)
            self._calls[call] = task.name
            terms, way = await asyncio.to_thread(self._checked, task, files, request)
            async with contextlib.aclosing(call.replies(self._scanner, terms, way)) as replies:
                async for reply in replies:
                    if self._ordered_of(request) is None:
                        raise errors.CancelledError_(f"task_id: {request.task_id} is that node's no more")
                    yield reply
        finally:
            del self._calls[call]

    async def _task(self, request: node_pb2.ScanFilesRequest) -> named_datasets_pb2.ScanTask:
        """Who scans may be another node than before, and have been told so sooner."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self._orders_s):
                while (task := self._ordered_of(request)) is None:
                    await self._news.wait()
                return task
        raise errors.UnavailableError(
            f"task_id: {request.task_id[:100]!r} of node {request.node_id[:100]!r} is not in this node's orders yet"
        )

    def _ordered_of(self, request: node_pb2.ScanFilesRequest) -> named_datasets_pb2.ScanTask | None:
        """None: there is no such task now, or it is another node's."""
        task = self._ordered.get(request.task_id)
        return task if task is not None and task.node_id == request.node_id else None

    def _checked(
        self, task: named_datasets_pb2.ScanTask, files: Sequence[FileEntry], request: node_pb2.ScanFilesRequest
    ) -> tuple[ListingTerms, Way]:
        """How they are cut and read here. Blocks: credentials are looked up."""
        names, beginnings = _files_of(task.sources)
        for number, file in enumerate(files):
            named = file.uri in names or file.uri.startswith(beginnings)
            if not named or ".." in file.uri.split("/"):
                raise errors.InvalidArgumentError(f"files[{number}].uri: it is none of the task's sources")
            if not file.generation:
                raise errors.InvalidArgumentError(f"files[{number}].generation: empty")
        way = self._access.way(task.credentials, task.name)
        terms = ListingTerms(
            CutPolicy(format=format_name(task.format)), way.place(task.sources)
        )  # of all files, as the caller has it
        if terms.message() != request.terms:
            raise errors.InUseError("terms: this node cuts files otherwise, or its credentials lead to another store")
        return terms, way


def _files_of(sources: Sequence[str]) -> tuple[set[str], tuple[str, ...]]:
    """What the URIs of the files that they name are, or how they begin."""
    names, beginnings = set[str](), set[str]()
    for source in sources:
        name = literal_prefix(source)
        directory = name.endswith("/")
        if stores.scheme_of(source) == "file":
            name = f"file://{whole_path(path_of(name))}"
        if is_glob(source) and not directory:
            beginnings.add(name)
            continue
        names.add(name)
        beginnings.add(f"{name.rstrip('/')}/")
    return names, tuple(beginnings)


def replies_of(done: Sequence[tuple[int, ScannedFile]]) -> Iterator[node_pb2.ScanFilesReply]:
    """One at least."""
    reply, size_bytes = node_pb2.ScanFilesReply(), 0
    for number, file in done:
        for table in messages(number, file):
            reply.tables.append(table)
            size_bytes += table.ByteSize()  # to measure a message is to make it, all of it
            if size_bytes > _MESSAGE_BYTES:
                yield reply
                reply, size_bytes = node_pb2.ScanFilesReply(), 0
    yield reply


class _Call:
    """One that is served."""

    def __init__(self, files: list[FileEntry]) -> None:
        self.files = files
        self.total_bytes = total_bytes(files)
        self.done_bytes = self.records = 0
        self.trouble = ""
        self._done: list[tuple[int, ScannedFile]] = []
        self._news = asyncio.Event()

    async def replies(
        self, scanner: Scanner, terms: ListingTerms, way: Way
    ) -> AsyncGenerator[node_pb2.ScanFilesReply, None]:
        loop = asyncio.get_running_loop()

        def found(number: int, file: ScannedFile) -> None:
            loop.call_soon_threadsafe(self._found, number, file)

        scan = asyncio.create_task(
            scanner.scan_files(self.files, range(len(self.files)), terms, self._report, way.store_for, found)
        )
        scan.add_done_callback(lambda _: self._news.set())
        try:
            while not scan.done() or self._done:
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(_SAY_S):
                        await self._news.wait()
                if not scan.done():
                    self._news.clear()
                for reply in replies_of(self._taken()):
                    yield self._said(reply)
            await scan
        finally:
            scan.cancel()
            await asyncio.gather(scan, return_exceptions=True)

    def _taken(self) -> list[tuple[int, ScannedFile]]:
        taken, self._done = self._done, []
        return taken

    def _found(self, number: int, file: ScannedFile) -> None:
        self._done.append((number, file))
        self._news.set()

    def _report(self, done_bytes: int, records: int, trouble: str) -> None:
        self.done_bytes, self.records, self.trouble = min(done_bytes, self.total_bytes), records, trouble

    def _said(self, reply: node_pb2.ScanFilesReply) -> node_pb2.ScanFilesReply:
        reply.done_bytes, reply.records, reply.trouble = self.done_bytes, self.records, self.trouble
        return reply
