"""The miss path: a shard's bytes from the object store, checked against its hash."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from absl import logging

from tfquiver import errors, stores
from tfquiver.digest import Digest, ShardRef
from tfquiver.service.node.file_passes import FilePasses
from tfquiver.service.node.metered_store import Meter, MeteredStore
from tfquiver.service.node.store.verified import VerifiedShard
from tfquiver.stores import ObjectStore

_ATTEMPTS = 2  # a shard that comes with the wrong hash twice is not damaged on the way


class Fetcher:
    """Reads ranges in a bounded pool of threads; the stores retry inside `deadline_s`. Callers join (see flights.py).

    Args:
      place: keeps a shard at its owner; called in threads, for the neighbours that a compressed file brings along.
    """

    def __init__(
        self,
        meter: Meter,
        place: Callable[[VerifiedShard], object],
        *,
        deadline_s: float,
        parallel_reads: int = 16,
        store_for: Callable[[str], ObjectStore] = stores.for_uri,
    ) -> None:
        self.meter = meter
        self._deadline_s = deadline_s
        self._store_for = store_for
        self._pool = ThreadPoolExecutor(parallel_reads, "fetch")
        self._passes = FilePasses(self._store, place, deadline_s)

    async def fetch(self, digest: Digest, ref: ShardRef, keep: bool) -> VerifiedShard | None:
        """The shard; None: look in the disk store again, another reader's pass over its file has just gone by it.

        Args:
          keep: whether the other shards of a compressed file are kept, too.

        Raises:
          StaleDigestError: the object is not what the digest says; names object and offset.
          UnavailableError, PermissionError_: from the store.
          DataLossError: a damaged compressed stream.
        """
        if ref.file.compression != "none":
            return await self._passes.fetch(digest, ref, keep)
        return await asyncio.get_running_loop().run_in_executor(self._pool, self._read, ref)

    async def close(self) -> None:
        """Stops what is under way and waits for its threads."""
        self.meter.stop()
        await self._passes.close()
        await asyncio.to_thread(self._pool.shutdown, True, cancel_futures=True)

    def _store(self, uri: str) -> MeteredStore:
        return MeteredStore(self._store_for(uri), self.meter)

    def _read(self, ref: ShardRef) -> VerifiedShard:
        where = f"{ref.file.uri} at {ref.offset}"
        for attempt in range(1, _ATTEMPTS + 1):
            data = self._store(ref.file.uri).read(
                ref.file.uri, ref.offset, ref.length_bytes, ref.file.generation, self._deadline_s
            )
            try:
                return VerifiedShard.check(ref.hash, data, where)
            except errors.DataLossError as error:
                logging.warning("read %d of %d: %s", attempt, _ATTEMPTS, error)
                trouble = error
        raise errors.StaleDigestError(
            f"{trouble}: the {ref.length_bytes} bytes there are not those that the digest was built from "
            f"(generation {ref.file.generation or 'unknown'}); build the digest again"
        )
