"""What of a data set live nodes hold, as they have told; after a scan, when they all have."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Collection

from tfquiver.service.coordinator.dataset_caching.caching import Caching
from tfquiver.service.coordinator.nodes_mounts_dispatchers.membership import Membership
from tfquiver.service.coordinator.registering_sharing_removing_datasets.registry import Registry
from tfquiver.service.coordinator.resident_shards.here import Here, what_is_here

# Two heartbeats of every node, as far apart as those of a thousand are; less than nodes wait for an answer.
_PATIENCE_S = 8.0
_FIRST_PAUSE_S = 0.02
# Of what is not followed all nodes are looked through: 50 ms of a thousand with a million shards, and an operator asks
# for each of its data sets again and again.
_AT_ONCE, _MOST_KNOWN = 4, 10_000
_NOTHING = Here(0, 0, 0)
_HEARTBEATS = 2  # the next one may have been on its way before the entry stood


class Held:
    """Lives on one event loop."""

    def __init__(self, registry: Registry, membership: Membership, caching: Caching) -> None:
        self._registry, self._membership, self._caching = registry, membership, caching
        self._stopping, self._looking = asyncio.Event(), asyncio.Semaphore(_AT_ONCE)
        self._known: dict[bytes, tuple[int, Here]] = {}  # as of so many changes

    def release_waiters(self) -> None:
        """Who waits goes on at once with what is known, from now on."""
        self._stopping.set()

    async def resident_bytes(self, digest_id: bytes, unreached: Collection[str] = ()) -> int | None:
        """Of a registered data set; raw bytes. None: not all nodes have told. `unreached`: ids of nodes of which what
        they hold does not count."""
        if not self._membership.all_told or not self._caching.met:
            return None
        if digest_id in self._caching:
            lost_bytes, _ = await self.unreached(digest_id, unreached)
            # Looked at afterwards, as heartbeats change it meanwhile; it may be followed no more.
            if digest_id in self._caching and (share := self._caching.share(digest_id)) is not None:
                return max(0, share.resident_bytes - lost_bytes)
        return (await self._look(digest_id, unreached)).size_bytes

    async def here(self, digest_id: bytes, unreached: Collection[str] = ()) -> Here | None:
        """As `resident_bytes`, looked for in what nodes have told, which takes longer of one that is followed."""
        if not self._membership.all_told or not self._caching.met:
            return None
        return await self._look(digest_id, unreached)

    async def kept_bytes(self, digest_id: bytes, node_ids: Collection[str]) -> int:
        """Raw bytes, each copy for itself, that these nodes hold, as far as they have told."""
        others = [one for one in self._membership.storing if one not in node_ids]
        return (await self._look(digest_id, others)).kept_bytes

    async def _look(self, digest_id: bytes, unreached: Collection[str]) -> Here:
        async with self._looking:
            digest, residency = await self._registry.digest(digest_id), self._caching.residency
            known_of, known = self._known.get(digest_id, (-1, _NOTHING))
            if not unreached and known_of == residency.changes:
                return known
            for _ in residency.merge():
                await asyncio.sleep(0)
            held, changes = residency.held(), residency.changes
            its = [held[one] for one in held.keys() - set(unreached)]
            here = await asyncio.to_thread(what_is_here, digest, its)
            if not unreached:
                if len(self._known) >= _MOST_KNOWN:
                    self._known.clear()
                self._known[digest_id] = changes, here
            return here

    async def unreached(self, digest_id: bytes, unreached: Collection[str]) -> tuple[int, int]:
        """Bytes and shards of a data set that is followed that only these nodes hold."""
        if not (numbers := self._caching.residency.numbers(unreached)):
            return 0, 0
        table = self._caching.residency.table(digest_id)

        def lost() -> tuple[int, int]:
            shards = table.only_at(numbers)
            return int(table.lengths[shards].sum()), len(shards)

        return await asyncio.to_thread(lost)

    async def told(self, digest_id: bytes, scanner: str) -> None:
        """Returns when what a scan has brought is known: `scanner`, which says that it is over, has told what it holds,
        and the owners of the other shards do so with their heartbeats. At once where all of it is there; after some
        seconds in any case, however long it takes to look."""
        if before := self._heard(scanner):
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_PATIENCE_S):
                    await self._all_told(digest_id, scanner, before)

    async def _all_told(self, digest_id: bytes, scanner: str, before: dict[str, int]) -> None:
        size_bytes, pause_s, looked_at = self._registry.find(digest_id).size_bytes, _FIRST_PAUSE_S, tuple[int, ...]()
        loop = asyncio.get_running_loop()
        while not self._stopping.is_set():
            began_s, told = loop.time(), self._membership.told()
            # What many nodes have told reaches the table of one that is followed a moment later; that look is cheap.
            look = told != looked_at or digest_id in self._caching
            if look and (await self.resident_bytes(digest_id) or 0) >= size_bytes:
                return
            looked_at, now = told, self._heard(scanner)
            if all(now.get(node_id, count + _HEARTBEATS) >= count + _HEARTBEATS for node_id, count in before.items()):
                return
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(max(pause_s, loop.time() - began_s)):
                    await self._stopping.wait()
            pause_s *= 2

    def _heard(self, scanner: str) -> dict[str, int]:
        return {one: self._membership.heartbeats(one) for one in self._membership.storing if one != scanner}
