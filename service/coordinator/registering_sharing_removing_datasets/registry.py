"""Registered data sets: those of `dataset_table`, each with its digest on disk.

Nobody's word is taken for what a digest is of: a listing key is computed from the digest's own file table. Digests lie
under `<work_dir>/digests/<digest id>.tfqd`; that they are registered, and under which names and listing keys, is in the
commit log.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterable, Callable
from pathlib import Path

from absl import logging

from tfquiver import errors
from tfquiver.digests.digest import Digest
from tfquiver.listing.listing_terms import ListingTerms
from tfquiver.log_files_and_lines.logs import about
from tfquiver.proto.tfquiver.v1 import commit_log_pb2 as log_pb2
from tfquiver.proto.tfquiver.v1 import types_pb2
from tfquiver.service.coordinator.registering_sharing_removing_datasets.coming_digests import ComingDigests
from tfquiver.service.coordinator.registering_sharing_removing_datasets.dataset_table import DatasetTable
from tfquiver.service.coordinator.registering_sharing_removing_datasets.digest_files import DigestFiles

MAX_DATASETS = 10_000


class Registry(DatasetTable):
    """The table, with the digest of each data set on disk."""

    def __init__(self, work_dir: Path, journal: Callable[[log_pb2.CommitRecord], None], max_digest_bytes: int) -> None:
        super().__init__(random.SystemRandom().getrandbits(62) + 1)
        self.coming = ComingDigests(max_digest_bytes)
        self._digests = DigestFiles(work_dir / "digests")
        self._journal = journal
        # Held from a digest's rename until it is registered, and while digests are deleted.
        self._files = asyncio.Lock()

    def restored(self) -> None:
        """The log has been read: drops data sets whose digest is not on disk."""
        for digest_id, dataset in list(self._datasets.items()):
            if not self._path(digest_id).exists():
                logging.warning(
                    "data set %r: %s is gone; register it again",
                    dataset.name,
                    self._path(digest_id),
                    extra=about(dataset=dataset.name, digest=digest_id),
                )
                self._drop(digest_id)
        for key, listed in self._listing_keys:
            if listed.terms is None and not self._is_of(listed.digest_id, key[1]):
                self._listing_keys.forget(key)

    async def sound(self, dataset: types_pb2.Dataset) -> types_pb2.Dataset:
        """The data set, if its digest can be read: one that is damaged is forgotten, so that it is registered again.

        Raises NotFoundError.
        """
        path = self._path(dataset.digest_id)
        try:
            await self.digest(dataset.digest_id)
        except (errors.CorruptDigestError, errors.NotFoundError) as error:
            logging.error(
                "data set %r: %s; it is to be registered again",
                dataset.name,
                str(error),
                extra=about(dataset=dataset.name, digest=dataset.digest_id),
            )
            await self._digests.delete(dataset.digest_id)
            if dataset.digest_id in self._datasets:
                self._drop(dataset.digest_id)
            raise errors.NotFoundError(f"{path} was damaged: {error}; register the data set again") from error
        return dataset

    async def digest(self, digest_id: bytes) -> Digest:
        """Raises NotFoundError, CorruptDigestError."""
        self.find(digest_id)
        try:
            return await self._digests.get(digest_id)
        except errors.NotFoundError:
            self.find(digest_id)  # removed meanwhile: that is what to say
            raise

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

    async def drop_left_overs(self) -> None:
        """Deletes what a coordinator has kept that was killed before it was registered. Not where the log was
        empty: somebody may have lost that, and put it back later."""
        async with self._files:
            await self._digests.drop_others(frozenset(self._datasets))

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
        size_bytes: int = 0,
        sender: str = "",
    ) -> types_pb2.Dataset:
        """Checks and keeps a digest. The caller makes the journal durable.

        Args:
          listed_for: who alone finds it by the listing key; "": all.
          may_rename: whether the data set of that digest id, if it is registered already, gets this name.
          size_bytes: that are coming, as their sender says; 0: it does not.
          sender: whose they are: all that one sends at once is bounded.

        Raises:
          InvalidArgumentError: the listing key is not that of the digest's files under these terms, or more comes than
            was said.
          CorruptDigestError: a damaged digest.
          ResourceExhaustedError: larger than the limit, disk full, too many data sets.
          UnavailableError: too many are coming at once.
        """
        data = await self._received(parts, size_bytes, sender)
        digest = await asyncio.to_thread(_checked, data)
        if listing_key and (terms is None or await asyncio.to_thread(terms.key_of, digest) != listing_key):
            raise errors.InvalidArgumentError(
                "listing_key: it is not that of the digest's own file table under `terms`"
            )
        if digest.digest_id not in self._datasets and len(self._datasets) >= MAX_DATASETS:
            raise errors.ResourceExhaustedError(
                f"{MAX_DATASETS} data sets are registered already: remove some (tfquiver dataset delete)"
            )
        async with self._files:
            await self._kept(digest)
            return self._registered(digest, name, listing_key, terms, listed_for, may_rename)

    async def _kept(self, digest: Digest) -> None:
        """Whose caller goes away meanwhile leaves no file: a thread that writes it goes on all the same, and a digest
        that is none of a data set stayed until the next start."""
        keeping = asyncio.ensure_future(self._digests.keep(digest))
        try:
            await asyncio.shield(keeping)
        except asyncio.CancelledError:
            await asyncio.wait([keeping])
            if not keeping.exception() and digest.digest_id not in self._datasets:
                await self._digests.delete(digest.digest_id)
            raise

    async def _received(self, parts: AsyncIterable[bytes], announced_bytes: int, sender: str) -> bytearray:
        """Into memory, where it is used from. What is announced has its room before it comes: else of many at once each
        is read in part, refused, and sent again."""
        data = bytearray()
        with self.coming.upload(sender) as take:
            take(announced_bytes)
            async for part in parts:
                data += part
                if len(data) > announced_bytes > 0:  # others were let in by what it has said
                    raise errors.InvalidArgumentError(
                        f"part: more than the {announced_bytes} bytes that size_bytes says are coming"
                    )
                take(len(data))
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

    def _path(self, digest_id: bytes) -> Path:
        return self._digests.path(digest_id)


def _checked(data: bytearray) -> Digest:
    digest = Digest.from_bytes(data, "the digest that was sent")
    digest.verify_ids()
    return digest
