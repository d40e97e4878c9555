"""What of a data set live nodes hold, as they have told; after a scan, when they all have."""

from __future__ import annotations

import asyncio

from tfquiver.service.coordinator.cache.caching import Caching
from tfquiver.service.coordinator.cache.resident_share import ResidentShare
from tfquiver.service.coordinator.datasets.registry import Registry
from tfquiver.service.coordinator.nodes.membership import Membership
from tfquiver.service.coordinator.residency.residency import Table

_PATIENCE_S = 5.0  # two heartbeats of every node, as far apart as they are by default
_FIRST_PAUSE_S = 0.02
_HEARTBEATS = 2  # the next one may have been on its way before the entry stood


class Held:
    """Lives on one event loop."""

    def __init__(self, registry: Registry, membership: Membership, caching: Caching) -> None:
        self._registry, self._membership, self._caching = registry, membership, caching

    async def resident_bytes(self, digest_id: bytes) -> int | None:
        """Of a registered data set; raw bytes. None: not all nodes have told."""
        if not self._membership.all_told or not self._caching.met:
            return None
        if digest_id in self._caching and (share := self._caching.share(digest_id)) is not None:
            return share.resident_bytes
        digest = await self._registry.digest(digest_id)
        for _ in self._caching.residency.merge():
            await asyncio.sleep(0)
        opening = self._caching.residency.opening()
        try:

            def looked() -> int:
                table = Table(digest)
                table.enter(opening)
                return ResidentShare.of(table, None).resident_bytes

            return await asyncio.to_thread(looked)
        finally:
            self._caching.residency.finish(opening)

    async def told(self, digest_id: bytes, scanner: str) -> None:
        """Returns when what a scan has brought is known: `scanner`, which says that it is over, has told what it holds,
        and the owners of the other shards do so with their heartbeats. At once where all of it is there; after some
        seconds in any case."""
        size_bytes = self._registry.find(digest_id).size_bytes
        before = self._heard(scanner)
        loop = asyncio.get_running_loop()
        give_up_s, pause_s = loop.time() + _PATIENCE_S, _FIRST_PAUSE_S
        while before and loop.time() < give_up_s:
            if (await self.resident_bytes(digest_id) or 0) >= size_bytes:
                return
            now = self._heard(scanner)
            if all(now.get(node_id, count + _HEARTBEATS) >= count + _HEARTBEATS for node_id, count in before.items()):
                return
            await asyncio.sleep(pause_s)
            pause_s *= 2

    def _heard(self, scanner: str) -> dict[str, int]:
        return {one: self._membership.heartbeats(one) for one in self._membership.storing if one != scanner}
