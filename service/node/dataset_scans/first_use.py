"""Data sets made known on first use: found by their listing, or scanned once, however many ask at the same time."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence

from absl import logging

from tfquiver import errors
from tfquiver.digests.digest import Digest
from tfquiver.digests.file_entry import FileEntry
from tfquiver.listing.listing_terms import ListingTerms
from tfquiver.log_files_and_lines.logs import about, telling
from tfquiver.proto.tfquiver.v1 import coordinator_pb2, node_pb2, types_pb2
from tfquiver.service.node.coordinator_link.coordinator_link import CoordinatorLink
from tfquiver.service.node.dataset_scans.elsewhere import ScansElsewhere
from tfquiver.service.node.dataset_scans.scan import ScanReport
from tfquiver.service.node.digests_kept_here.digest_cache import DigestCache
from tfquiver.sizes_durations_amounts.amounts import apart
from tfquiver.stores import ObjectStore

MAX_FILES = 1_000_000
MAX_NAMES_BYTES = 512 << 20  # of all URIs and generations of a listing
MAX_TOTAL_BYTES = (1 << 63) - 1  # more cannot be told
_MAX_SCANS = 64  # listings held in memory at the same time
_COMPRESSION = {
    types_pb2.COMPRESSION_UNSPECIFIED: "auto",
    types_pb2.COMPRESSION_NONE: "none",
    types_pb2.COMPRESSION_GZIP: "gzip",
    types_pb2.COMPRESSION_ZLIB: "zlib",
}
ScanFiles = Callable[
    [str, Sequence[FileEntry], ListingTerms, ScanReport, Callable[[str], ObjectStore]], Awaitable[Digest]
]
Requests = AsyncIterator[node_pb2.EnsureDatasetRequest]


class Scan:
    """One listing on its way to a registered data set; `task` ends with it, or with a typed error."""

    def __init__(self, total_bytes: int, name: str = "") -> None:
        self.name = name
        self.done_bytes = 0
        self.total_bytes = total_bytes
        self.records = 0
        self.trouble = ""
        self.waiting = 0  # who began or joined it
        self.task_id = ""  # of the data set with a name that alone has asked for it
        self.task: asyncio.Task[types_pb2.Dataset]

    def joined(self, task_id: str = "") -> None:
        """By one more; `task_id`: of a data set with a name."""
        self.waiting += 1
        self.task_id = task_id if self.waiting == 1 else ""  # what others wait for does not go with that one

    def report(self, done_bytes: int, records: int, trouble: str) -> None:
        self.done_bytes, self.records, self.trouble = min(done_bytes, self.total_bytes), records, trouble

    def progress(self, dataset: types_pb2.Dataset | None = None) -> node_pb2.EnsureDatasetProgress:
        return node_pb2.EnsureDatasetProgress(
            done_bytes=self.done_bytes,
            total_bytes=self.total_bytes,
            records=self.records,
            trouble=self.trouble,
            dataset=dataset,
        )


class DatasetScans:
    """Args:
    store_for: the store of a URI as a client (its id; "": nobody in particular) reaches it; raises when that is not in
      the place that a listing says.
    node_id: as which this node tells the coordinator what it scans, so that no other node does meanwhile; "": it does
      not tell.
    """

    def __init__(
        self,
        link: CoordinatorLink,
        digests: DigestCache,
        scanner: ScanFiles,
        store_for: Callable[[str, str, str], ObjectStore],
        node_id: str = "",
    ) -> None:
        self._link, self._digests, self._scanner, self._store_for = link, digests, scanner, store_for
        self._elsewhere = ScansElsewhere(link, node_id)
        self._under_way: dict[bytes, Scan] = {}
        self._ending: set[Scan] = set()  # that nobody wants any more

    @property
    def busy(self) -> bool:
        return bool(self._under_way or self._ending)

    def works(self) -> list[node_pb2.Work]:
        """Those under way, for people."""
        return [
            node_pb2.Work(
                kind=node_pb2.WORK_KIND_SCAN, name=scan.name, done_bytes=scan.done_bytes,
                total_bytes=scan.total_bytes, trouble=scan.trouble,
            )
            for scan in (*self._under_way.values(), *self._ending)
        ]  # fmt: skip

    def under_way(self, header: node_pb2.EnsureDatasetRequest) -> Scan | None:
        return self._under_way.get(header.listing_key)

    async def find(self, header: node_pb2.EnsureDatasetRequest) -> types_pb2.Dataset | None:
        """As `found`. Raises InvalidArgumentError naming the field."""
        key, terms = header.listing_key, ListingTerms.of(header.terms)
        if len(key) != 32:
            raise errors.InvalidArgumentError(f"listing_key: {len(key)} bytes, not 32")
        return await self.found(terms, key)

    async def found(self, terms: ListingTerms, key: bytes) -> types_pb2.Dataset | None:
        """The data set of a listing, if it is registered and is what the listing says."""
        found = await self._link.find_dataset(coordinator_pb2.FindDatasetRequest(listing_key=key))
        return found if found and await self._is_of(found, terms, key) else None

    async def join(self, header: node_pb2.EnsureDatasetRequest, requests: Requests) -> Scan:
        """The scan of the listing that `requests` bring, begun if it is not under way.

        Raises InvalidArgumentError naming the field, ResourceExhaustedError (too much at the same time).
        """
        files, terms, key = await received(requests), ListingTerms.of(header.terms), header.listing_key
        if await asyncio.to_thread(terms.key, files) != key:
            raise errors.InvalidArgumentError("listing_key: it is not that of these files under `terms`")
        client_id = header.client_id
        return self.begun(
            header.name, files, terms, key, lambda uri: self._store_for(uri, client_id, terms.place)
        )  # fmt: skip

    def begun(
        self,
        name: str,
        files: Sequence[FileEntry],
        terms: ListingTerms,
        key: bytes,
        store_for: Callable[[str], ObjectStore],
        scanner: ScanFiles | None = None,
        task_id: str = "",
    ) -> Scan:
        """The scan of a listing (its key), begun if it is not under way. Raises UnavailableError: too many are;
        InvalidArgumentError: there are no files so large.

        `scanner`: instead of the one that all have; `task_id`: of the data set with a name that it is for.
        """
        scan = self._under_way.get(key)
        if scan is None:
            if len(self._under_way) + len(self._ending) >= _MAX_SCANS:
                raise errors.UnavailableError(f"{_MAX_SCANS} data sets are being scanned: try again later")
            scan = self._under_way[key] = Scan(total_bytes(files), name)
            with telling(dataset=name, alone=True):
                scan.task = asyncio.get_running_loop().create_task(
                    self._scan(scan, name, files, terms, key, store_for, scanner or self._scanner)
                )
                scan.task.add_done_callback(lambda task: self._done(key, scan, task))
        scan.joined(task_id)
        return scan

    def left(self, scan: Scan) -> None:
        """One who waited for it does not want it any more. Those who have joined without a name go on waiting. Who asks
        for what ends has it scanned anew: that one gives nothing any more."""
        scan.waiting -= 1
        if not scan.waiting and not scan.task.done():
            scan.task.cancel()
            self._ending.add(scan)
            self._under_way = {key: other for key, other in self._under_way.items() if other is not scan}

    async def stop(self) -> None:
        tasks = [scan.task for scan in (*self._under_way.values(), *self._ending)]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _scan(
        self,
        scan: Scan,
        name: str,
        files: Sequence[FileEntry],
        terms: ListingTerms,
        key: bytes,
        store_for: Callable[[str], ObjectStore],
        scanner: ScanFiles,
    ) -> types_pb2.Dataset:
        alone = scanner is self._scanner  # else several nodes scan together, as the coordinator has them do
        if alone and (found := await self._elsewhere.found(key, scan)) and await self._is_of(found, terms, key):
            return found
        async with self._elsewhere.told(key) if alone else contextlib.nullcontext():
            digest = await scanner(name, files, terms, scan.report, store_for)
            async with self._digests.registering(digest):
                data = await asyncio.to_thread(digest.to_bytes)
                return await self._link.register_dataset(name, key, terms, data, scan.task_id)

    async def _is_of(self, found: types_pb2.Dataset, terms: ListingTerms, key: bytes) -> bool:
        """Whether a data set is what its listing says, by the digest's own file table."""
        try:
            digest = await self._digests.get(found.digest_id)
        except (errors.NotFoundError, errors.CorruptDigestError) as error:
            logging.warning(
                "data set %r: %s: scanning its files",
                found.name,
                str(error),
                extra=about(dataset=found.name, digest=found.digest_id),
            )
            return False
        if await asyncio.to_thread(terms.key_of, digest) == key:
            return True
        logging.error(
            "data set %r is not of the files that it was registered for: scanning these",
            found.name,
            extra=about(dataset=found.name, digest=found.digest_id),
        )
        return False

    def _done(self, key: bytes, scan: Scan, task: asyncio.Task[types_pb2.Dataset]) -> None:
        self._ending.discard(scan)
        if self._under_way.get(key) is scan:
            del self._under_way[key]
        if not task.cancelled() and (error := task.exception()):  # whoever asked may have gone
            logging.warning("scan: %s", error)


async def received(requests: Requests) -> list[FileEntry]:
    """The files that a client sends. Raises InvalidArgumentError naming the field."""
    entries: list[FileEntry] = []
    names_bytes = 0
    async for request in requests:
        for file in request.files:
            entry = entry_of(file, len(entries))
            names_bytes += len(file.uri) + len(file.generation)
            if len(entries) >= MAX_FILES or names_bytes > MAX_NAMES_BYTES:
                raise errors.InvalidArgumentError(
                    f"files: at most {MAX_FILES}, and {MAX_NAMES_BYTES} bytes of names, make a data set"
                )
            entries.append(entry)
    if not entries:
        raise errors.InvalidArgumentError("files: none")
    return entries


def total_bytes(files: Sequence[FileEntry]) -> int:
    """Raises InvalidArgumentError: what people and the coordinator are told has no room for it."""
    found = sum(file.size_bytes for file in files)
    if found > MAX_TOTAL_BYTES:
        raise errors.InvalidArgumentError(
            "files: {}; at most {} make a data set".format(*apart(found, MAX_TOTAL_BYTES))
        )
    return found


def entry_of(file: types_pb2.FileInfo, number: int) -> FileEntry:
    """One of those that a request brings, by its place there. Raises InvalidArgumentError naming the field."""
    if not file.uri:
        raise errors.InvalidArgumentError(f"files[{number}].uri: empty")
    if file.compression not in _COMPRESSION:
        raise errors.InvalidArgumentError(f"files[{number}].compression: {file.compression} is not known")
    return FileEntry(file.uri, file.size_bytes, file.generation, _COMPRESSION[file.compression])
