"""Reads into the cache what this node is to keep of a data set, because somebody asks for it before the first epoch."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncGenerator, Awaitable, Callable, Collection, Iterator, Sequence

import numpy as np
from absl import logging

from tfquiver import errors
from tfquiver.digests.digest import Digest
from tfquiver.proto.tfquiver.v1 import coordinator_pb2, node_pb2, types_pb2
from tfquiver.service.node.disk import entry
from tfquiver.service.node.disk.disk_cache import DiskCache
from tfquiver.service.node.placing_at_owners_and_writing.handing_over import Nobody, StandIns
from tfquiver.service.node.placing_at_owners_and_writing.known_places import KnownPlaces
from tfquiver.service.node.shards_from_disk_other_nodes_or_store.shard_source import ShardSource
from tfquiver.shard_owners_chunks_hash_prefixes import rendezvous
from tfquiver.shard_owners_chunks_hash_prefixes.places import Places
from tfquiver.shard_owners_chunks_hash_prefixes.prefixes import of_rows
from tfquiver.sizes_durations_amounts.amounts import many, of_bytes

MOST_TOLD = 64
# Requests to the store, where shards are neighbours: less than half of what it is sent at first; readers have the rest.
# Each counts until its shards stand on the disk: with four of 8 MiB, a store of 200 MB/s was asked for 20 MB at a time.
PARALLEL = 6
TOGETHER_SHARDS, TOGETHER_BYTES = 32, 12 << 20  # of each: more would only wait in memory
MOST_FAILED = 16  # in a row: whatever is wrong, it is not one object
REFUSES_S = 60.0  # a disk that takes nothing is waited for so long, since it last took something
_DISK_LOOK_S, _LONGEST_DISK_LOOK_S = 0.25, 8.0
_TAKES_NOTHING = "the disk takes nothing: "
_ASKED_SHARDS = 65536
_PROGRESS_S = 0.25


class Warming:
    """Lives on one loop.

    Args:
      members: every live node.
      missing: of a data set's shards, those that no node holds; raises TfquiverError.
      known: where data sets with a placement are kept.
      stand_ins: other nodes that may have room for what this one has none for.
      met: `members` are those of now when it has returned: what two nodes take for their own is read twice.
    """

    def __init__(
        self,
        node_id: str,
        disk: DiskCache,
        source: ShardSource,
        members: Callable[[], Sequence[types_pb2.NodeInfo]],
        missing: Callable[[bytes, Sequence[int]], Awaitable[coordinator_pb2.MissingReply]],
        known: KnownPlaces | None = None,
        met: Callable[[], Awaitable[None]] | None = None,
        stand_ins: StandIns | None = None,
    ) -> None:
        self._stand_ins = stand_ins or Nobody()
        self._known, self._met = known or KnownPlaces(), met
        self._node_id, self._disk, self._source = node_id, disk, source
        self._members, self._missing = members, missing
        self._runs = set[_Run]()

    def works(self) -> list[node_pb2.Work]:
        """Those under way, for people; at most so many."""
        return [run.told() for run in itertools.islice(self._runs, MOST_TOLD)]

    def removed(self, digest_ids: Collection[bytes]) -> None:
        """What is under way of these loads nothing more: what is kept of them is to go."""
        for run in self._runs:
            run.end_if_of(digest_ids)

    async def warm(self, digest: Digest) -> AsyncGenerator[node_pb2.WarmProgress, None]:
        """How far it is, now and then; the last one says `over`. A caller that stops asking ends it."""
        if self._met is not None:
            await self._met()
        storing = sorted({node.node_id for node in self._members() if node.quota_bytes} | self._own())
        if self._node_id not in storing:
            yield node_pb2.WarmProgress(over=True)
            return
        places = self._known.of(digest.digest_id)
        owned = await asyncio.to_thread(_owned, digest, self._node_id, storing, places)
        run = _Run(digest, owned, self._disk, self._source, self._stand_ins)
        self._runs.add(run)  # before anything is waited for: what is removed meanwhile is not loaded
        work: asyncio.Task[None] | None = None
        try:
            lacking = await asyncio.to_thread(run.count, True)
            if storing[1:]:
                run.elsewhere = await self._held_elsewhere(digest, lacking)
                lacking = await asyncio.to_thread(run.count)
            work = asyncio.create_task(run.work(lacking))
            while not work.done():
                await asyncio.wait([work], timeout=_PROGRESS_S)
                yield run.progress()
            await work
        finally:
            self._runs.discard(run)
            if work is not None:
                work.cancel()
                await asyncio.gather(work, return_exceptions=True)
        gone = await asyncio.to_thread(run.count)  # evictions may have taken some of it meanwhile
        told = run.progress()
        told.over = True
        if not gone:  # what found no room has come some other way, as by readers of other nodes
            told.trouble, told.lacks_room_bytes = "", 0
        elif not told.trouble:
            told.trouble = f"{many(len(gone), 'shard')} of it went again meanwhile"
        yield told

    def _own(self) -> set[str]:
        """A coordinator that has just been started may not have heard of this node yet."""
        return {self._node_id} if self._disk.quota_bytes else set()

    async def _held_elsewhere(self, digest: Digest, lacking: Sequence[int]) -> frozenset[int]:
        """Of these, what another node holds, as after owners have changed (I-9)."""
        held: set[int] = set()
        try:
            for at in range(0, len(lacking), _ASKED_SHARDS):
                asked = lacking[at : at + _ASKED_SHARDS]
                missing = (await self._missing(digest.digest_id, asked)).shards
                for shard in missing:
                    self._source.is_missing(digest.hashes[shard].tobytes())
                held |= set(asked) - set(missing)
        except errors.NotFoundError:  # nobody has read it for a while: where it is will be known when somebody does
            return frozenset()
        except errors.TfquiverError as error:
            logging.warning("warming: %s; what other nodes hold is read again", error)
        return frozenset(held)


def _owned(digest: Digest, node_id: str, storing: Sequence[str], places: Places | None) -> list[int]:
    """Each content once: a shard may stand at several places of a data set."""
    _, first = np.unique(digest.hashes, axis=0, return_index=True)
    shards = np.sort(first)
    if places is not None:  # other owners take it over from the first
        mine = np.array([name == node_id for name in places.first(of_rows(digest.hashes[shards]))], np.bool_)
        shards = shards[mine]
    elif len(storing) > 1:
        shards = shards[rendezvous.owners(digest.hashes[shards], storing) == storing.index(node_id)]
    return [int(shard) for shard in shards]


class _Run:
    """One call's."""

    def __init__(
        self, digest: Digest, owned: Sequence[int], disk: DiskCache, source: ShardSource, stand_ins: StandIns
    ) -> None:
        self._digest, self._owned, self._disk, self._source = digest, owned, disk, source
        self._stand_ins = stand_ins
        self._total_bytes = int(digest.lengths[np.asarray(owned, np.int64)].sum(dtype=np.uint64))
        self.elsewhere: frozenset[int] = frozenset()
        self._resident = self._resident_bytes = 0
        self._refused = self._failed = self._failed_in_a_row = 0
        self._landing_bytes = self._leaving_bytes = 0  # of what is on its way onto this disk, and to others
        self._lacks_room_bytes = 0
        self._trouble = ""
        self._disk_refuses = self._removed = False

    def count(self, on_this_disk: bool = False) -> list[int]:
        """Counts what is resident; what is not. For a thread: there may be millions.

        `on_this_disk`: what others took over from here is none of it: they may have given it up since.
        """
        is_here = self._is_on_disk if on_this_disk else self._is_here
        lacking = [shard for shard in self._owned if not is_here(shard)]
        self._resident = len(self._owned) - len(lacking)
        self._resident_bytes = self._total_bytes - sum(int(self._digest.lengths[shard]) for shard in lacking)
        return lacking

    def end_if_of(self, digest_ids: Collection[bytes]) -> None:
        if self._digest.digest_id in digest_ids:
            self._removed, self._trouble = True, "the data set was removed, or what is cached of it, meanwhile"

    def told(self) -> node_pb2.Work:
        return node_pb2.Work(
            kind=node_pb2.WORK_KIND_WARM, digest_id=self._digest.digest_id, done_bytes=self._resident_bytes,
            total_bytes=self._total_bytes, trouble=self._trouble,
        )  # fmt: skip

    def progress(self) -> node_pb2.WarmProgress:
        return node_pb2.WarmProgress(
            shards=len(self._owned),
            total_bytes=self._total_bytes,
            resident_shards=self._resident,
            resident_bytes=self._resident_bytes,
            refused_shards=self._refused,
            failed_shards=self._failed,
            trouble=self._trouble,
            lacks_room_bytes=self._lacks_room_bytes,
        )

    async def work(self, lacking: Sequence[int]) -> None:
        """Several loads at a time, until all have been tried; gives up when one after the other fails.

        A disk that takes nothing for a moment is waited for: all that is left would be refused within milliseconds.
        """
        loop, resident, pause_s = asyncio.get_running_loop(), self._resident, _DISK_LOOK_S
        todo, until_s, tries = lacking, loop.time() + REFUSES_S, False
        while True:
            await self._all(todo)
            if self._removed or not (self._disk_refuses or tries):
                return
            if self._resident > resident:
                until_s, pause_s = loop.time() + REFUSES_S, _DISK_LOOK_S
            if tries := self._disk_refuses:
                if (hung_s := await self._takes_again(pause_s, until_s)) is None:
                    return
                until_s, pause_s = until_s + hung_s, min(2 * pause_s, _LONGEST_DISK_LOOK_S)
            todo = await asyncio.to_thread(self.count)
            if tries:
                todo = todo[:1]  # more would come in vain, if the disk is as it was
            resident, self._refused, self._lacks_room_bytes = self._resident, 0, 0
            self._trouble, self._disk_refuses = "", False

    async def _takes_again(self, pause_s: float, until_s: float) -> float | None:
        """For how long the disk has hung, when it may take something again; None: nobody waits any longer. One that
        hangs is waited for as long as it does, as its inserts are."""
        loop, hung_s = asyncio.get_running_loop(), 0.0
        while True:
            began_s = loop.time()
            await asyncio.sleep(pause_s)
            if self._removed:
                return None
            trouble = self._disk.trouble
            if trouble:
                self._trouble = f"{_TAKES_NOTHING}{trouble}"
            if trouble and self._disk.hanging.trouble():
                hung_s += loop.time() - began_s
            elif loop.time() >= until_s + hung_s:
                return None
            elif not trouble:
                return hung_s
            pause_s = _DISK_LOOK_S

    async def _all(self, lacking: Sequence[int]) -> None:
        todo = iter(lacking)
        async with asyncio.TaskGroup() as group:
            for _ in range(PARALLEL):
                group.create_task(self._load_on(todo))

    async def _load_on(self, todo: Iterator[int]) -> None:
        while self._goes_on and (shards := self._next(todo)):
            await asyncio.gather(*map(self._load_one, shards))
            await asyncio.sleep(0)

    @property
    def _goes_on(self) -> bool:
        return not (self._removed or self._disk_refuses) and self._failed_in_a_row < MOST_FAILED

    def _next(self, todo: Iterator[int]) -> list[int]:
        """Neighbours, as a rule, which come in one request."""
        shards: list[int] = []
        size_bytes = 0
        while len(shards) < TOGETHER_SHARDS and size_bytes < TOGETHER_BYTES:
            shard = next(todo, None)
            if shard is None:
                break
            shards.append(shard)
            size_bytes += int(self._digest.lengths[shard])
        return shards

    async def _load_one(self, shard: int) -> None:
        if not self._is_here(shard):  # a file that is fetched whole brings its other shards
            await self._load(shard)
        if self._is_here(shard):
            self._resident += 1
            self._resident_bytes += int(self._digest.lengths[shard])

    async def _load(self, shard: int) -> None:
        hash = self._digest.hashes[shard].tobytes()
        size_bytes = entry.disk_bytes(entry.HEADER_BYTES + int(self._digest.lengths[shard]))
        if not self._disk.wanted(hash):
            self._refuse("how it is cached (tfquiver dataset show) keeps no more of it")
            return
        lacks = self._disk.lacking(hash, size_bytes, self._landing_bytes)
        if lacks and not self._stand_ins.has_room_for(hash, int(self._digest.lengths[shard]), self._leaving_bytes):
            if trouble := self._disk.trouble:
                self._disk_refuses = True
                self._refuse(f"{_TAKES_NOTHING}{trouble}")
                return
            self._lacks_room_bytes += size_bytes if self._disk.is_full(size_bytes, self._landing_bytes) else 0
            self._refuse(f"there is no more room: {lacks}; the node's quota is {of_bytes(self._disk.quota_bytes)}")
            return
        lands_bytes, leaves_bytes = (0, size_bytes) if lacks else (size_bytes, 0)
        self._landing_bytes += lands_bytes
        self._leaving_bytes += leaves_bytes
        try:
            await self._source.load(self._digest, shard)
            self._failed_in_a_row = 0
        except errors.ResourceExhaustedError as error:
            is_full = self._disk.is_full(size_bytes)
            self._lacks_room_bytes += size_bytes if is_full else 0
            self._disk_refuses = self._disk_refuses or not is_full  # it was to have room
            self._refuse(str(error))
        except errors.TfquiverError as error:
            self._failed, self._failed_in_a_row = self._failed + 1, self._failed_in_a_row + 1
            self._trouble = str(error)
        finally:
            self._landing_bytes -= lands_bytes
            self._leaving_bytes -= leaves_bytes

    def _refuse(self, why: str) -> None:
        self._refused += 1
        self._trouble = self._trouble or why

    def _is_on_disk(self, shard: int) -> bool:
        return self._digest.hashes[shard].tobytes() in self._disk

    def _is_here(self, shard: int) -> bool:
        hash = self._digest.hashes[shard].tobytes()
        return hash in self._disk or shard in self.elsewhere or self._source.is_handed_over(hash)
