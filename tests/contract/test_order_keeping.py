"""A node's store under a coordinator's orders, given by hand: what is loaded, when, and what goes. Real files."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.support import rotating
from tests.support.aio import on_loop
from tests.support.order_world import CHUNKS, ONE_RECORD, PER_CHUNK, SHARDS, World, world
from tests.support.store_node import StoreNode, build
from tfquiver import errors
from tfquiver.digests.digest import Digest
from tfquiver.proto.tfquiver.v1 import coordinator_pb2 as pb
from tfquiver.service.node.coordinator_orders.chunk_orders import OtherNodes


@on_loop
async def test_what_is_ordered_is_loaded_once_and_what_is_ordered_away_goes(tmp_path: Path) -> None:
    async with world(tmp_path) as w:
        w.give(load=[3, 5], urgent=1)
        await w.until(lambda: w.held(3) == w.held(5) == PER_CHUNK)
        assert len(w.node.disk) == len(w.store.reads) == 2 * PER_CHUNK
        assert set(w.store.reads[:PER_CHUNK]) == {int(w.digest.offsets[shard]) for shard in w.shards(3)}
        w.give(load=[1], urgent=1, evict=[3])
        await w.until(lambda: w.held(1) == PER_CHUNK)
        assert (w.held(3), w.held(5)) == (0, PER_CHUNK)
        await w.until(lambda: not w.orders._loads)
        stats = w.node.source.stats()
        assert (stats.loads, stats.evictions, stats.misses) == (3 * PER_CHUNK, PER_CHUNK, 0)
        assert stats.loaded_bytes == stats.store_bytes == 3 * PER_CHUNK * int(w.digest.lengths[0])
    async with world(tmp_path) as w:  # another start: everything is here already
        w.give(load=[1, 5], urgent=2)
        w.give(load=[1, 5, 6], urgent=3)
        await w.until(lambda: w.held(6) == PER_CHUNK)
        assert len(w.store.reads) == PER_CHUNK


@on_loop
async def test_readers_and_orders_share_one_fetch(tmp_path: Path) -> None:
    async with world(tmp_path) as w:
        first = w.shards(2)[0]
        w.store.held = {int(w.digest.offsets[shard]) for shard in w.shards(2)}
        w.give(load=[2], urgent=1)
        await asyncio.to_thread(w.store.await_read, int(w.digest.offsets[first]))
        readers = [asyncio.ensure_future(w.read(first, owner)) for owner in ("", w.node.node_id)]
        late = asyncio.ensure_future(w.read(w.shards(4)[0], ""))  # kept nowhere, until it is ordered
        await asyncio.to_thread(w.store.await_read, int(w.digest.offsets[w.shards(4)[0]]))
        w.store.let_go()
        assert await asyncio.gather(*readers, late) == [True] * 3
        await w.until(lambda: w.held(2) == PER_CHUNK)
        assert w.held(4) == 0
        assert sorted(w.store.reads) == sorted({*w.store.reads}), "nothing was read twice"


async def held_up(w: World, shard: int) -> asyncio.Future[bool]:
    """Who reads it, for nobody's cache, when the store has been asked; it does not answer yet."""
    w.store.held = {int(w.digest.offsets[shard])}
    reader = asyncio.ensure_future(w.read(shard, ""))
    await asyncio.to_thread(w.store.await_read, int(w.digest.offsets[shard]))
    return reader


@on_loop
async def test_a_fetch_for_a_reader_that_keeps_nothing_is_kept_once_it_is_ordered(tmp_path: Path) -> None:
    async with world(tmp_path) as w:
        shard = w.shards(4)[0]
        reader = await held_up(w, shard)
        w.give(load=[4], urgent=1)
        await w.until(lambda: w.held(4) == PER_CHUNK - 1)
        w.store.let_go()
        assert await reader
        await w.until(lambda: w.held(4) == PER_CHUNK)
        assert len(w.store.reads) == PER_CHUNK


@on_loop
async def test_a_fetch_that_lands_after_its_chunk_has_gone_does_not_stay(tmp_path: Path) -> None:
    async with world(tmp_path) as w:
        w.store.held = {int(w.digest.offsets[shard]) for shard in w.shards(2)}
        w.give(load=[2], urgent=1)
        await w.until(lambda: len(w.store.reads) == PER_CHUNK)
        w.give(evict=[2])
        w.give(load=[6], urgent=1)  # it is not named any more: nothing of it was here
        await w.until(lambda: w.held(6) == PER_CHUNK)
        w.store.let_go()
        await w.until(lambda: not w.orders._loads)
        assert (w.held(2), w.held(6)) == (0, PER_CHUNK)
        w.give(load=[2], urgent=1)
        await w.until(lambda: w.held(2) == PER_CHUNK)


@on_loop
async def test_a_reader_is_not_told_that_its_chunk_has_gone_once_it_is_ordered_again(tmp_path: Path) -> None:
    async with world(tmp_path) as w:
        w.give(load=[2], urgent=1)
        await w.until(lambda: w.held(2) == PER_CHUNK)
        w.give(evict=[2])
        await w.until(lambda: w.held(2) == 0)
        first, second = w.shards(2)[:2]
        assert await w.read(first)
        assert w.held(2) == 0
        w.give(load=[2], urgent=1)
        assert w.node.disk.wanted(w.digest.shard(second).hash), "at once"


@on_loop
async def test_what_nobody_waits_for_waits_for_the_readers(tmp_path: Path) -> None:
    async with world(tmp_path) as w:
        missed = w.shards(7)[0]
        reader = await held_up(w, missed)
        w.give(load=[1, 2], urgent=1)
        await w.until(lambda: w.held(1) == PER_CHUNK)
        await asyncio.sleep(0.1)
        assert w.held(2) == 0, "one that is waited for is loaded all the same, the other is not"
        w.store.let_go()
        assert await reader
        await w.until(lambda: w.held(2) == PER_CHUNK)


@pytest.mark.slow
@on_loop
async def test_what_nobody_waits_for_keeps_to_its_rate(tmp_path: Path) -> None:
    length = 8192
    async with world(tmp_path, refill_bytes_per_s=10 * length) as w:
        loop = asyncio.get_running_loop()
        began_s = loop.time()
        w.give(load=[1, 2], urgent=0)
        await w.until(lambda: w.held(1) + w.held(2) == 2 * PER_CHUNK)
        assert loop.time() - began_s > 1.2  # half a second's worth at once, the others at 10 a second
        began_s = loop.time()
        w.give(load=[3, 4, 5], urgent=3)
        await w.until(lambda: w.held(3) + w.held(4) + w.held(5) == 3 * PER_CHUNK)
        assert loop.time() - began_s < 2.0


@on_loop
async def test_a_shard_that_cannot_be_had_does_not_hold_up_the_others_nor_the_store(tmp_path: Path) -> None:
    async with world(tmp_path) as w:
        bad = int(w.digest.offsets[w.shards(2)[4]])
        w.store.broken = {bad}
        w.give(load=[2, 3], urgent=1)
        await w.until(lambda: w.held(2) == PER_CHUNK - 1 and w.held(3) == PER_CHUNK)
        for _ in range(20):
            w.give(load=[2, 3], urgent=1)  # orders repeated are no reason to hurry
            await asyncio.sleep(0.01)
        assert w.store.reads.count(bad) <= 2
        w.store.broken = set()
        await w.until(lambda: w.held(2) == PER_CHUNK)
        assert w.store.reads.count(bad) <= 4


@pytest.mark.slow
@on_loop
async def test_a_node_loads_what_it_owns_and_the_rest_when_the_others_are_gone(tmp_path: Path) -> None:
    async with world(tmp_path, others=("other-a", "other-b")) as w:
        w.give(load=list(range(CHUNKS)), urgent=CHUNKS)
        await w.until(lambda: len(w.node.disk) > 0 and not w.orders._loads)
        own = len(w.node.disk)
        assert SHARDS / 6 < own < SHARDS / 2
        del w.node.members[:2]
        w.orders.members_changed()
        await w.until(lambda: len(w.node.disk) == SHARDS)
        assert len(w.store.reads) == SHARDS


@pytest.mark.slow
@on_loop
async def test_shared_content_stays_while_another_data_set_keeps_it(tmp_path: Path) -> None:
    async with world(tmp_path) as w:
        rotating.write(tmp_path / "copy", SHARDS, files=1)
        rotating.write(tmp_path / "other", 10, files=1, seed=9)
        copy, other = (build(tmp_path / name / "*", ONE_RECORD) for name in ("copy", "other"))
        assert copy.digest_id != w.digest.digest_id
        w.node.digests |= {digest.digest_id: digest for digest in (copy, other)}
        for index in range(10):
            (await w.node.source.get(other, index, w.node.node_id)).close()
        w.orders.receive([w.order(load=[1, 2], urgent=2), w.order(mode="UNIFORM", digest=copy)])
        await w.until(lambda: w.held(1) + w.held(2) == 2 * PER_CHUNK)
        w.orders.receive([w.order(evict=[1, 2], load=[3], urgent=1), w.order(mode="UNIFORM", digest=copy)])
        await w.until(lambda: w.held(3) == PER_CHUNK)
        assert w.held(1) + w.held(2) == 2 * PER_CHUNK
        w.orders.receive([w.order(evict=[1, 2], load=[4], urgent=1), w.order(mode="NONE", digest=copy)])
        await w.until(lambda: w.held(4) == PER_CHUNK)
        assert w.held(1) + w.held(2) == 0
        assert w.held(3) == PER_CHUNK
        assert len(w.node.disk) == 2 * PER_CHUNK + 10, "what nobody has set is as it was"


@on_loop
async def test_a_node_without_room_hands_over_to_one_that_has_some(tmp_path: Path) -> None:
    async with (
        world(tmp_path, quota_bytes=5 * rotating.ENTRY_BYTES, mode="raw") as w,
        StoreNode(tmp_path / "big", [w.digest], node_id="big", members=w.node.members, mode="raw") as big,
    ):
        asked: list[int] = []

        async def missing(digest_id: bytes, shards: Sequence[int]) -> pb.MissingReply:
            asked.extend(shards)
            held = {hash for node in (w.node, big) for hash in node.disk.hashes()}
            return pb.MissingReply(shards=[s for s in shards if w.digest.shard(s).hash not in held])

        w.orders._others = OtherNodes(missing, w.node.placer.others_have_room)
        w.give(load=[1, 2], urgent=2)
        own = {s for c in (1, 2) for s in w.digest_map.own_shards(c, w.node.node_id, ("big", w.node.node_id))}
        assert len(own) > 5
        await w.until(lambda: len(w.node.disk) + len(big.disk) == len(own))
        await w.until(lambda: not w.orders._loads)
        assert (len(w.node.disk), set(asked)) == (5, own)
        assert len(w.store.reads) == len(own)
        reader = next(s for s in own if w.digest.shard(s).hash not in w.node.disk)
        w.give(load=[1, 2, 3], urgent=3)
        assert await w.read(reader, "big")
        await w.until(lambda: not w.orders._loads)
        assert sorted(w.store.reads) == sorted({*w.store.reads}), "nothing was read twice"


@pytest.mark.parametrize("mode", ["NONE", "UNIFORM", "LRU"])
@on_loop
async def test_modes_hold_for_what_readers_fetch(tmp_path: Path, mode: str) -> None:
    room = 12 * rotating.ENTRY_BYTES
    async with world(tmp_path) as w:
        for shard in range(20):
            assert await w.read(shard)
        w.give(mode=mode, bytes=room)
        kept = {"NONE": 0, "UNIFORM": 12, "LRU": 12}[mode]
        await w.until(lambda: len(w.node.disk) == kept)
        before = set(w.node.disk.hashes())
        for shard in range(20, 40):
            assert await w.read(shard)
        after = set(w.node.disk.hashes())
        assert len(after) == kept
        assert (after == before) == (mode != "LRU")
        if mode == "LRU":
            assert after == {w.digest.shard(shard).hash for shard in range(28, 40)}
        await w.until(lambda: w.node.disk.used_bytes <= room)  # what goes takes its bytes until its file is deleted


@on_loop
async def test_without_room_nothing_is_fetched_in_vain(tmp_path: Path) -> None:
    async with world(tmp_path, quota_bytes=15 * rotating.ENTRY_BYTES, mode="raw") as w:
        w.give(load=[1, 2], urgent=2)
        await w.until(lambda: len(w.node.disk) == 15)
        await w.until(lambda: not w.orders._loads)
        assert len(w.store.reads) == 15
        w.give(load=[2], urgent=1, evict=[1])
        await w.until(lambda: w.held(2) == PER_CHUNK)
        assert len(w.store.reads) == 2 * PER_CHUNK


@pytest.mark.slow
@on_loop
async def test_orders_for_a_data_set_that_cannot_be_had_wait_and_the_others_are_carried_out(tmp_path: Path) -> None:
    async with world(tmp_path) as w:
        known, rightly = w.node._digest, w.order(load=[1], urgent=1)

        async def digests(digest_id: bytes) -> Digest:
            if digest_id not in w.node.digests:
                raise errors.UnavailableError("the coordinator is away")
            return await known(digest_id)

        w.orders._digests = digests
        del w.node.digests[w.digest.digest_id]
        rotating.write(tmp_path / "other", 10, files=1, seed=9)
        other = build(tmp_path / "other" / "*", ONE_RECORD)
        w.node.digests[other.digest_id] = other
        for index in range(10):
            (await w.node.source.get(other, index, w.node.node_id)).close()
        w.orders.receive([rightly, w.order(mode="NONE", digest=other)])
        await w.until(lambda: len(w.node.disk) == 0)
        w.node.digests[w.digest.digest_id] = w.digest
        await w.until(lambda: w.held(1) == PER_CHUNK)


@on_loop
async def test_what_has_no_room_is_called_as_people_call_it(tmp_path: Path) -> None:
    """A prefetch of one said that another had its room in use, whose name the first scan's was, or a number."""
    async with world(tmp_path) as w:
        hash = w.digest.shard(0).hash
        names, given = list[str](), 4096
        w.orders.names = lambda digest_id: names

        async def lacking(called: str) -> None:
            nonlocal given
            given += 4096
            w.give(mode="UNIFORM", bytes=given)
            await w.until(lambda: w.node.disk.lacking(hash, 1 << 20).startswith(f"{called} has 0 B of its"), called)

        await lacking(f"data set {w.digest.name}")
        names.append("mine")
        await lacking("data set mine")
        names.append("another")
        await lacking("content of 2 data sets")
