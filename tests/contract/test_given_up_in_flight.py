"""What is given up while it is on its way here, from a store that takes its time."""

from __future__ import annotations

import asyncio
import gzip
import hashlib
import threading
import time
from pathlib import Path

import pytest

from tests.support.aio import on_loop
from tests.support.store_node import StoreNode, build, is_shard, write_files
from tfquiver import errors
from tfquiver.digests.digest import Digest, ShardRef
from tfquiver.digests.file_entry import FileEntry
from tfquiver.proto.tfquiver.v1 import coordinator_pb2, types_pb2
from tfquiver.scanning.cutting import CutPolicy
from tfquiver.service.node.disk.disk_cache import DiskCache
from tfquiver.service.node.grpc_calls_warm_clear.warming import Warming
from tfquiver.service.node.reading_the_object_store.metered_store import Meter
from tfquiver.service.node.sealed_memory_of_checked_shards.verified import VerifiedShard
from tfquiver.service.node.shards_from_disk_other_nodes_or_store.fetcher import Fetcher
from tfquiver.stores.local import LocalStore

BODY = b"derived" * 1000
HASH = hashlib.sha256(BODY).digest()
DERIVED = Digest.build(
    "d", [FileEntry("derived://x/f", len(BODY), "1", "none")], [list(HASH)], [0], [0], [len(BODY)], [3]
)


class Late(LocalStore):
    """Answers when it is let."""

    def __init__(self) -> None:
        super().__init__()
        self.asked, self.answers = threading.Event(), threading.Event()

    def read(self, uri: str, offset: int, length: int, generation: str, deadline_s: float) -> bytes:
        self.asked.set()
        self.answers.wait(60)
        return super().read(uri, offset, length, generation, deadline_s)


@pytest.mark.slow
@on_loop
async def test_however_many_are_given_up_the_loop_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With something on its way, and something that others have taken: all of it is looked for in a thread."""
    hashes, over, gaps = [number.to_bytes(32, "big") for number in range(1_000_000)], False, [0.0]
    async with StoreNode(tmp_path / "cache") as node, asyncio.timeout(200):
        handing_over, looked_for = node.source._handing_over, list[bytes]()
        handing_over._taken |= {HASH, hashes[7]}
        forget = handing_over.forget
        monkeypatch.setattr(handing_over, "forget", lambda some: (looked_for.extend(some), forget(some)))

        async def others() -> None:
            while not over:
                began_s = time.perf_counter()
                await asyncio.sleep(0.001)
                gaps.append(time.perf_counter() - began_s)

        serving = asyncio.ensure_future(others())
        await asyncio.sleep(0)
        began_s = time.perf_counter()
        with node.source._unkept.until_here(hashes[3]):
            await node.source.give_up(hashes)
            assert hashes[3] in node.source._unkept
        took_s, over = time.perf_counter() - began_s, True
        await serving
        assert handing_over._taken == {HASH}
        assert looked_for == [hashes[7]]
        assert len(gaps) > 10 and max(gaps) < took_s / 4


@on_loop
async def test_what_a_slow_disk_keeps_though_nobody_waits_any_more_is_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, goes_on, insert = threading.Event(), threading.Event(), DiskCache.insert

    def slowly(self: DiskCache, shard: VerifiedShard) -> None:
        begun.set()
        goes_on.wait(60)
        insert(self, shard)

    monkeypatch.setattr(DiskCache, "insert", slowly)
    async with StoreNode(tmp_path / "cache") as node, asyncio.timeout(60):
        keeping = asyncio.ensure_future(node.source._inserts.insert(VerifiedShard.check(HASH, BODY, "f")))
        await asyncio.to_thread(begun.wait, 60)
        keeping.cancel()
        given_up = asyncio.ensure_future(node.source.give_up([HASH]))
        asyncio.get_running_loop().call_later(0.2, goes_on.set)
        await given_up
        while node.source._inserts.running():
            await asyncio.sleep(0.01)
        assert len(node.disk) == 0


@on_loop
async def test_what_is_on_its_way_to_who_stands_in_for_a_full_owner_is_waited_for_and_the_rest_not_sent(
    tmp_path: Path,
) -> None:
    """This node went on taking it for kept there: it was not read again when it was prefetched."""
    begun, goes_on, sent = threading.Event(), threading.Event(), list[bytes]()

    def stands_in(shard: VerifiedShard) -> bool:
        sent.append(shard.hash)
        begun.set()
        return goes_on.wait(60)

    bodies = [b"shard %d" % number for number in range(9)]
    shards = [VerifiedShard.check(hashlib.sha256(body).digest(), body, "f") for body in bodies]
    async with StoreNode(tmp_path / "cache") as node, asyncio.timeout(60):
        handing_over = node.source._handing_over
        handing_over._stands_in = stands_in
        tasks = [handing_over.start(shard) for shard in shards]
        await asyncio.to_thread(begun.wait, 60)
        given_up = asyncio.ensure_future(node.source.give_up([shard.hash for shard in shards[:8]]))
        while handing_over.under_way(shards[0].hash):
            await asyncio.sleep(0.001)
        assert not given_up.done()
        again = handing_over.start(shards[1])  # it is prefetched again
        goes_on.set()
        await given_up
        assert not any(node.source.is_handed_over(shard.hash) for shard in (shards[0], *shards[2:8]))
        assert await again and await tasks[8]
        assert {shards[1].hash, shards[8].hash} == handing_over._taken
        assert set(sent) <= {shards[0].hash, shards[1].hash, shards[8].hash}, "but what the two threads were about"
        assert not handing_over


@pytest.mark.parametrize("cancelled", [True, False])
@pytest.mark.parametrize("compressed", [False, True])
@on_loop
async def test_what_was_being_prefetched_does_not_come_to_stand(
    tmp_path: Path, compressed: bool, cancelled: bool
) -> None:
    pattern = write_files(tmp_path / "data", files=1)
    if compressed:
        path = tmp_path / "data" / "0.tfrecord"
        path.write_bytes(gzip.compress(path.read_bytes()))
    digest, store = build(pattern), Late()
    hashes = [row.tobytes() for row in digest.hashes]
    async with StoreNode(tmp_path / "cache", store_for=lambda _: store) as node:
        loads = [asyncio.ensure_future(node.source.load(digest, index)) for index in range(digest.num_shards)]
        await asyncio.to_thread(store.asked.wait, 60)
        if cancelled:
            for load in loads:
                load.cancel()
            await asyncio.gather(*loads, return_exceptions=True)
        await node.source.give_up(hashes)
        store.answers.set()
        if not cancelled:
            await asyncio.gather(*loads)
        async with asyncio.timeout(60):
            while list(node.source._flights) or node.fetcher.passing():
                await asyncio.sleep(0.01)
        assert len(node.disk) == 0
        assert not any(hash in node.source._unkept for hash in hashes)
        assert is_shard(await node.source.get(digest, 0, node.node_id), digest, 0)
        assert hashes[0] in node.disk, "who asks for it later has it kept"


@pytest.mark.parametrize("compressed", [False, True])
@on_loop
async def test_what_is_prefetched_again_while_it_is_on_its_way_still_is_kept(tmp_path: Path, compressed: bool) -> None:
    """The later one is given what the store was asked for before, which the first of them must not keep."""
    pattern = write_files(tmp_path / "data", files=1)
    if compressed:
        path = tmp_path / "data" / "0.tfrecord"
        path.write_bytes(gzip.compress(path.read_bytes()))
    digest, store = build(pattern), Late()
    async with StoreNode(tmp_path / "cache", store_for=lambda _: store) as node, asyncio.timeout(60):
        loads = [asyncio.ensure_future(node.source.load(digest, index)) for index in range(digest.num_shards)]
        await asyncio.to_thread(store.asked.wait, 60)
        await node.source.give_up([row.tobytes() for row in digest.hashes])
        again = [asyncio.ensure_future(node.source.load(digest, index)) for index in range(digest.num_shards)]
        await asyncio.sleep(0)
        store.answers.set()
        await asyncio.gather(*loads, *again)
        assert len(node.disk) == len({row.tobytes() for row in digest.hashes})


@on_loop
async def test_a_derived_shard_that_is_computed_twice_is_kept_by_neither(tmp_path: Path) -> None:
    """An owner that waits for this node asks it back: two flights of one shard."""
    gates, begun = [asyncio.Event(), asyncio.Event()], asyncio.Queue[asyncio.Event]()
    not_begun = iter([*gates, asyncio.Event()])

    async def compute(digest: Digest, ref: ShardRef) -> VerifiedShard:
        gate = next(not_begun)
        begun.put_nowait(gate)
        await gate.wait()
        return VerifiedShard.check(ref.hash, BODY, "here")

    async with StoreNode(tmp_path / "cache", compute=compute) as node, asyncio.timeout(60):
        got = []
        for ask_others in (True, False):
            got.append(asyncio.ensure_future(node.source.get(DERIVED, 0, node.node_id, ask_others=ask_others)))
            await begun.get()
        await node.source.give_up([HASH])
        for gate, one in zip(gates, got, strict=True):
            gate.set()
            (await one).close()
            assert len(node.disk) == 0
        assert HASH not in node.source._unkept
        later = asyncio.ensure_future(node.source.get(DERIVED, 0, node.node_id))
        (await begun.get()).set()
        assert is_shard(await later, DERIVED, 0)
        assert HASH in node.disk


@on_loop
async def test_a_derived_shard_that_is_being_placed_is_waited_for() -> None:
    placing, let_go, stood = threading.Event(), threading.Event(), list[bytes]()

    def place(shard: VerifiedShard) -> None:
        placing.set()
        let_go.wait(60)
        stood.append(shard.hash)

    async def compute(digest: Digest, ref: ShardRef) -> VerifiedShard:
        return VerifiedShard.check(ref.hash, BODY, "here")

    fetcher = Fetcher(Meter(), place, deadline_s=10.0, compute=compute)
    fetch = asyncio.ensure_future(fetcher.fetch(DERIVED, DERIVED.shard(0), keep=True))
    await asyncio.to_thread(placing.wait, 60)
    fetch.cancel()
    await asyncio.gather(fetch, return_exceptions=True)
    given_up = asyncio.ensure_future(fetcher.keep_none({HASH}))
    for _ in range(10):
        await asyncio.sleep(0)
    was_done = given_up.done()
    let_go.set()
    await given_up
    assert not was_done
    assert stood == [HASH], "it can be deleted now"
    await fetcher.close()


async def never_read(digest_id: bytes, shards: object) -> coordinator_pb2.MissingReply:
    raise errors.NotFoundError("nobody has read it")


async def warm(warming: Warming, digest: Digest) -> str:
    """Its trouble, when it is over."""
    return [told.trouble async for told in warming.warm(digest)][-1]


@on_loop
async def test_a_warm_up_of_what_is_removed_before_it_has_begun_to_load_loads_nothing(tmp_path: Path) -> None:
    digest, store = build(write_files(tmp_path / "data"), CutPolicy(512, 1024, 4096)), Late()
    asked, answers = asyncio.Event(), asyncio.Event()

    async def missing(digest_id: bytes, shards: object) -> coordinator_pb2.MissingReply:
        asked.set()
        await answers.wait()
        return await never_read(digest_id, shards)

    async with StoreNode(tmp_path / "cache", store_for=lambda _: store) as node, asyncio.timeout(60):
        members = [*node.members, types_pb2.NodeInfo(node_id="zz", quota_bytes=1 << 30)]
        warming = Warming(node.node_id, node.disk, node.source, lambda: members, missing)
        warmed = asyncio.ensure_future(warm(warming, digest))
        await asked.wait()
        warming.removed([digest.digest_id])
        answers.set()
        store.answers.set()
        assert "removed" in await warmed
        assert not store.asked.is_set()
        assert len(node.disk) == 0


@pytest.mark.slow
@on_loop
async def test_a_warm_up_of_what_was_removed_ends(tmp_path: Path) -> None:
    digest, store = build(write_files(tmp_path / "data"), CutPolicy(512, 1024, 4096)), Late()
    hashes = [row.tobytes() for row in digest.hashes]

    async with StoreNode(tmp_path / "cache", store_for=lambda _: store) as node, asyncio.timeout(60):
        warming = Warming(node.node_id, node.disk, node.source, lambda: node.members, never_read)
        warmed = asyncio.ensure_future(warm(warming, digest))
        await asyncio.to_thread(store.asked.wait, 60)
        warming.removed([digest.digest_id])
        await node.source.give_up(hashes)
        store.answers.set()
        assert "removed" in await warmed
        assert len(node.disk) == 0


@pytest.mark.slow
@on_loop
async def test_a_warm_up_says_what_was_given_up_again_meanwhile(tmp_path: Path) -> None:
    """As by `tfquiver clear`. It said that it was over, and of what was not there nothing."""
    digest, store = build(write_files(tmp_path / "data"), CutPolicy(512, 1024, 4096)), Late()

    async with StoreNode(tmp_path / "cache", store_for=lambda _: store) as node, asyncio.timeout(60):
        warming = Warming(node.node_id, node.disk, node.source, lambda: node.members, never_read)
        warmed = asyncio.ensure_future(warm(warming, digest))
        await asyncio.to_thread(store.asked.wait, 60)
        await node.source.give_up([digest.hashes[0].tobytes()])
        store.answers.set()
        assert await warmed == "1 shard of it went again meanwhile"
        assert await warm(warming, digest) == ""
