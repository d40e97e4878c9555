"""Registered data sets: their digests on disk, by digest id; and how to find them.

Nobody's word is taken for what a digest is of: a listing key is computed from the digest's own file table. Digests lie
under `<work_dir>/digests/<digest id>.tfqd`; that they are registered, and under which names and listing keys, is in the
commit log.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterable, Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from absl import logging

from tfquiver import errors
from tfquiver.content.digest import Digest
from tfquiver.content.listing_terms import ListingTerms
from tfquiver.proto.tfquiver.v1 import commit_log_pb2 as log_pb2
from tfquiver.proto.tfquiver.v1 import types_pb2
from tfquiver.service.coordinator.datasets.digest_files import DigestFiles

MAX_DATASETS = 10_000
MAX_LISTING_KEYS = 100_000
MAX_NAMES = 100_000
MAX_REMOVED = 10_000
_UPLOADS = 2  # of the largest size, at one time


@dataclass(frozen=True, slots=True)
class _Listed:
    digest_id: bytes
    terms: types_pb2.ListingTerms | None  # what the key was computed with; None: not said in an older log


class Registry:
    def __init__(self, work_dir: Path, journal: Callable[[log_pb2.CommitRecord], None], max_digest_bytes: int) -> None:
        self._coming_bytes = 0  # of digests that are being sent
        self._digests = DigestFiles(work_dir / "digests")
        self._journal = journal
        self._max_digest_bytes = max_digest_bytes
        self._datasets: dict[bytes, types_pb2.Dataset] = {}  # the one registered last comes last
        self._names: dict[str, bytes] = {}
        self._listing_keys: dict[tuple[str, bytes], _Listed] = {}  # by who alone finds it ("": all), and key
        self._removed: dict[bytes, None] = {}  # those removed last, as far as they were not registered again
        self._to_delete: dict[bytes, None] = {}  # of these, whose files may still be there
        self._removals = random.SystemRandom().getrandbits(62) + 1
        self._files = (
            asyncio.Lock()
        )  # held from a digest's rename until it is registered, and while digests are deleted

    def apply(self, record: log_pb2.DatasetRegistered) -> None:
        digest_id = record.dataset.digest_id
        self._removed.pop(digest_id, None)
        self._to_delete.pop(digest_id, None)
        self._datasets.pop(digest_id, None)
        self._datasets[digest_id] = record.dataset
        if record.dataset.name:
            self._names.pop(record.dataset.name, None)
            self._names[record.dataset.name] = digest_id
            while len(self._names) > MAX_NAMES:
                del self._names[next(iter(self._names))]
        if record.listing_key:
            key = record.listed_for, record.listing_key
            self._listing_keys.pop(key, None)
            terms = record.terms if record.HasField("terms") else None
            self._listing_keys[key] = _Listed(digest_id, terms)
            while len(self._listing_keys) > MAX_LISTING_KEYS:
                del self._listing_keys[next(iter(self._listing_keys))]

    def apply_removal(self, digest_id: bytes) -> None:
        """`prune` deletes the file, when the record is durable."""
        if digest_id in self._datasets:
            self._drop(digest_id)
        self._removed.pop(digest_id, None)
        self._removed[digest_id] = self._to_delete[digest_id] = None
        self._removals += 1
        while len(self._removed) > MAX_REMOVED:
            del self._removed[next(iter(self._removed))]

    def still(self) -> Callable[[], Iterator[log_pb2.CommitRecord]]:
        """Gives the records that bring an empty object where this one is now; in any thread, while this one goes on."""
        removed, datasets = list(self._removed), dict(self._datasets)
        names, listing_keys = dict(self._names), dict(self._listing_keys)

        def records() -> Iterator[log_pb2.CommitRecord]:
            for digest_id in removed:
                yield log_pb2.CommitRecord(dataset_removed=log_pb2.DatasetRemoved(digest_id=digest_id))
            for name, digest_id in names.items():
                if datasets[digest_id].name != name:
                    yield _record(datasets[digest_id], name, b"")
            for (listed_for, listing_key), listed in listing_keys.items():
                yield _record(datasets[listed.digest_id], "", listing_key, listed.terms, listed_for)
            for dataset in datasets.values():
                yield _record(dataset, dataset.name, b"")

        return records

    def restored(self) -> None:
        """The log has been read: drops data sets whose digest is not on disk."""
        for digest_id, dataset in list(self._datasets.items()):
            if not self._path(digest_id).exists():
                logging.warning("data set %r: %s is gone; register it again", dataset.name, self._path(digest_id))
                self._drop(digest_id)
        for key, listed in list(self._listing_keys.items()):
            if listed.terms is None and not self._is_of(listed.digest_id, key[1]):
                del self._listing_keys[key]

    def find(self, digest_id: bytes) -> types_pb2.Dataset:
        """Raises NotFoundError."""
        try:
            return self._datasets[digest_id]
        except KeyError:
            raise errors.NotFoundError(f"digest_id: no data set {digest_id.hex()} is registered") from None

    def __contains__(self, digest_id: bytes) -> bool:
        return digest_id in self._datasets

    @property
    def removals(self) -> int:
        """Another number after every removal, and after every start."""
        return self._removals

    def removed(self, digest_ids: Iterable[bytes]) -> list[bytes]:
        """Those that were removed, and not registered again."""
        return [digest_id for digest_id in digest_ids if digest_id in self._removed]

    def find_listing(self, listing_key: bytes, name: str = "") -> types_pb2.Dataset:
        """`name`: who asks, who may have registered that listing for themselves."""
        for key in (("", listing_key), (name, listing_key)):
            if key in self._listing_keys:
                return self.find(self._listing_keys[key].digest_id)
        raise errors.NotFoundError(f"listing_key: no data set of listing {listing_key.hex()} is registered")

    def find_name(self, name: str) -> types_pb2.Dataset:
        if name not in self._names:
            raise errors.NotFoundError(f"name: no data set {name!r} is registered")
        return self.find(self._names[name])

    def all(self) -> list[types_pb2.Dataset]:
        """Newest first."""
        return list(reversed(self._datasets.values()))

    async def sound(self, dataset: types_pb2.Dataset) -> types_pb2.Dataset:
        """The data set, if its digest can be read: one that is damaged is forgotten, so that it is registered again.

        Raises NotFoundError.
        """
        path = self._path(dataset.digest_id)
        try:
            await self.digest(dataset.digest_id)
        except (errors.CorruptDigestError, errors.NotFoundError) as error:
            logging.error("data set %r: %s; it is to be registered again", dataset.name, str(error))
            await self._digests.delete(dataset.digest_id)
            if dataset.digest_id in self._datasets:
                self._drop(dataset.digest_id)
            raise errors.NotFoundError(f"{path} was damaged: {error}; register the data set again") from error
        return dataset

    async def digest(self, digest_id: bytes) -> Digest:
        """Raises NotFoundError, CorruptDigestError."""
        self.find(digest_id)
        return await self._digests.get(digest_id)

    async def parts(self, digest_id: bytes) -> AsyncIterable[bytes]:
        """The digest file, in order. Raises NotFoundError."""
        self.find(digest_id)
        async for part in self._digests.parts(digest_id):
            yield part

    async def prune(self) -> None:
        """Deletes the digests of removed data sets. Raises UnavailableError and others naming the file."""
        async with self._files:
            for digest_id in list(self._to_delete):
                await self._digests.delete(digest_id)
                self._to_delete.pop(digest_id, None)

    async def close(self) -> None:
        await self._digests.close()

    async def register(
        self,
        name: str,
        listing_key: bytes,
        terms: ListingTerms | None,
        parts: AsyncIterable[bytes],
        listed_for: str = "",
        may_rename: Callable[[bytes], bool] = lambda _: True,
    ) -> types_pb2.Dataset:
        """Checks and keeps a digest. The caller makes the journal durable.

        Args:
          listed_for: who alone finds it by the listing key; "": all.
          may_rename: whether the data set of that digest id, if it is registered already, gets this name.

        Raises:
          InvalidArgumentError: the listing key is not that of the digest's files under these terms.
          CorruptDigestError: a damaged digest.
          ResourceExhaustedError: larger than the limit, disk full, too many data sets.
        """
        data = await self._received(parts)
        digest = await asyncio.to_thread(_checked, data)
        if listing_key and (terms is None or await asyncio.to_thread(terms.key, digest.files) != listing_key):
            raise errors.InvalidArgumentError(
                "listing_key: it is not that of the digest's own file table under `terms`"
            )
        if digest.digest_id not in self._datasets and len(self._datasets) >= MAX_DATASETS:
            raise errors.ResourceExhaustedError(
                f"{MAX_DATASETS} data sets are registered already: remove some (tfquiver dataset delete)"
            )
        async with self._files:
            await self._digests.keep(digest)
            return self._registered(digest, name, listing_key, terms, listed_for, may_rename)

    async def _received(self, parts: AsyncIterable[bytes]) -> bytearray:
        """Into memory, where it is used from. All that are under way together are bounded, too."""
        data = bytearray()
        try:
            async for part in parts:
                data += part
                self._coming_bytes += len(part)
                if len(data) > self._max_digest_bytes:
                    raise errors.ResourceExhaustedError(
                        f"a digest larger than {self._max_digest_bytes} bytes: see --max_digest_size"
                    )
                if self._coming_bytes > _UPLOADS * self._max_digest_bytes:
                    raise errors.ResourceExhaustedError("too many large digests are being registered: try again later")
        finally:
            self._coming_bytes -= len(data)
        return data

    def _registered(
        self,
        digest: Digest,
        name: str,
        listing_key: bytes,
        terms: ListingTerms | None,
        listed_for: str,
        may_rename: Callable[[bytes], bool],
    ) -> types_pb2.Dataset:
        before = self._datasets.get(digest.digest_id)
        if before and not may_rename(digest.digest_id):
            name = before.name
        dataset = types_pb2.Dataset(
            digest_id=digest.digest_id,
            content_root=digest.content_root,
            name=name or digest.name,
            shards=digest.num_shards,
            records=digest.num_records,
            size_bytes=digest.size_bytes,
        )
        record = log_pb2.DatasetRegistered(
            dataset=dataset,
            listing_key=listing_key,
            terms=terms.message() if terms and listing_key else None,
            listed_for=listed_for if listing_key else "",
        )
        self._journal(log_pb2.CommitRecord(dataset_registered=record))
        self.apply(record)
        return dataset

    def _is_of(self, digest_id: bytes, listing_key: bytes) -> bool:
        """For a key of which no terms are known: whether the digest was made of it as is usual."""
        try:
            return ListingTerms().key(Digest.open(self._path(digest_id)).files) == listing_key
        except errors.TfquiverError:
            return False

    def _drop(self, digest_id: bytes) -> None:
        del self._datasets[digest_id]
        self._names = {name: id_ for name, id_ in self._names.items() if id_ != digest_id}
        self._listing_keys = {
            key: listed for key, listed in self._listing_keys.items() if listed.digest_id != digest_id
        }

    def _path(self, digest_id: bytes) -> Path:
        return self._digests.path(digest_id)


def _checked(data: bytearray) -> Digest:
    digest = Digest.from_bytes(data, "the digest that was sent")
    digest.verify_ids()
    return digest


def _record(
    dataset: types_pb2.Dataset,
    name: str,
    listing_key: bytes,
    terms: types_pb2.ListingTerms | None = None,
    listed_for: str = "",
) -> log_pb2.CommitRecord:
    named = types_pb2.Dataset()
    named.CopyFrom(dataset)
    named.name = name
    return log_pb2.CommitRecord(
        dataset_registered=log_pb2.DatasetRegistered(
            dataset=named, listing_key=listing_key, terms=terms, listed_for=listed_for
        )
    )
