"""Where a reader's shards come from: hot set, disk, the owner's node, the object store; in that order."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

from absl import logging

from tfquiver import errors
from tfquiver.content.digest import Digest, ShardRef
from tfquiver.service.node.disk import codec, entry
from tfquiver.service.node.disk.disk_store import DiskStore, OpenEntry
from tfquiver.service.node.disk.rules import Why
from tfquiver.service.node.memory import ready_shard
from tfquiver.service.node.memory.hot import HotSet
from tfquiver.service.node.memory.ready_shard import ReadyShard as ReadyShard
from tfquiver.service.node.memory.sealed_memory import NoMemoryError
from tfquiver.service.node.memory.verified import VerifiedShard
from tfquiver.service.node.origin.fetcher import Fetcher
from tfquiver.service.node.shards.flights import Flights
from tfquiver.service.node.shards.inserts import Inserts

T = TypeVar("T")
_DISK_THREADS = 4
_HANDING_THREADS = 2
_MOST_HANDING = 32  # shards that wait to be handed over; what a reader brings beyond that is fetched again some day
_MAX_SUSPECTS = 4096


class Peers(Protocol):
    @property
    def mismatches(self) -> int:
        """Bodies from peers that were not what was asked for."""

    def knows(self, node_id: str) -> bool:
        """Is it a live node other than this one?"""

    async def get(self, node_id: str, digest: Digest, ref: ShardRef, suspect: bool) -> ReadyShard:
        """Bytes that have the shard's hash. `suspect`: check them even where the peer is trusted.

        Raises UnavailableError and others: the caller goes on without that node.
        """


@dataclass(slots=True)
class Stats:
    """Counters since start, named as in node.proto's StatusReply; `entries` and `hot_bytes` are of now."""

    hits: int = 0
    peer_hits: int = 0
    misses: int = 0
    store_bytes: int = 0
    store_requests: int = 0
    corrupt_entries: int = 0
    refused_inserts: int = 0
    entries: int = 0
    hot_bytes: int = 0
    evictions: int = 0
    evicted_bytes: int = 0
    loads: int = 0
    loaded_bytes: int = 0
    hit_bytes: int = 0
    peer_bytes: int = 0
    peer_mismatches: int = 0


@dataclass(frozen=True, slots=True)
class StoredBody:
    """A shard as it is stored: what goes to a peer. `fd` is the receiver's to close."""

    fd: int
    offset: int
    header: entry.Header

    def close(self) -> None:
        OpenEntry(self.fd, self.header).close()


class ShardSource:
    """Lives on one loop; what blocks runs in its own bounded pools of threads."""

    def __init__(
        self,
        node_id: str,
        disk: DiskStore,
        hot: HotSet,
        fetcher: Fetcher,
        peers: Peers | None = None,
        elsewhere: Callable[[VerifiedShard], bool] = lambda shard: False,
    ) -> None:
        """`elsewhere` (blocks): whether another node keeps a shard for which this one has no room."""
        self._elsewhere = elsewhere
        self._node_id, self._disk, self._hot, self._fetcher, self._peers = node_id, disk, hot, fetcher, peers
        self._flights: Flights[bytes, ReadyShard] = Flights()
        self._pool = ThreadPoolExecutor(_DISK_THREADS, "disk")
        self._stats = Stats()
        self._inserts = Inserts(disk.insert)
        self._handed_over: set[bytes] = set()  # shards that another node keeps, for want of room here
        self._handing: dict[bytes, asyncio.Task[bool]] = {}
        self._handing_pool = ThreadPoolExecutor(_HANDING_THREADS, "hand-over")
        self._reading = 0  # fetches from the store that a reader waits for, here or at a peer
        self.on_spare: Callable[[], None] = lambda: None  # told when the last of those is over
        self._suspects: set[bytes] = set()  # were bad in a reader's hands, and came from a peer for all we know

    async def get(self, digest: Digest, index: int, owner: str) -> ReadyShard:
        """A shard of `digest`, ready to be handed over; the caller closes it.

        Args:
          owner: node id of the node that keeps it; this node's: it is kept here; "": nobody does.

        Raises:
          StaleDigestError, DataLossError, UnavailableError, PermissionError_: neither peer nor store could give it.
          ResourceExhaustedError: out of descriptors or memory.
        """
        ref = digest.shard(index)
        try:
            return await self._get(digest, ref, owner)
        except NoMemoryError as error:
            if not self._hot.give_up_half():
                raise
            logging.log_every_n_seconds(logging.WARNING, "%s: half of the hot set is given up", 10, error)
            return await self._get(digest, ref, owner)

    async def _get(self, digest: Digest, ref: ShardRef, owner: str) -> ReadyShard:
        ready = self._hot.get(ref.hash)
        if ready is None:
            joined = ref.hash in self._flights
            ready = await self._flights.join(ref.hash, lambda: self._obtain(digest, ref, owner))
            if not joined:
                self._count(ready)
                return ready
        else:
            self._disk.used(ref.hash)
        self._hit(ready)
        return ready

    async def load(self, digest: Digest, index: int) -> None:
        """Gets a shard because it was ordered, for nobody yet.

        One that is being fetched anyway is only waited for. Raises as `get`; ResourceExhaustedError also when no node
        has room to keep it. It is not kept, and that is no error, where it is not wanted any more.
        """
        ref = digest.shard(index)
        ready, fetched = self._hot.get(ref.hash), False
        if ready is None:
            fetched = ref.hash not in self._flights
            ready = await self._flights.join(
                ref.hash, lambda: self._obtain(digest, ref, self._node_id, for_reader=False)
            )
        try:
            if fetched and ready.source == "store":
                self._stats.loads += 1
                self._stats.loaded_bytes += ref.length_bytes
            await self._keep(ref, ready)
        finally:
            ready.close()

    def is_handed_over(self, hash: bytes) -> bool:
        """Whether another node took it, as far as is known."""
        return hash in self._handed_over

    def is_missing(self, hash: bytes) -> None:
        """No node has it, says somebody who knows better."""
        self._handed_over.discard(hash)

    @property
    def is_spare(self) -> bool:
        """No reader waits for the store."""
        return not self._reading

    async def evict(self, hashes: Sequence[bytes]) -> bool:
        """Gives up what the store's rules do not keep, on the disk and in memory. Readers keep their descriptors.

        False: the disk did not let go of all of it; ask again.
        """
        self._handed_over.difference_update(hashes)
        return await asyncio.to_thread(self._evicted, hashes)

    def _evicted(self, hashes: Sequence[bytes]) -> bool:
        whole = self._disk.evict(hashes)
        for hash in hashes:
            if not self._disk.wanted(hash, Why.STANDS):
                self._hot.drop(hash)
        return whole

    async def give_up(self, hashes: Sequence[bytes]) -> None:
        """Deletes these, on the disk and in memory, whatever the rules keep. Readers keep their descriptors."""
        self._handed_over.difference_update(hashes)
        await asyncio.to_thread(self._disk.give_up, hashes)
        for hash in hashes:
            self._hot.drop(hash)

    async def settle(self) -> bool:
        """As `evict`, of everything, and down to the limits; after the rules have changed."""
        whole = await asyncio.to_thread(self._disk.settle)
        await asyncio.to_thread(self._hot.keep_only, lambda hash: self._disk.wanted(hash, Why.STANDS))
        return whole

    async def get_raw(self, hashes: Sequence[bytes]) -> dict[bytes, ReadyShard]:
        """Those that stand raw on this disk, in one turn of a thread; the caller closes them, and `get`s the rest."""
        here = [hash for hash in hashes if hash in self._disk]
        if not here:
            return {}
        found = await self._in_pool(self._raw_entries, here)
        for ready in found.values():
            self._hit(ready)
        return found

    async def get_stored(self, digest: Digest, index: int) -> StoredBody:
        """As `get` for this node as the owner, in the form that a peer is sent. The caller closes it."""
        ref = digest.shard(index)
        if opened := await self._in_pool(self._disk.open_entry, ref.hash):
            return StoredBody(opened.fd, entry.HEADER_BYTES, opened.header)
        ready = await self.get(digest, index, self._node_id)
        header = entry.Header(
            entry.RAW, ready.length_bytes, ready.length_bytes, ready.crc32c, ready.crc32c, ref.hash
        )  # fmt: skip
        return StoredBody(ready.fd, ready.offset, header)

    async def drop(self, hash: bytes, reason: str) -> None:
        """A reader found the shard bad: what is kept of it is checked, and given up if the reader is right (I-5)."""
        self._hot.drop(hash)
        if not await self._in_pool(self._disk.drop_if_damaged, hash, reason):
            logging.warning("entry %s is as it should be, though: %s", hash.hex(), reason)
        elif self._peers and len(self._suspects) < _MAX_SUSPECTS:
            self._suspects.add(hash)

    def stats(self) -> Stats:
        self._stats.store_bytes = self._fetcher.meter.store_bytes
        self._stats.store_requests = self._fetcher.meter.store_requests
        self._stats.corrupt_entries = self._disk.corrupt_entries
        self._stats.refused_inserts = self._disk.refused_inserts
        self._stats.entries = len(self._disk)
        self._stats.hot_bytes = self._hot.size_bytes
        self._stats.evictions = self._disk.evictions
        self._stats.evicted_bytes = self._disk.evicted_bytes
        self._stats.peer_mismatches = self._peers.mismatches if self._peers else 0
        return self._stats

    async def close(self) -> None:
        """Stops fetches that are under way and lets go of the hot set."""
        await self._fetcher.close()
        await self._flights.close()
        handing = list(self._handing.values())
        for task in handing:
            task.cancel()
        await asyncio.gather(*handing, return_exceptions=True)
        self._handing_pool.shutdown(wait=False, cancel_futures=True)  # closing the peers ends what is under way
        await self._inserts.close()
        await asyncio.to_thread(self._pool.shutdown, True)
        self._hot.close()

    async def _obtain(self, digest: Digest, ref: ShardRef, owner: str, for_reader: bool = True) -> ReadyShard:
        if ready := await self._here(ref):
            return ready
        if self._peers and self._peers.knows(owner):
            try:
                suspect = ref.hash in self._suspects
                self._suspects.discard(ref.hash)
                return self._kept_hot(ref.hash, await self._peers.get(owner, digest, ref, suspect))
            except errors.TfquiverError as error:
                logging.log_every_n_seconds(
                    logging.WARNING, "shard %d from its owner: %s; reading it from the store", 5, ref.index, error
                )
        keep = owner == self._node_id
        self._reading += for_reader
        try:
            while (shard := await self._fetcher.fetch(digest, ref, keep=bool(owner))) is None:
                if ready := await self._here(ref):
                    return ready
            if keep:
                await self._inserts.keep(shard)
            ready = await self._in_pool(self._from_store, ref, shard, keep)
            lands = ref.hash in self._disk or self._inserts.under_way(ref.hash)
            if keep and not lands and len(self._handing) < _MOST_HANDING and self._disk.may_stand_in(ref.hash):
                self._hand_over(shard)
            return ready
        finally:
            self._reading -= for_reader
            if for_reader and not self._reading:
                self.on_spare()

    async def _here(self, ref: ShardRef) -> ReadyShard | None:
        if shard := self._inserts.under_way(ref.hash):
            ready = await self._in_pool(ReadyShard.from_bytes, shard.raw, shard.crc32c, "hot")
            return self._kept_hot(ref.hash, ready)
        return await self._in_pool(self._from_disk, ref)

    def _raw_entries(self, hashes: list[bytes]) -> dict[bytes, ReadyShard]:
        found: dict[bytes, ReadyShard] = {}
        try:
            for hash in hashes:
                opened = self._disk.open_entry(hash) if hash not in found else None
                if opened and opened.header.codec == entry.RAW:
                    found[hash] = _of_raw_entry(opened, "disk")
                elif opened:
                    opened.close()
        except errors.ResourceExhaustedError:
            if not found:
                raise
        return found

    def _from_disk(self, ref: ShardRef) -> ReadyShard | None:
        opened = self._disk.open_entry(ref.hash)
        if opened is None:
            return None
        header = opened.header
        if header.codec == entry.RAW:
            return _of_raw_entry(opened, "disk")
        try:
            raw = codec.decompress(opened.read_stored(), header.raw_length, f"entry {ref.hash.hex()}")
        except (errors.DataLossError, OSError) as error:
            self._disk.drop(ref.hash, str(error), opened.fd)
            return None
        finally:
            opened.close()
        return self._kept_hot(ref.hash, ReadyShard.from_bytes(raw, header.crc32c_raw, "disk"))

    def _from_store(self, ref: ShardRef, shard: VerifiedShard, keep: bool) -> ReadyShard:
        opened = self._disk.open_entry(ref.hash) if keep else None
        if opened and opened.header.codec == entry.RAW:
            return _of_raw_entry(opened, "store")
        if opened:
            opened.close()
        return self._kept_hot(ref.hash, ReadyShard.from_bytes(shard.raw, shard.crc32c, "store"))

    async def _keep(self, ref: ShardRef, ready: ReadyShard) -> None:
        """Here, or elsewhere. Raises ResourceExhaustedError."""
        if ref.hash in self._disk or ref.hash in self._handed_over:
            return
        handing = self._handing.get(ref.hash)
        if handing is None:
            shard = await self._in_pool(self._copied, ref, ready)
            try:
                await self._inserts.insert(shard)
                return
            except errors.ResourceExhaustedError as error:
                trouble = error
            handing = self._hand_over(shard)
            if not await asyncio.shield(handing):
                raise trouble
        elif not await asyncio.shield(handing):
            raise errors.ResourceExhaustedError(f"shard {ref.hash.hex()}: no node has room for it")

    def _copied(self, ref: ShardRef, ready: ReadyShard) -> VerifiedShard:
        pieces, at, end = [], ready.offset, ready.offset + ready.length_bytes
        while at < end and (piece := os.pread(ready.fd, end - at, at)):  # at most 2 GiB come at a time
            pieces.append(piece)
            at += len(piece)
        raw = b"".join(pieces)
        return VerifiedShard.check(ref.hash, raw, f"{ref.file.uri} at {ref.offset}")

    def _hand_over(self, shard: VerifiedShard) -> asyncio.Task[bool]:
        """To another node, without keeping readers waiting; whether one took it."""
        task = self._handing.get(shard.hash)
        if task is None:
            task = asyncio.get_running_loop().create_task(self._handed(shard))
            self._handing[shard.hash] = task
            task.add_done_callback(lambda _: self._handing.pop(shard.hash))
        return task

    async def _handed(self, shard: VerifiedShard) -> bool:
        took = await asyncio.get_running_loop().run_in_executor(self._handing_pool, self._elsewhere, shard)
        if took:
            self._handed_over.add(shard.hash)
        return took

    def _kept_hot(self, hash: bytes, ready: ReadyShard) -> ReadyShard:
        if self._disk.wanted(hash):
            with contextlib.suppress(NoMemoryError):  # out of descriptors: this reader is served all the same
                self._hot.put(hash, ready)
        return ready

    def _count(self, ready: ReadyShard) -> None:
        match ready.source:
            case "peer":
                self._stats.peer_hits += 1
                self._stats.peer_bytes += ready.length_bytes
            case "store":
                self._stats.misses += 1
            case _:
                self._hit(ready)

    def _hit(self, ready: ReadyShard) -> None:
        self._stats.hits += 1
        self._stats.hit_bytes += ready.length_bytes

    async def _in_pool(self, call: Callable[..., T], *arguments: object) -> T:
        """The outcome of a call in a thread; when nobody waits for it any more its descriptors are closed."""
        running = asyncio.get_running_loop().run_in_executor(self._pool, call, *arguments)
        try:
            return await asyncio.shield(running)
        except asyncio.CancelledError:
            running.add_done_callback(_close_outcome)
            raise


def _of_raw_entry(opened: OpenEntry, source: str) -> ReadyShard:
    header = opened.header
    return ReadyShard(ready_shard.FILE, opened.fd, entry.HEADER_BYTES, header.raw_length, header.crc32c_raw, source)


def _close_outcome(running: asyncio.Future[Any]) -> None:
    if running.cancelled() or running.exception() is not None:
        return
    outcome = running.result()
    for opened in outcome.values() if isinstance(outcome, dict) else [outcome]:
        if isinstance(opened, ReadyShard | OpenEntry):
            opened.close()
