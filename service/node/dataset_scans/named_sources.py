"""The source of a data set that has a name, as this node sees it: listed, found or scanned."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

from tfquiver import errors
from tfquiver.digests import formats
from tfquiver.digests.digest import Digest
from tfquiver.digests.file_entry import FileEntry
from tfquiver.listing import listing
from tfquiver.listing.directories import beneath
from tfquiver.listing.listing_terms import ListingTerms, format_name
from tfquiver.proto.tfquiver.v1 import named_datasets_pb2 as pb
from tfquiver.proto.tfquiver.v1 import types_pb2
from tfquiver.scanning.cutting import CutPolicy
from tfquiver.service.node.dataset_scans.first_use import MAX_FILES, DatasetScans
from tfquiver.service.node.dataset_scans.scan import Scanner, ScanReport
from tfquiver.service.node.reading_the_object_store.named_access import NamedAccess, Way
from tfquiver.sizes_durations_amounts.amounts import many
from tfquiver.stores import ObjectStore

Report = Callable[[int, int, str], None]
_PROGRESS_S = 0.25
_LISTINGS = 4


class NamedSources:
    """Args:
    digest: the digest with that id; raises TfquiverError.
    scan_files: scans what a task (its id) is about, with other nodes where that is much; else as Scanner.scan.
    """

    def __init__(
        self,
        scans: DatasetScans,
        scanner: Scanner,
        digest: Callable[[bytes], Awaitable[Digest]],
        access: NamedAccess,
        scan_files: Callable[
            [str, str, Sequence[FileEntry], ListingTerms, ScanReport, Callable[[str], ObjectStore]], Awaitable[Digest]
        ],
    ) -> None:
        self._scans, self._scanner, self._digest, self._access = scans, scanner, digest, access
        self._scan_files = scan_files
        # Their own: a store that does not answer, or a hundred sources at once, would take those of everybody else.
        self._threads = ThreadPoolExecutor(_LISTINGS, "named-listings")

    async def scan(self, task_id: str, task: pb.ScanTask, report: Report) -> types_pb2.Dataset:
        """The registered data set of its files as they are now. Raises TfquiverError, which says whose credentials
        were refused."""
        policy = CutPolicy(format=format_name(task.format))
        way = await asyncio.to_thread(self._access.way, task.credentials, task.name)
        files = await asyncio.get_running_loop().run_in_executor(self._threads, _listed, task, way)
        if len(files) > MAX_FILES:
            raise errors.InvalidArgumentError(
                f"sources: {many(len(files), 'file')}; at most {MAX_FILES} make a data set"
            )
        terms = ListingTerms(policy, await asyncio.to_thread(way.place, [file.uri for file in files]))
        key = await asyncio.to_thread(terms.key, files)
        if (found := await self._scans.found(terms, key)) is not None:
            return found
        if task.before_digest_id:
            await self._remember(task.before_digest_id, files, terms)
        return await self._scanned(task_id, task.name, files, terms, key, way, report)

    async def _scanned(
        self,
        task_id: str,
        name: str,
        files: Sequence[FileEntry],
        terms: ListingTerms,
        key: bytes,
        way: Way,
        report: Report,
    ) -> types_pb2.Dataset:
        scan_files = functools.partial(self._scan_files, task_id)
        scan = self._scans.begun(name, files, terms, key, way.store_for, scan_files, task_id)
        try:
            while not scan.task.done():
                await asyncio.wait([scan.task], timeout=_PROGRESS_S)
                report(scan.done_bytes, scan.total_bytes, scan.trouble)
        except asyncio.CancelledError:
            self._scans.left(scan)
            raise
        return scan.task.result()

    async def _remember(self, before_digest_id: bytes, files: Sequence[FileEntry], terms: ListingTerms) -> None:
        """What the version before says of files that are as they were: they are not read again, whoever scanned it."""
        try:
            before = await self._digest(before_digest_id)
        except errors.TfquiverError:
            return  # then what this node has scanned itself has to do
        await asyncio.to_thread(self._scanner.remember, before, files, terms)


def _listed(task: pb.ScanTask, way: Way) -> Sequence[FileEntry]:
    """Of directories, as this node sees them, all files in and under them; of records those that are not hidden."""
    of_bytes = format_name(task.format) == formats.BYTES
    sources = [beneath(source, of_bytes) for source in task.sources]
    return listing.expand(sources, way.store_for, of_records=not of_bytes)
