"""What a node gives up because others hold it as well: allocations have room for each shard once."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.support import rotating
from tests.support.aio import on_loop
from tests.support.order_world import ONE_RECORD, PER_CHUNK, SHARDS, world
from tests.support.store_node import build
from tfquiver import errors
from tfquiver.proto.tfquiver.v1 import coordinator_pb2 as pb
from tfquiver.service.node.coordinator_orders import chunk_orders
from tfquiver.service.node.coordinator_orders.chunk_orders import OtherNodes


@on_loop
async def test_a_node_that_was_away_gives_up_what_others_hold_by_now(tmp_path: Path) -> None:
    async with world(tmp_path, others=("other",)) as w:
        others = set(w.shards(1)[:3])

        async def missing(digest_id: bytes, shards: Sequence[int]) -> pb.MissingReply:
            return pb.MissingReply(elsewhere=[s for s in shards if s in others])

        for shard in [*w.shards(1), *w.shards(2)]:
            assert await w.read(shard)
        w.orders._others = OtherNodes(missing, lambda size_bytes, besides_bytes: False)
        w.give()
        await w.until(lambda: len(w.node.disk) == 2 * PER_CHUNK - 3)
        others |= set(w.shards(2))
        w.give()
        await asyncio.sleep(0.05)
        assert w.held(2) == PER_CHUNK, "it was not away"
        w.orders.was_away()
        await w.until(lambda: w.held(2) == 0)
        assert w.held(1) == PER_CHUNK - 3


@on_loop
async def test_what_other_nodes_got_hold_of_meanwhile_does_not_keep_the_room_of_what_is_to_be_loaded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As where a lost node came back while this one loaded in its place."""
    monkeypatch.setattr(chunk_orders, "LOOK_AGAIN_S", 0.1)
    async with world(tmp_path, others=("other",), quota_bytes=PER_CHUNK * rotating.ENTRY_BYTES) as w:
        others: set[int] = set()

        async def missing(digest_id: bytes, shards: Sequence[int]) -> pb.MissingReply:
            return pb.MissingReply(
                shards=[s for s in shards if s not in others], elsewhere=[s for s in shards if s in others]
            )

        w.orders._others = OtherNodes(missing, lambda size_bytes, besides_bytes: False)
        for shard in w.shards(1):
            assert await w.read(shard)
        w.give(load=[1])
        await w.until(lambda: bool(w.orders._looked_over))
        others |= set(w.shards(1)[:6])
        own = set(w.digest_map.own_shards(2, w.node.node_id, ("other", w.node.node_id)))
        assert len(own) > 2
        w.give(load=[1, 2], urgent=2)
        await w.until(lambda: w.held(1) == PER_CHUNK - 6 and w.held(2) == min(6, len(own)))


@on_loop
async def test_a_data_set_that_nobody_reads_has_no_other_looked_over_in_every_round(tmp_path: Path) -> None:
    async with world(tmp_path, others=("other",)) as w:
        asked: list[int] = []

        async def missing(digest_id: bytes, shards: Sequence[int]) -> pb.MissingReply:
            if digest_id != w.digest.digest_id:
                raise errors.NotFoundError("nobody reads it")
            asked.append(len(shards))
            return pb.MissingReply()

        rotating.write(tmp_path / "unread", 10, files=1, seed=9)
        unread = build(tmp_path / "unread" / "*", ONE_RECORD)
        w.node.digests |= {unread.digest_id: unread}
        assert await w.read(w.shards(1)[0])
        w.orders._others = OtherNodes(missing, lambda size_bytes, besides_bytes: False)
        for _ in range(5):
            w.orders.receive([w.order(), w.order(digest=unread)])
            await asyncio.sleep(0.05)
        assert asked == [0, 1], "whether it is known, and the shard that is here"


@on_loop
async def test_what_another_data_set_keeps_is_not_given_up(tmp_path: Path) -> None:
    async with world(tmp_path, others=("other",)) as w:

        async def missing(digest_id: bytes, shards: Sequence[int]) -> pb.MissingReply:
            return pb.MissingReply(elsewhere=shards)

        rotating.write(tmp_path / "copy", SHARDS, files=1)
        copy = build(tmp_path / "copy" / "*", ONE_RECORD)
        w.node.digests |= {copy.digest_id: copy}
        for shard in w.shards(1):
            assert await w.read(shard)
        w.orders._others = OtherNodes(missing, lambda size_bytes, besides_bytes: False)
        w.orders.receive([w.order(), w.order(mode="UNIFORM", digest=copy)])
        await w.until(lambda: bool(w.orders._looked_over))
        assert w.held(1) == PER_CHUNK
        w.orders.was_away()
        w.give()
        await w.until(lambda: w.held(1) == 0)
