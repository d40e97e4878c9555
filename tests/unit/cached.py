"""A data set as the coordinator caches it, by the coordinator's own objects; and a node that holds some of it."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence

import numpy as np

from tfquiver.clock import Clock
from tfquiver.digests.digest import Digest
from tfquiver.digests.file_entry import FileEntry
from tfquiver.disk_space_of_shards.entry_size import most_disk_bytes
from tfquiver.proto.tfquiver.v1 import commit_log_pb2 as log_pb2
from tfquiver.proto.tfquiver.v1 import coordinator_pb2 as pb2
from tfquiver.proto.tfquiver.v1 import types_pb2
from tfquiver.service.coordinator.bandwidth_budgets.budgets import Budgets
from tfquiver.service.coordinator.dataset_caching.caching import Caching
from tfquiver.service.coordinator.dataset_caching.view import View
from tfquiver.service.coordinator.nodes_mounts_dispatchers.membership import Membership
from tfquiver.service.coordinator.sessions.sessions import Sessions
from tfquiver.service.node.coordinator_orders.chunk_map import ChunkMap
from tfquiver.shard_owners_chunks_hash_prefixes import prefixes

CHUNK_TIMEOUT_S = 30.0
CHUNKS, PARTITIONS = 6, 2
_NODE = "the node that holds"


class Cached:
    """`begin` it with the sessions of each coordinator. Every shard has one record, of 16 bytes at least.

    Args:
      rotation: the data set is cached by chunks, which come and go so; "": nobody has set anything.
    """

    def __init__(self, lengths: Sequence[int], clock: Clock, rotation: str = "") -> None:
        hashes = [hashlib.sha256(str(shard).encode()).digest() for shard in range(len(lengths))]
        self.digest = Digest.build(
            "cached",
            [FileEntry("file:///cached", sum(lengths), "1", "none")],
            np.frombuffer(b"".join(hashes), np.uint8),
            np.zeros(len(lengths)),
            np.cumsum([0, *lengths])[:-1],
            lengths,
            np.ones(len(lengths)),
        )
        self.digest_id = self.digest.digest_id
        self.map = ChunkMap(self.digest, CHUNKS, PARTITIONS)
        self._clock, self._rotation = clock, rotation
        self._held: set[int] = set()

    def begin(
        self, sessions: Sessions, budgets: Budgets | None = None, wake: Callable[[bytes], None] = lambda _: None
    ) -> None:
        """A coordinator starts: it reads the setting from its log, and is told what the node holds."""
        membership = Membership(self._clock, 1e9, 1)
        membership.heartbeat(types_pb2.NodeInfo(node_id=_NODE, quota_bytes=1 << 40), "1")
        membership.inventory(_NODE, pb2.Inventory(full=True, version=1))
        self.caching = Caching(
            self._clock, membership, sessions, CHUNK_TIMEOUT_S, wake, lambda make, then: then(make()), budgets
        )
        if self._rotation:
            setting = self.rotating(self._rotation)
            self.caching.apply(log_pb2.CacheSet(digest_id=self.digest_id, setting=setting))
        came, goes = self.caching.residency.replaced(_NODE, self._prefixes(sorted(self._held)))
        self.caching.changed([*came, *goes])
        opening = self.caching.residency.opening()
        assert self.caching.open(opening, *self.caching.prepare(self.digest, opening))
        self.caching.residency.finish(opening)

    def rotating(self, rotation: str, share: float = 0.6) -> types_pb2.CacheSetting:
        """Within so much of what it takes; two chunks at least."""
        setting = types_pb2.CacheSetting(mode=types_pb2.CACHE_MODE_COOPERATIVE, rotation=rotation)
        setting.chunks, setting.partitions = CHUNKS, PARTITIONS
        sizes_bytes = most_disk_bytes(self.digest.lengths)
        by_chunk = [int(sizes_bytes[self.map.shards(chunk)].sum()) for chunk in range(CHUNKS)]
        setting.allocation_bytes = max(int(share * sum(by_chunk)), sum(sorted(by_chunk)[-2:]))
        return setting

    @property
    def by_chunks(self) -> bool:
        return bool(self._rotation)

    def view(self, _: bytes) -> View:
        return self.caching.view(self.digest_id)

    def hold(self, shards: Sequence[int], there: bool = True) -> None:
        """The node has got them, or has lost them, and says so."""
        (self._held.update if there else self._held.difference_update)(shards)
        residency = self.caching.residency
        change = residency.added if there else residency.removed
        self.caching.changed(change(_NODE, self._prefixes(shards)), loaded=there)

    def look(self) -> None:
        """As after every lease and ack."""
        self.caching.look(self.digest_id)

    def obey(self, most: int) -> int:
        """The node does what it is told: evicts, and loads so many shards; their bytes."""
        decision = self.caching.rotations.decision(self.digest_id)
        gone = [shard for chunk in decision.evict for shard in self.map.shards(chunk).tolist() if shard in self._held]
        self.hold(gone, there=False)
        wanted = (shard for chunk in decision.load for shard in self.map.shards(chunk).tolist())
        loaded = [shard for shard in wanted if shard not in self._held][:most]
        self.hold(loaded)
        return int(self.digest.lengths[loaded].sum())

    def time_passes(self) -> None:
        self.caching.tick({self.digest_id})

    def _prefixes(self, shards: Sequence[int]) -> prefixes.Prefixes:
        return prefixes.of_rows(self.digest.hashes[list(shards)])
