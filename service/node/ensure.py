"""Data sets made known on first use: found by their listing, or scanned once, however many ask at the same time."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence

from absl import logging

from tfquiver import errors, listing
from tfquiver.cutting import CutPolicy
from tfquiver.digest import Digest
from tfquiver.file_entry import FileEntry
from tfquiver.listing_terms import Terms
from tfquiver.proto.tfquiver.v1 import coordinator_pb2, node_pb2, types_pb2
from tfquiver.service.node.coordinator_link import CoordinatorLink
from tfquiver.service.node.digest_cache import DigestCache

MAX_FILES = 1_000_000
_COMPRESSION = {
    types_pb2.COMPRESSION_UNSPECIFIED: "auto",
    types_pb2.COMPRESSION_NONE: "none",
    types_pb2.COMPRESSION_GZIP: "gzip",
    types_pb2.COMPRESSION_ZLIB: "zlib",
}
Progress = Callable[[int, int], None]  # stored bytes and records so far
Scanner = Callable[[str, Sequence[FileEntry], CutPolicy, Progress], Awaitable[Digest]]


class Scan:
    """One listing on its way to a registered data set; `task` ends with it, or with a typed error."""

    def __init__(self, total_bytes: int) -> None:
        self.done_bytes = 0
        self.total_bytes = total_bytes
        self.records = 0
        self.task: asyncio.Task[types_pb2.Dataset]

    def report(self, done_bytes: int, records: int) -> None:
        self.done_bytes, self.records = done_bytes, records

    def progress(self, dataset: types_pb2.Dataset | None = None) -> node_pb2.EnsureDatasetProgress:
        return node_pb2.EnsureDatasetProgress(
            done_bytes=self.done_bytes, total_bytes=self.total_bytes, records=self.records, dataset=dataset
        )


class DatasetScans:
    def __init__(self, link: CoordinatorLink, digests: DigestCache, scanner: Scanner) -> None:
        self._link, self._digests, self._scanner = link, digests, scanner
        self._under_way: dict[bytes, Scan] = {}

    @property
    def busy(self) -> bool:
        return bool(self._under_way)

    def join(self, request: node_pb2.EnsureDatasetRequest) -> Scan:
        """The scan of this listing, begun if it is not under way. Raises InvalidArgumentError naming the field."""
        files, policy = _files(request), _policy(request)
        key = listing.listing_key(files, policy)
        if request.listing_key and request.listing_key != key:
            raise errors.InvalidArgumentError("listing_key: it is not that of these files and cutting parameters")
        scan = self._under_way.get(key)
        if scan is None:
            scan = self._under_way[key] = Scan(sum(file.size_bytes for file in files))
            scan.task = asyncio.get_running_loop().create_task(self._ensure(scan, request.name, files, policy, key))
            scan.task.add_done_callback(lambda task: self._done(key, task))
        return scan

    async def stop(self) -> None:
        tasks = [scan.task for scan in self._under_way.values()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _ensure(
        self, scan: Scan, name: str, files: Sequence[FileEntry], policy: CutPolicy, key: bytes
    ) -> types_pb2.Dataset:
        terms = Terms(policy)
        found = await self._link.find_dataset(coordinator_pb2.FindDatasetRequest(listing_key=key))
        if found and await self._is_of(found, terms, key):
            return found
        digest = await self._scanner(name, files, policy, scan.report)
        await self._digests.put(digest)
        return await self._link.register_dataset(name, key, terms, await asyncio.to_thread(digest.to_bytes))

    async def _is_of(self, found: types_pb2.Dataset, terms: Terms, key: bytes) -> bool:
        """Whether a data set is what its listing says, by the digest's own file table."""
        digest = await self._digests.get(found.digest_id)
        if await asyncio.to_thread(terms.key, digest.files) == key:
            return True
        logging.error("data set %r is not of the files that it was registered for: scanning these", found.name)
        return False

    def _done(self, key: bytes, task: asyncio.Task[types_pb2.Dataset]) -> None:
        del self._under_way[key]
        if not task.cancelled() and (error := task.exception()):  # whoever asked may have gone
            logging.warning("scan: %s", error)


def _files(request: node_pb2.EnsureDatasetRequest) -> list[FileEntry]:
    if not 1 <= len(request.files) <= MAX_FILES:
        raise errors.InvalidArgumentError(f"files: {len(request.files)}; 1 to {MAX_FILES} can be scanned")
    entries = []
    for at, file in enumerate(request.files):
        if not file.uri:
            raise errors.InvalidArgumentError(f"files[{at}].uri: empty")
        if file.compression not in _COMPRESSION:
            raise errors.InvalidArgumentError(f"files[{at}].compression: {file.compression} is not known")
        entries.append(FileEntry(file.uri, file.size_bytes, file.generation, _COMPRESSION[file.compression]))
    return entries


def _policy(request: node_pb2.EnsureDatasetRequest) -> CutPolicy:
    default = CutPolicy()
    return CutPolicy(
        request.min_shard_bytes or default.min_bytes,
        request.target_shard_bytes or default.target_bytes,
        request.max_shard_bytes or default.max_bytes,
    )
