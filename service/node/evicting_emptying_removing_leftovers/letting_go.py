"""What this node holds of shards is let go: what its rules keep no more, and what they keep, too."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence, Set
from typing import Protocol

from tfquiver import errors
from tfquiver.service.node.disk.disk_cache import DiskCache
from tfquiver.service.node.disk.leaving_entries import GaveUp
from tfquiver.service.node.disk_quota_books_and_eviction.rules import Why
from tfquiver.service.node.evicting_emptying_removing_leftovers.given_up import GivenUp
from tfquiver.service.node.hanging_disk.disk_threads import OnDisk
from tfquiver.service.node.placing_at_owners_and_writing.handing_over import HandingOver
from tfquiver.service.node.placing_at_owners_and_writing.inserts import Inserts
from tfquiver.service.node.sealed_memory_of_checked_shards.hot import HotSet
from tfquiver.sizes_durations_amounts.amounts import many

_AT_ONCE = 1 << 14


class Passing(Protocol):
    """What comes from the store and may be kept yet: of `shards_from_disk_other_nodes_or_store`, the room above."""

    def passing(self) -> set[bytes]: ...

    async def keep_none(self, hashes: Set[bytes]) -> None:
        """None of these is kept any more when it returns."""


class LettingGo:
    """On the loop of the source whose parts these are; what blocks runs in threads, `on_disk` what waits for that."""

    def __init__(
        self,
        node_id: str,
        disk: DiskCache,
        hot: HotSet,
        fetcher: Passing,
        inserts: Inserts,
        handing_over: HandingOver,
        unkept: GivenUp,
        on_disk: OnDisk,
    ) -> None:
        self._node_id, self._disk, self._hot, self._fetcher = node_id, disk, hot, fetcher
        self._inserts, self._handing_over, self._unkept, self._on_disk = inserts, handing_over, unkept, on_disk

    async def evict(self, hashes: Sequence[bytes]) -> bool:
        """Gives up what the disk's rules do not keep, on the disk and in memory. Readers keep their descriptors.

        False: the disk did not let go of all of it; ask again.
        """
        self._handing_over.forget(hashes)
        whole = True
        for some in in_parts(hashes):
            whole = await self._on_disk(self._evicted, some) and whole
        return whole

    def _evicted(self, hashes: Sequence[bytes]) -> bool:
        whole = self._disk.evict(hashes)
        for hash in hashes:
            if not self._disk.wanted(hash, Why.STANDS):
                self._hot.drop(hash)
        return whole

    async def give_up(self, hashes: Sequence[bytes]) -> None:
        """As `let_go`. Raises ResourceExhaustedError: the disk did not let all of them go."""
        if stay := (await self.let_go(hashes)).stay:
            raise errors.ResourceExhaustedError(
                f"node {self._node_id}: its disk does not let go of {many(stay, 'shard')}: is it read-only? Its log "
                "says why"
            )

    async def let_go(self, hashes: Sequence[bytes]) -> GaveUp:
        """Deletes these, on the disk and in memory, whatever the rules keep; what is being fetched of them is not kept,
        but by who asks for it later. Readers keep their descriptors."""
        if coming := self._unkept.getting() | self._fetcher.passing() | self._inserts.running():
            coming = await asyncio.to_thread(among, coming, hashes)
            self._unkept.mark(coming)
            await self._fetcher.keep_none(coming)
            await self._inserts.still(coming)
        if taken := self._handing_over.all_known():  # of millions it would hold the loop up for half a second
            await self._handing_over.give_up(await asyncio.to_thread(among, taken, hashes))
        parts = [await self._on_disk(self._given_up, some) for some in in_parts(hashes)]
        return GaveUp(*map(sum, zip(*parts, strict=True))) if parts else GaveUp(0, 0, 0)

    def _given_up(self, hashes: Sequence[bytes]) -> GaveUp:
        """From memory first: what is read there and stands on no disk is brought onto one again (FromMemoryToDisks).
        And afterwards: until then it may have been read from the disk."""
        self._forget(hashes)
        gone = self._disk.give_up(hashes)
        self._forget(hashes)
        return gone

    def _forget(self, hashes: Sequence[bytes]) -> None:
        for hash in hashes:
            self._hot.drop(hash)

    async def settle(self) -> bool:
        """As `evict`, of everything, and down to the limits; after the rules have changed."""
        whole = await self._on_disk(self._disk.settle)
        await asyncio.to_thread(self._hot.keep_only, lambda hash: self._disk.wanted(hash, Why.STANDS))
        return whole


def among(some: Set[bytes], hashes: Sequence[bytes]) -> set[bytes]:
    """Those of `some` that are in `hashes`, of which there may be millions: for a thread, and the interpreter is not
    held for all of them at once."""
    return {hash for part in in_parts(hashes) for hash in some & frozenset(part)}


def in_parts(hashes: Sequence[bytes]) -> Iterator[Sequence[bytes]]:
    """Between which others have their turn on the disk's few threads: to delete a million entries takes a minute."""
    for at in range(0, len(hashes), _AT_ONCE):
        yield hashes[at : at + _AT_ONCE]
