"""The miss path: a shard's bytes from the object store, or from who computes it, checked against its hash."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Set

from tfquiver import errors, stores
from tfquiver.digests.digest import Digest, ShardRef
from tfquiver.materializing.derived_uris import is_derived
from tfquiver.service.node.reading_the_object_store import parallelism
from tfquiver.service.node.reading_the_object_store.bounded_reads import BoundedReads
from tfquiver.service.node.reading_the_object_store.damaged import Damaged, patience_s, stale
from tfquiver.service.node.reading_the_object_store.metered_store import Meter, MeteredStore
from tfquiver.service.node.reading_the_object_store.origins import Origins, origin_of_file, origin_of_remote
from tfquiver.service.node.reading_the_object_store.range_reads import RangeReads
from tfquiver.service.node.reading_the_object_store.timed_store import Stopwatch, TimedStore
from tfquiver.service.node.sealed_memory_of_checked_shards.verified import VerifiedShard
from tfquiver.service.node.shards_from_disk_other_nodes_or_store.file_passes import FilePasses
from tfquiver.stores import ObjectStore
from tfquiver.stores.attempts import Attempts

_MOST_HUNG = 48  # of one bucket or mount
_PARALLEL_PASSES = 4  # the same
_GRACE_S = 5.0


Compute = Callable[[Digest, ShardRef], Awaitable[VerifiedShard]]


def _by_nobody(here: errors.UnavailableError, there: errors.UnavailableError) -> errors.UnavailableError:
    said = f"{here}; {there}"
    if not all(isinstance(one, errors.NobodyComputesError) for one in (here, there)):
        return errors.UnavailableError(said)
    nobody = errors.NobodyComputesError(said)
    nobody.everywhere = isinstance(there, errors.NobodyComputesError) and there.everywhere
    return nobody


async def _computed_by_nobody(digest: Digest, ref: ShardRef) -> VerifiedShard:
    raise errors.UnavailableError(f"{ref.file.uri}: it is derived data, which nothing computes here")


class Fetcher:
    """Reads ranges, a bounded number at a time; the stores retry inside `deadline_s`. Callers join (see flights.py).

    Of remote stores neighbours come in one request (see range_reads.py); of local files it would bring nothing. Each
    bucket, of one endpoint, and each mount has its own places and hangs alone.

    Args:
      place: keeps a shard at its owner; called in threads, for the neighbours that a compressed file brings along.
      store_for: the store of a URI, reached as the users of a data set (its digest id) reach it.
      store_place: where that store is, as Access.place; does not block.
      compute: makes a shard of a derived data set, which is in no store; raises as `fetch`.
      elsewhere: has another node do that, where this one cannot; raises as `fetch`.
    """

    def __init__(
        self,
        meter: Meter,
        place: Callable[[VerifiedShard], object],
        *,
        deadline_s: float,
        parallel_reads: int = 16,
        store_for: Callable[[str, bytes], ObjectStore] = lambda uri, _: stores.for_uri(uri),
        store_place: Callable[[str, bytes], str] = lambda uri, _: "",
        compute: Compute = _computed_by_nobody,
        elsewhere: Compute | None = None,
    ) -> None:
        self.meter, self.watch = meter, Stopwatch()
        self.computed = self.computed_bytes = 0
        self.on_stale: Callable[[bytes, str], None] = lambda digest_id, why: None  # told on the loop of who fetches
        self.given_up: Callable[[bytes], bool] = lambda hash: False  # is asked, on the loop, before that is kept
        self._placing: dict[asyncio.Task[object], bytes] = {}  # shards of derived data sets
        self._deadline_s = deadline_s
        self._store_for, self._compute, self._elsewhere, self._place = store_for, compute, elsewhere, place
        # A shard is read, and read again while it comes damaged: each for the deadline at most, if the store keeps it.
        limit_s, wait_s = 2 * deadline_s + _GRACE_S, deadline_s + _GRACE_S

        def reads(parallel: int, most: int | None = None) -> Callable[[str], BoundedReads]:
            return lambda origin: BoundedReads(origin, parallel, _MOST_HUNG, limit_s, wait_s, most)

        def remote(uri: str, digest_id: bytes) -> str:
            return origin_of_remote(uri, store_place(uri, digest_id))

        async def origin(uri: str, digest_id: bytes) -> str:
            return await origin_of_file(uri) if stores.scheme_of(uri) == "file" else remote(uri, digest_id)

        self._local = Origins(reads(parallel_reads))
        ranges = reads(parallelism.FIRST, parallelism.MOST)
        self._ranges = RangeReads(self._store, self._read, ranges, deadline_s, remote)
        self._again = Attempts()
        self._passes = FilePasses(self._store, place, self._again, deadline_s, reads(_PARALLEL_PASSES), origin)

    async def fetch(
        self, digest: Digest, ref: ShardRef, keep: bool, bypass: bool = False, ask_others: bool = True
    ) -> VerifiedShard | None:
        """The shard; None: look on the disk again, another reader's pass over its file has just gone by it.

        Args:
          keep: whether the other shards of a compressed file are kept, too.
          bypass: of a compressed file, only with others that bypass the cache.
          ask_others: another node may compute a shard of a derived data set.

        Raises:
          StaleDigestError: the object is not what the digest says; names object and offset.
          UnavailableError, PermissionError_: from the store.
          NobodyComputesError: of derived data.
          DataLossError: a damaged compressed stream.
        """
        try:
            if is_derived(ref.file.uri):
                return await self._computed(digest, ref, keep, ask_others)
            if ref.file.compression != "none":
                return await self._passes.fetch(digest, ref, keep, bypass)
            if stores.scheme_of(ref.file.uri) != "file":
                return await self._ranges.fetch(digest, ref, bypass)
            reads = self._local.at(await origin_of_file(ref.file.uri))
            return await reads.run(f"{ref.file.uri} at {ref.offset}", self._read, digest, ref)
        except errors.StaleDigestError as error:
            self.on_stale(digest.digest_id, str(error))
            raise

    def passing(self) -> set[bytes]:
        """Hashes of what passes over compressed files may keep yet."""
        return self._passes.hashes()

    async def keep_none(self, hashes: Set[bytes]) -> None:
        """Of what is `passing`, and of what was computed, none of these is placed any more when it returns."""
        await self._passes.keep_none(hashes)
        if placing := [task for task, hash in self._placing.items() if hash in hashes]:
            await asyncio.wait(placing)

    async def close(self) -> None:
        """Stops what is under way and waits for its threads."""
        self.meter.stop()
        self._again.stop()
        self._ranges.stop()
        await self._passes.close()
        await asyncio.gather(*(reads.close() for reads in self._local))
        await self._ranges.close()

    async def _computed(self, digest: Digest, ref: ShardRef, keep: bool, ask_others: bool) -> VerifiedShard:
        """Its owner, which is another node perhaps and could not have it computed, keeps it from now on."""
        try:
            shard = await self._compute(digest, ref)
            self.computed += 1
            self.computed_bytes += ref.length_bytes
        except errors.UnavailableError as here:
            if self._elsewhere is None or not ask_others:
                raise
            try:
                shard = await self._elsewhere(digest, ref)
            except errors.UnavailableError as there:
                raise _by_nobody(here, there) from here
        if keep and not self.given_up(shard.hash):
            placing = asyncio.get_running_loop().create_task(asyncio.to_thread(self._place, shard))
            self._placing[placing] = shard.hash
            placing.add_done_callback(self._placing.pop)
            await asyncio.shield(placing)  # its thread goes on where nobody waits any more
        return shard

    def _store(self, uri: str, digest_id: bytes) -> MeteredStore:
        return MeteredStore(
            TimedStore(self._store_for(uri, digest_id), self.watch), self.meter
        )  # not the limit's pauses

    def _read(self, digest: Digest, ref: ShardRef) -> VerifiedShard:
        """Bytes that do not have the hash may have been damaged on the way: they are read again, with backoff."""
        file = ref.file
        store = self._store(file.uri, digest.digest_id)
        where = f"{file.uri} at {ref.offset}"

        def attempt(_: float) -> VerifiedShard:
            data = store.read(file.uri, ref.offset, ref.length_bytes, file.generation, self._deadline_s)
            try:
                return VerifiedShard.check(ref.hash, data, where)
            except errors.DataLossError as error:
                raise Damaged(str(error).removeprefix(f"{where}: ")) from error

        try:
            return self._again.run(where, patience_s(store, self._deadline_s), attempt)
        except errors.UnavailableError as error:
            if isinstance(error.__cause__, Damaged):
                raise stale(error, file) from error
            raise
