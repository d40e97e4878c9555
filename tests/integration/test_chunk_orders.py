"""A real coordinator rotates the chunks of a data set that a scripted node keeps; settings survive it."""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from tests.support.aio import on_loop
from tests.support.coordinator_client import NODE, CoordinatorClient, Reader, new_coordinator
from tests.support.digests import numbered_digest
from tfquiver import errors
from tfquiver.disk_space_of_shards.entry_size import most_disk_bytes
from tfquiver.proto.tfquiver.v1 import coordinator_pb2 as pb
from tfquiver.proto.tfquiver.v1 import types_pb2
from tfquiver.shard_owners_chunks_hash_prefixes import striping

DIGEST = numbered_digest(800)
ENTRY_BYTES = int(most_disk_bytes(DIGEST.lengths)[0])
SIZE_BYTES = DIGEST.num_shards * ENTRY_BYTES
QUOTA_BYTES = SIZE_BYTES // 5
EPOCHS = 2


class Node:
    """Holds what it is told to; its store gives every shard at once, and `fetched` counts them."""

    def __init__(self, client: CoordinatorClient) -> None:
        self._client = client
        self.held: set[int] = set()
        self.fetched: Counter[int] = Counter()
        self.keep: set[int] = set(range(DIGEST.num_shards))
        self.most_held = 0
        self._version = 0
        self._told: set[int] = set()
        self._beating = asyncio.Lock()

    async def beat(self) -> None:
        async with self._beating:
            now = set(self.held)
            request = pb.HeartbeatRequest(incarnation="1")
            request.node.node_id, request.node.quota_bytes = NODE, QUOTA_BYTES
            self._version += 1
            request.inventory.full, request.inventory.version = self._version == 1, self._version
            request.inventory.added.extend(DIGEST.shard(shard).hash for shard in sorted(now - self._told))
            request.inventory.removed.extend(DIGEST.shard(shard).hash for shard in sorted(self._told - now))
            self._told = now
            await self._client.call("Heartbeat", request)

    async def insert(self, shard: int) -> None:
        self.fetched[shard] += 1
        if shard in self.keep:
            self.held.add(shard)
            self.most_held = max(self.most_held, len(self.held))

    async def obey(self) -> None:
        """Until it is cancelled: carries orders out, loads one shard at a time."""
        version, orders = 0, None
        while True:
            request = pb.OrdersRequest(node_id=NODE, incarnation="1", version=version, wait_ms=20)
            reply = await self._client.call("Orders", request)
            if reply.version != version:
                version, (orders,) = reply.version, reply.orders
            if orders is None:
                continue
            cut = striping.stripe(DIGEST.lengths, orders.setting.chunks, orders.setting.partitions)
            evict = set(np.flatnonzero(np.isin(cut.chunk_of, list(orders.evict))).tolist())
            self.keep = set(range(DIGEST.num_shards)) - evict
            self.held -= evict
            for chunk in orders.load:
                for shard in np.flatnonzero(cut.chunk_of == chunk).tolist():
                    if shard not in self.held:
                        await self.insert(shard)
            await self.beat()


async def job(client: CoordinatorClient, node: Node, name: str) -> Counter[int]:
    """Reads `EPOCHS` epochs; the shards it got in all."""
    read: Counter[int] = Counter()
    for epoch in range(EPOCHS):
        session = await client.ticket(DIGEST, f"{name}:{epoch}")
        reader = Reader(client, session, DIGEST, f"{name}{epoch}")
        await reader.open()
        while True:
            reply = await reader.lease(8, draining=True)
            for lease in reply.leases:
                read[lease.shard] += 1
                if lease.shard not in node.held:
                    await node.insert(lease.shard)
                assert lease.owner in ("", NODE)
            if reply.leases:
                await node.beat()
            if reply.state == pb.LeaseReply.STATE_END:
                break
            await reader.ack([lease.shard for lease in reply.leases])
    return read


def cooperative(**fields: object) -> pb.SetCacheRequest:
    setting = types_pb2.CacheSetting(mode=types_pb2.CACHE_MODE_COOPERATIVE, **fields)  # type: ignore[arg-type]
    return pb.SetCacheRequest(digest_id=DIGEST.digest_id, setting=setting)


@pytest.mark.long
@pytest.mark.parametrize("rotation", ["relevance", "cyclic"])
@on_loop
async def test_three_jobs_load_what_is_not_there_once(tmp_path: Path, rotation: str) -> None:
    async with new_coordinator(tmp_path) as client:
        node = Node(client)
        await node.beat()
        await client.upload([DIGEST.to_bytes()])
        fixed = await client.call("SetCache", cooperative(rotation=rotation))
        assert fixed.allocation_bytes == QUOTA_BYTES
        assert fixed.chunks == (50 if rotation == "relevance" else 11)
        async with asyncio.TaskGroup() as group:
            obeying = group.create_task(node.obey())
            jobs = [asyncio.ensure_future(job(client, node, name)) for name in "abc"]
            async with asyncio.timeout(60):
                read = await asyncio.gather(*jobs)
            obeying.cancel()
    assert all(counts == Counter(dict.fromkeys(range(DIGEST.num_shards), EPOCHS)) for counts in read)
    fetches = sum(node.fetched.values()) / DIGEST.num_shards / EPOCHS
    # In the first epoch nothing is resident. The rest is what starts late, or was leased before a chunk had to go; on a
    # busy machine jobs get further apart. Each for itself would fetch nearly everything: three times.
    assert 0.8 <= fetches <= 1.6
    assert node.most_held <= DIGEST.num_shards / 5 * 1.3


@on_loop
async def test_settings_are_checked_and_survive(tmp_path: Path) -> None:
    async with new_coordinator(tmp_path) as client:
        with pytest.raises(errors.NotFoundError, match="no data set"):
            await client.call("SetCache", cooperative())
        await client.upload([DIGEST.to_bytes()])
        with pytest.raises(errors.ResourceExhaustedError, match="have room for 0 B"):
            await client.call("SetCache", cooperative())
        await Node(client).beat()
        for wrong, error in (
            (cooperative(allocation_bytes=QUOTA_BYTES + 1), errors.ResourceExhaustedError),
            (cooperative(allocation_bytes=100), errors.InvalidArgumentError),
            (cooperative(rotation="random"), errors.InvalidArgumentError),
            (cooperative(chunks=1 << 20), errors.InvalidArgumentError),
            (pb.SetCacheRequest(digest_id=DIGEST.digest_id), errors.InvalidArgumentError),
        ):
            with pytest.raises(error):
                await client.call("SetCache", wrong)
        get = pb.GetCacheRequest(digest_id=DIGEST.digest_id)
        assert await client.call("GetCache", get) == types_pb2.CacheSetting()
        fixed = await client.call("SetCache", cooperative(chunks=100))
        assert (fixed.chunks, fixed.rotation, fixed.allocation_bytes) == (100, "relevance", QUOTA_BYTES)
        version = (await client.call("Orders", pb.OrdersRequest())).version
        assert await client.call("Orders", pb.OrdersRequest(version=version, wait_ms=10)) == pb.OrdersReply(
            version=version
        )
    async with new_coordinator(tmp_path) as client:
        assert await client.call("GetCache", get) == fixed
        (orders,) = (await client.call("Orders", pb.OrdersRequest(version=version, wait_ms=10_000))).orders
        assert orders.setting == fixed
        unset = pb.SetCacheRequest(digest_id=DIGEST.digest_id, setting=types_pb2.CacheSetting())
        for _ in range(2):
            assert await client.call("SetCache", unset) == types_pb2.CacheSetting()
        assert not (await client.call("Orders", pb.OrdersRequest())).orders
    async with new_coordinator(tmp_path) as client:
        assert await client.call("GetCache", get) == types_pb2.CacheSetting()


@on_loop
async def test_a_change_of_the_setting_ends_the_wait_for_orders(tmp_path: Path) -> None:
    async with new_coordinator(tmp_path) as client:
        await Node(client).beat()
        await client.upload([DIGEST.to_bytes()])
        version = (await client.call("Orders", pb.OrdersRequest())).version
        waiting = asyncio.ensure_future(client.call("Orders", pb.OrdersRequest(version=version, wait_ms=10_000)))
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(0.05):
                await asyncio.shield(waiting)
                pytest.fail("nothing has changed")
        request = cooperative()
        request.setting.mode = types_pb2.CACHE_MODE_NONE
        await client.call("SetCache", request)
        async with asyncio.timeout(5):
            assert (await waiting).orders[0].setting.mode == types_pb2.CACHE_MODE_NONE
