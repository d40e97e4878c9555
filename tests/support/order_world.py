"""One node that carries out orders, whose coordinator is the test."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from tests.support import rotating
from tests.support.store_node import Members, StoreNode, build, is_shard
from tfquiver import errors
from tfquiver.digests.digest import Digest
from tfquiver.proto.tfquiver.v1 import coordinator_pb2 as pb
from tfquiver.proto.tfquiver.v1 import types_pb2
from tfquiver.scanning.cutting import CutPolicy
from tfquiver.service.node.coordinator_orders.chunk_map import ChunkMap
from tfquiver.service.node.coordinator_orders.chunk_orders import ChunkOrders
from tfquiver.shard_owners_chunks_hash_prefixes import striping
from tfquiver.stores.local import LocalStore

SHARDS, CHUNKS = 80, 8
PER_CHUNK = SHARDS // CHUNKS
ONE_RECORD = CutPolicy(1, 1, 1)


class SlowStore(LocalStore):
    """Reads of the files in `held` wait until they are let go; those in `broken` fail."""

    def __init__(self) -> None:
        super().__init__()
        self.held: set[int] = set()
        self.broken: set[int] = set()
        self.reads: list[int] = []
        self._changed = threading.Condition()

    def read(self, uri: str, offset: int, length: int, generation: str, deadline_s: float) -> bytes:
        with self._changed:
            self.reads.append(offset)
            self._changed.notify_all()
            assert self._changed.wait_for(lambda: offset not in self.held, 30)
            if offset in self.broken:
                raise errors.UnavailableError(f"{uri} at {offset}: made to fail")
        return super().read(uri, offset, length, generation, deadline_s)

    def let_go(self) -> None:
        with self._changed:
            self.held.clear()
            self._changed.notify_all()

    def await_read(self, offset: int) -> None:
        with self._changed:
            assert self._changed.wait_for(lambda: offset in self.reads, 30)


class World:
    """One node whose coordinator is the test."""

    def __init__(self, node: StoreNode, orders: ChunkOrders, store: SlowStore, digest: Digest) -> None:
        self.node, self.orders, self.store, self.digest = node, orders, store, digest

    def order(self, *, mode: str = "COOPERATIVE", digest: Digest | None = None, **fields: Any) -> pb.DatasetOrders:
        setting = types_pb2.CacheSetting(
            mode=types_pb2.CacheMode.Value(f"CACHE_MODE_{mode}"), allocation_bytes=fields.pop("bytes", 1 << 30)
        )
        if mode == "COOPERATIVE":
            setting.chunks, setting.partitions = CHUNKS, 2
        return pb.DatasetOrders(digest_id=(digest or self.digest).digest_id, setting=setting, **fields)

    def give(self, **fields: Any) -> None:
        self.orders.receive([self.order(**fields)])

    def shards(self, chunk: int) -> list[int]:
        cut = striping.stripe(self.digest.lengths, CHUNKS, 2)
        return [shard for shard in range(SHARDS) if cut.chunk_of[shard] == chunk]

    @property
    def digest_map(self) -> ChunkMap:
        return ChunkMap(self.digest, CHUNKS, 2)

    def held(self, chunk: int) -> int:
        return sum(self.digest.shard(shard).hash in self.node.disk for shard in self.shards(chunk))

    async def until(self, condition: Callable[[], bool], what: str = "") -> None:
        async with asyncio.timeout(20):
            while not condition():
                await asyncio.sleep(0.005)
        assert condition(), what

    async def read(self, shard: int, owner: str | None = None) -> bool:
        ready = await self.node.source.get(self.digest, shard, self.node.node_id if owner is None else owner)
        return is_shard(ready, self.digest, shard)


@asynccontextmanager
async def world(
    tmp_path: Path, *, refill_bytes_per_s: float = 0, others: tuple[str, ...] = (), **options: Any
) -> AsyncIterator[World]:
    if not (tmp_path / "data").exists():
        rotating.write(tmp_path / "data", SHARDS, files=1)
    digest = build(tmp_path / "data" / "*", ONE_RECORD)
    store = SlowStore()
    members: Members = [types_pb2.NodeInfo(node_id=name, quota_bytes=1 << 30) for name in others]
    async with StoreNode(tmp_path / "cache", [digest], members=members, store_for=lambda _: store, **options) as node:
        orders = ChunkOrders(
            members[-1], node.disk, node.source, node._digest, lambda: members, refill_bytes_per_s=refill_bytes_per_s
        )
        orders.start()
        try:
            yield World(node, orders, store, digest)
        finally:
            store.let_go()
            await orders.close()
