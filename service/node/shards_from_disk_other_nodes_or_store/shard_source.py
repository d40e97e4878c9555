"""Where a reader's shards come from: hot set, disk, the owner's node, the object store; in that order."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import time
from collections.abc import Callable, Iterator, Sequence

from absl import logging

from tfquiver import errors
from tfquiver.digests.digest import Digest, ShardRef
from tfquiver.log_files_and_lines.logs import about
from tfquiver.log_files_and_lines.rare_lines import every_n_seconds
from tfquiver.materializing.derived_uris import depth, is_derived
from tfquiver.service.metrics.instruments import FETCH
from tfquiver.service.node.counters.stats import Stats
from tfquiver.service.node.digests_kept_here.resident import bitmap
from tfquiver.service.node.disk import entry
from tfquiver.service.node.disk.disk_cache import DiskCache
from tfquiver.service.node.disk.leaving_entries import GaveUp
from tfquiver.service.node.disk.stored_body import StoredBody
from tfquiver.service.node.evicting_emptying_removing_leftovers.given_up import Getting, GivenUp
from tfquiver.service.node.evicting_emptying_removing_leftovers.letting_go import LettingGo
from tfquiver.service.node.hanging_disk.disk_threads import DiskThreads, OnDisk
from tfquiver.service.node.placing_at_owners_and_writing.handing_over import HandingOver, StandIns
from tfquiver.service.node.placing_at_owners_and_writing.inserts import Inserts
from tfquiver.service.node.sealed_memory_of_checked_shards.hot import HotSet
from tfquiver.service.node.sealed_memory_of_checked_shards.ready_shard import ReadyShard as ReadyShard
from tfquiver.service.node.sealed_memory_of_checked_shards.sealed_memory import NoMemoryError
from tfquiver.service.node.sealed_memory_of_checked_shards.verified import VerifiedShard
from tfquiver.service.node.shards_from_disk_other_nodes_or_store.disk_reads import DiskReads
from tfquiver.service.node.shards_from_disk_other_nodes_or_store.fetcher import Fetcher
from tfquiver.service.node.shards_from_disk_other_nodes_or_store.flights import Flights
from tfquiver.service.node.shards_from_disk_other_nodes_or_store.from_memory_to_disks import FromMemoryToDisks
from tfquiver.service.node.shards_from_disk_other_nodes_or_store.other_nodes import OtherNodes, Owners, Peers
from tfquiver.service.node.shards_from_disk_other_nodes_or_store.reach import ON_DISK

_ITSELF = b"itself"


class ShardSource:
    """Lives on one loop; what blocks runs in its own bounded pools of threads."""

    def __init__(
        self,
        node_id: str,
        disk: DiskCache,
        hot: HotSet,
        fetcher: Fetcher,
        peers: Peers | None = None,
        stand_ins: StandIns | None = None,
        owners: Owners | None = None,
    ) -> None:
        self._node_id, self._disk, self._hot, self._fetcher = node_id, disk, hot, fetcher
        self._flights: Flights[bytes, ReadyShard] = Flights()
        self._reads = DiskReads(disk, hot)
        self._stats = Stats()
        self._inserts = Inserts(disk.insert)
        self._handing_over = HandingOver(stand_ins)
        self._unkept = GivenUp(hot.drop)
        fetcher.given_up = self._unkept.__contains__
        self._disk_threads = DiskThreads()
        self.on_disk: OnDisk = self._disk_threads.run
        self._letting_go = LettingGo(
            node_id, disk, hot, fetcher, self._inserts, self._handing_over, self._unkept, self.on_disk
        )
        self._to_disks = FromMemoryToDisks(
            node_id, disk, hot, self._reads, self._inserts, self._handing_over, self._unkept
        )
        self._reading = 0  # fetches from the store that a reader waits for, here or at a peer
        self.on_spare: Callable[[], None] = lambda: None  # told when the last of those is over
        self._others = OtherNodes(node_id, peers, owners, self._stats)

    async def get(
        self,
        digest: Digest,
        index: int,
        owner: str,
        bypass: bool = False,
        ask_others: bool = True,
        missing: bool = False,
    ) -> ReadyShard:
        """A shard of `digest`, ready to be handed over; the caller closes it.

        Args:
          owner: node id of the node that keeps it; this node's: it is kept here; "": nobody does.
          bypass: from the store and nowhere else, joined with nobody's fetch, and kept nowhere: what a job without
            the cache would have (Quiver, FAST'20, section 5.3).
          ask_others: this node, an owner, may ask another one for it before the store.
          missing: it stands on no node's disk, the coordinator says: what is here in memory is brought to its owner.

        Raises:
          StaleDigestError, DataLossError, UnavailableError, PermissionError_: neither peer nor store could give it.
          ResourceExhaustedError: out of descriptors or memory.
        """
        ref, began_s = digest.shard(index), time.perf_counter()
        try:
            ready = await self._get(digest, ref, owner, bypass, ask_others, missing)
        except NoMemoryError as error:
            if not self._hot.give_up_half():
                raise
            every_n_seconds(logging.WARNING, "%s: half of the hot set is given up", 10, error)
            ready = await self._get(digest, ref, owner, bypass, ask_others, missing)
        FETCH.labels(ready.source).observe(time.perf_counter() - began_s)
        return ready

    async def _get(
        self, digest: Digest, ref: ShardRef, owner: str, bypass: bool, ask_others: bool, missing: bool
    ) -> ReadyShard:
        if bypass:
            return await self._past_the_cache(digest, ref)
        ready = self._hot.get(ref.hash)
        if ready is None:
            key = _flight_of(ref, ask_others)
            joined = key in self._flights
            with self._unkept.until_here(ref.hash):  # from now on, not from the turn in which its flight begins
                ready = await self._flights.join(key, lambda: self._obtain(digest, ref, owner, ask_others=ask_others))
            if not joined:
                self._stats.count(ready)
                return ready
        else:
            self._disk.used(ref.hash)
            self._to_disks.was_read(ref, owner, missing)
        self._stats.hit(ready)
        return ready

    async def _past_the_cache(self, digest: Digest, ref: ShardRef) -> ReadyShard:
        with self._reader_waits():
            while (shard := await self._fetcher.fetch(digest, ref, keep=False, bypass=True)) is None:
                pass
            self._stats.bypasses += 1
            self._stats.bypass_bytes += ref.length_bytes
            return await self._reads.run(ReadyShard.from_bytes, shard.raw, shard.crc32c, "store")

    async def load(self, digest: Digest, index: int) -> None:
        """Gets a shard because it was ordered, for nobody yet.

        One that is being fetched anyway is only waited for. Raises as `get`; ResourceExhaustedError also when no node
        has room to keep it. It is not kept, and that is no error, where it is not wanted any more.
        """
        ref = digest.shard(index)
        with self._unkept.until_here(ref.hash) as getting:
            await self._load(digest, ref, getting)

    async def _load(self, digest: Digest, ref: ShardRef, getting: Getting) -> None:
        ready, fetched = self._hot.get(ref.hash), False
        if ready is None:
            key = _flight_of(ref)
            fetched = key not in self._flights
            ready = await self._flights.join(key, lambda: self._obtain(digest, ref, self._node_id, for_reader=False))
        try:
            if fetched and ready.source == "store":
                self._stats.loads += 1
                self._stats.loaded_bytes += ref.length_bytes
            await self._keep(ref, ready, getting)
        finally:
            ready.close()

    def is_handed_over(self, hash: bytes) -> bool:
        """Whether another node took it, as far as is known."""
        return self._handing_over.taken(hash)

    def is_missing(self, hash: bytes) -> None:
        """No node has it, says somebody who knows better."""
        self._handing_over.forget([hash])

    @property
    def is_spare(self) -> bool:
        """No reader waits for the store."""
        return not self._reading

    @property
    def disk_hangs(self) -> bool:
        """What is not in memory cannot be had here now."""
        return self._reads.hang

    @property
    def disk_waits_s(self) -> float:
        """For how long the oldest read of the disk has been under way."""
        return self._reads.oldest_s

    async def evict(self, hashes: Sequence[bytes]) -> bool:
        """As `LettingGo.evict`."""
        return await self._letting_go.evict(hashes)

    async def give_up(self, hashes: Sequence[bytes]) -> None:
        """As `LettingGo.give_up`."""
        async with self._to_disks.none_of(hashes):
            await self._letting_go.give_up(hashes)

    async def let_go(self, hashes: Sequence[bytes]) -> GaveUp:
        """As `LettingGo.let_go`."""
        async with self._to_disks.none_of(hashes):
            return await self._letting_go.let_go(hashes)

    async def settle(self) -> bool:
        """As `LettingGo.settle`."""
        return await self._letting_go.settle()

    async def get_raw(self, hashes: Sequence[bytes]) -> dict[bytes, ReadyShard]:
        """Those that stand raw on this disk, in one turn of a thread; the caller closes them, and `get`s the rest."""
        here = [hash for hash in hashes if hash in self._disk]
        if not here:
            return {}
        began_s = time.perf_counter()
        found = await self._reads.run(self._reads.raw_entries, here)
        took_s = time.perf_counter() - began_s
        for ready in found.values():
            self._stats.hit(ready)
            FETCH.labels(ready.source).observe(took_s)
        return found

    async def get_stored(self, digest: Digest, index: int, ask_others: bool = True) -> StoredBody:
        """As `get` for this node as the owner, in the form that a peer is sent. The caller closes it.

        `ask_others`: another owner may be asked for it before the store is.
        """
        ref = digest.shard(index)
        if opened := await self._reads.run(self._disk.open_entry, ref.hash):
            return StoredBody(opened.fd, entry.HEADER_BYTES, opened.header)
        # Who may not ask others for it computes it for its owner perhaps, who asks: it is not to be kept twice.
        owner = "" if is_derived(ref.file.uri) and not ask_others else self._node_id
        ready = await self.get(digest, index, owner, ask_others=ask_others)
        header = entry.Header(
            entry.RAW, ready.length_bytes, ready.length_bytes, ready.crc32c, ready.crc32c, ref.hash
        )  # fmt: skip
        return StoredBody(ready.fd, ready.offset, header, ready.left_the_store)

    async def resident(self, digest: Digest) -> bytes:
        """As `resident.bitmap`: what need not come from the store."""
        return await asyncio.to_thread(bitmap, digest, lambda hash: hash in self._disk or self.is_handed_over(hash))

    async def drop(self, hash: bytes, reason: str) -> None:
        """A reader found the shard bad: what is kept of it is checked, and given up if the reader is right (I-5)."""
        self._hot.drop(hash)
        if not await self._reads.run(self._disk.drop_if_damaged, hash, reason):
            logging.warning("entry %s is as it should be, though: %s", hash.hex(), reason, extra=about(hash=hash))
        else:
            self._others.suspect(hash)

    def stats(self) -> Stats:
        self._stats.store_bytes = self._fetcher.meter.store_bytes
        self._stats.store_requests = self._fetcher.meter.store_requests
        self._stats.computed, self._stats.computed_bytes = self._fetcher.computed, self._fetcher.computed_bytes
        self._stats.corrupt_entries = self._disk.corrupt_entries
        self._stats.refused_inserts = self._disk.refusals.inserts
        self._stats.refused_by_disk = self._disk.refusals.by_disk
        self._stats.refused_damaged = self._disk.refusals.damaged
        self._stats.entries = len(self._disk)
        self._stats.hot_bytes = self._hot.size_bytes
        self._stats.evictions = self._disk.evictions
        self._stats.evicted_bytes = self._disk.evicted_bytes
        self._stats.written_bytes = self._disk.written_bytes
        self._stats.peer_mismatches = self._others.mismatches
        return self._stats

    @property
    def landing(self) -> int:
        """Shards on their way onto this disk or to another node, which would have to be fetched again."""
        return len(self._inserts) + len(self._handing_over)

    async def close(self) -> None:
        """Stops fetches that are under way and lets go of the hot set."""
        await self._fetcher.close()
        await self._flights.close()
        await self._to_disks.close()
        await self._handing_over.close()
        await self._inserts.close()
        await self._reads.close()
        await self._disk_threads.close()
        self._hot.close()

    async def take_over(self, digest: Digest, index: int, holder: str) -> None:
        """A shard that this node owns now from one that holds it, onto the disk; never from the store.

        Raises UnavailableError and others: it is not there any more; ResourceExhaustedError: no room here.
        """
        ref = digest.shard(index)
        if ref.hash in self._disk:
            return
        ready = await self._others.get_from(holder, digest, ref, ON_DISK)
        try:
            shard = await self._reads.run(self._reads.copied, ref, ready)
        finally:
            ready.close()
        await self._inserts.insert(shard)
        if ref.hash in self._disk:
            self._stats.moved += 1
            self._stats.moved_bytes += ref.length_bytes

    async def _obtain(
        self, digest: Digest, ref: ShardRef, owner: str, for_reader: bool = True, ask_others: bool = True
    ) -> ReadyShard:
        with self._unkept.until_here(ref.hash) as getting:
            return await self._got(digest, ref, owner, for_reader, ask_others, getting)

    async def _got(
        self, digest: Digest, ref: ShardRef, owner: str, for_reader: bool, ask_others: bool, getting: Getting
    ) -> ReadyShard:
        if ready := await self._here(ref):
            return ready
        instead = functools.partial(self._instead, digest, ref) if for_reader and _is_a_range(ref) else None
        found = await self._others.get(digest, ref, owner, ask_others, instead)
        if isinstance(found, ReadyShard):
            ready = found
            if owner == self._node_id:
                await self._keep_copy(ref, ready, getting)
            return self._reads.kept_hot(ref.hash, ready)
        keep = owner == self._node_id
        with self._reader_waits() if for_reader else contextlib.nullcontext():
            shard = found
            while shard is None:
                shard = await self._fetcher.fetch(digest, ref, keep=bool(owner), ask_others=ask_others)
                if shard is None and (ready := await self._here(ref)):
                    return ready
            if keep := keep and not getting.is_given_up:
                await self._inserts.keep(shard)
            ready = await self._reads.run(self._reads.fetched, ref, shard, keep)
            lands = ref.hash in self._disk or self._inserts.under_way(ref.hash)
            keep = keep and not getting.is_given_up
            if keep and not lands and self._handing_over.may(ref.hash, ref.length_bytes):
                self._handing_over.start(shard)
            return ready

    async def _instead(self, digest: Digest, ref: ShardRef) -> VerifiedShard:
        """From the store, though another node was asked for it, which is late."""
        shard = await self._fetcher.fetch(digest, ref, keep=False)
        if shard is None:
            raise errors.UnavailableError(f"{ref.file.uri}: it is read in passes")
        return shard

    async def _keep_copy(self, ref: ShardRef, ready: ReadyShard, getting: Getting) -> None:
        """On the disk, if there is room. Closes it where that fails."""
        try:
            shard = await self._reads.run(self._reads.copied, ref, ready)
            if not getting.is_given_up:
                await self._inserts.keep(shard)
        except BaseException:
            ready.close()
            raise

    @contextlib.contextmanager
    def _reader_waits(self) -> Iterator[None]:
        self._reading += 1
        try:
            yield
        finally:
            self._reading -= 1
            if not self._reading:
                self.on_spare()

    async def _here(self, ref: ShardRef) -> ReadyShard | None:
        if shard := self._inserts.under_way(ref.hash):
            ready = await self._reads.run(ReadyShard.from_bytes, shard.raw, shard.crc32c, "hot")
            return self._reads.kept_hot(ref.hash, ready)
        return await self._reads.run(self._reads.here, ref)

    async def _keep(self, ref: ShardRef, ready: ReadyShard, getting: Getting) -> None:
        """Here, or elsewhere. Raises ResourceExhaustedError."""
        if ref.hash in self._disk or self._handing_over.taken(ref.hash) or getting.is_given_up:
            return
        handing = self._handing_over.under_way(ref.hash)
        if handing is None:
            shard = await self._reads.run(self._reads.copied, ref, ready)
            if getting.is_given_up:
                return
            try:
                await self._inserts.insert(shard)
                return
            except errors.ResourceExhaustedError as error:
                trouble = error
            if getting.is_given_up:
                return
            handing = self._handing_over.start(shard)
            if not await asyncio.shield(handing) and not getting.is_given_up:
                raise trouble
        elif not await asyncio.shield(handing) and not getting.is_given_up:
            raise errors.ResourceExhaustedError(f"{ref.file.uri}, at {ref.offset}: no node has room for it")


def _is_a_range(ref: ShardRef) -> bool:
    """Whether the store gives it without all that stands before it, and nobody computes it."""
    return ref.file.compression == "none" and not is_derived(ref.file.uri)


def _flight_of(ref: ShardRef, ask_others: bool = True) -> bytes:
    """Those of one flight wait for the same bytes, and for nobody who waits for that flight."""
    key, far = ref.hash, depth(ref.file.uri)
    if far:  # a function may leave a shard as it was: who computes it reads the very bytes, of what it is made of
        key += b"%d" % far
        if not ask_others:  # a node that this one waits for asks back what this one can compute itself
            key += _ITSELF
    return key
