"""A node is lost with what it kept, and others still have that in memory: it comes onto disks again (real TCP)."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from tests.support.aio import on_loop
from tests.support.store_node import Members, StoreNode, build, is_shard, two_nodes, write_files
from tfquiver.digests.digest import Digest, ShardRef
from tfquiver.scanning.cutting import CutPolicy
from tfquiver.service.node.disk.disk_cache import DiskCache
from tfquiver.service.node.disk.leaving_entries import GaveUp
from tfquiver.service.node.evicting_emptying_removing_leftovers.letting_go import LettingGo
from tfquiver.service.node.sealed_memory_of_checked_shards.ready_shard import ReadyShard
from tfquiver.service.node.sealed_memory_of_checked_shards.verified import VerifiedShard
from tfquiver.service.node.shards_from_disk_other_nodes_or_store.disk_reads import DiskReads
from tfquiver.shard_owners_chunks_hash_prefixes import rendezvous


@pytest.fixture
def digest(tmp_path: Path) -> Digest:
    return build(write_files(tmp_path / "data"), CutPolicy(4096, 16384, 65536))


def owners(digest: Digest, *names: str) -> list[str]:
    return [names[i] for i in rendezvous.owners(digest.hashes, names)]


async def read_all(node: StoreNode, digest: Digest, owner: Sequence[str], missing: Sequence[int] = ()) -> None:
    reads = (node.source.get(digest, i, owner[i], missing=i in missing) for i in range(digest.num_shards))
    good = [is_shard(shard, digest, index) for index, shard in enumerate(await asyncio.gather(*reads))]
    assert all(good)


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(10):
        while not condition():
            await asyncio.sleep(0.01)


def on_disk(digest: Digest, *nodes: StoreNode) -> set[int]:
    there = {hash for node in nodes for hash in node.disk.hashes()}
    return {index for index in range(digest.num_shards) if digest.hashes[index].tobytes() in there}


@on_loop
async def test_what_a_lost_node_kept_goes_from_memory_to_its_owners_now(tmp_path: Path, digest: Digest) -> None:
    async with two_nodes(tmp_path, digest) as (a, b):
        async with StoreNode(tmp_path / "c", [digest], node_id="c", members=a.members) as c:
            await read_all(a, digest, owners(digest, "a", "b", "c"))
            lost = on_disk(digest, c)
            read_bytes = sum(node.meter.store_bytes for node in (a, b))
        a.members.pop()
        owner = owners(digest, "a", "b")
        assert {owner[index] for index in lost} == {"a", "b"}, "it goes to this node, and to another one"
        await read_all(a, digest, owner, sorted(lost))
        await until(lambda: on_disk(digest, a, b) == set(range(digest.num_shards)))
        assert sum(node.meter.store_bytes for node in (a, b)) == read_bytes
        here = [{index for index in lost if owner[index] == node.node_id} for node in (a, b)]
        assert here == [lost & on_disk(digest, a), lost & on_disk(digest, b)]


@on_loop
async def test_an_owner_that_is_asked_for_what_it_has_in_memory_keeps_it(tmp_path: Path, digest: Digest) -> None:
    async with two_nodes(tmp_path, digest, of_a={"hot_bytes": 0}) as (a, b):
        async with StoreNode(tmp_path / "c", [digest], node_id="c", members=a.members):
            await read_all(b, digest, ["c"] * digest.num_shards)
        a.members.pop()
        await read_all(a, digest, ["b"] * digest.num_shards)
        await until(lambda: len(b.disk) == digest.num_shards)
        assert a.meter.store_bytes == b.meter.store_bytes == 0


@on_loop
async def test_what_stands_elsewhere_or_has_no_room_stays_in_memory_only(tmp_path: Path, digest: Digest) -> None:
    async with two_nodes(tmp_path, digest, of_a={"quota_bytes": 65536}) as (a, b):
        await read_all(a, digest, ["b"] * digest.num_shards)
        await read_all(a, digest, ["b"] * digest.num_shards)
        assert not len(a.disk) and a.source.landing == 0, "the coordinator did not say that it is missing"
        a.members.pop()
        everything = range(digest.num_shards)
        await read_all(a, digest, ["a"] * digest.num_shards, everything)
        await until(lambda: len(a.disk) > 0)
        assert a.disk.used_bytes <= 65536
        assert len(b.disk) == digest.num_shards


@on_loop
async def test_what_is_given_up_meanwhile_is_not_kept_again(tmp_path: Path, digest: Digest) -> None:
    async with two_nodes(tmp_path, digest) as (a, _):
        await read_all(a, digest, ["b"] * digest.num_shards)
        a.members.pop()
        await read_all(a, digest, ["a"] * digest.num_shards)
        await a.source.give_up([hash.tobytes() for hash in digest.hashes])
        assert not len(a.disk)


@on_loop
async def test_what_the_disk_lets_go_is_not_in_memory_any_more(
    tmp_path: Path, digest: Digest, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who read it there found it on no disk, and had it kept again."""
    members: Members = []
    async with StoreNode(tmp_path / "a", [digest], node_id="a", members=members) as a:
        async with StoreNode(tmp_path / "b", [digest], node_id="b", members=members) as b:
            await read_all(a, digest, ["b"] * digest.num_shards)
            members.remove(next(one for one in members if one.node_id == b.node_id))
        owner = ["a"] * digest.num_shards
        await read_all(a, digest, owner)
        await until(lambda: len(a.disk) == digest.num_shards)
        give_up, loop, sources = DiskCache.give_up, asyncio.get_running_loop(), list[str]()

        async def read() -> None:
            ready = await a.source.get(digest, 0, "a")
            sources.append(ready.source)
            ready.close()

        def then_read(disk: DiskCache, hashes: Sequence[bytes]) -> GaveUp:
            told = give_up(disk, hashes)
            asyncio.run_coroutine_threadsafe(read(), loop).result(10)
            return told

        await read()
        monkeypatch.setattr(DiskCache, "give_up", then_read)
        await a.source.give_up([hash.tobytes() for hash in digest.hashes])
        assert sources == ["hot", "store"]


@on_loop
async def test_what_is_read_while_it_is_given_up_is_not_kept_again(
    tmp_path: Path, digest: Digest, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After what waited was forgotten, and what was under way marked; before it has gone from memory."""
    members: Members = []
    async with StoreNode(tmp_path / "a", [digest], node_id="a", members=members) as a:
        async with StoreNode(tmp_path / "b", [digest], node_id="b", members=members):
            await read_all(a, digest, ["b"] * digest.num_shards)
        members.pop()
        given_up, copied, loop, let_go = (
            LettingGo._given_up,
            DiskReads.copied,
            asyncio.get_running_loop(),
            threading.Event(),
        )

        async def read() -> None:
            await read_all(a, digest, ["a"] * digest.num_shards, range(digest.num_shards))
            for _ in range(3):  # turns in which the first of them would be taken to be brought
                await asyncio.sleep(0)

        def first_read(letting_go: LettingGo, hashes: Sequence[bytes]) -> GaveUp:
            asyncio.run_coroutine_threadsafe(read(), loop).result(10)
            told = given_up(letting_go, hashes)
            let_go.set()
            return told

        def late(ref: ShardRef, ready: ReadyShard) -> VerifiedShard:
            let_go.wait(10)
            return copied(ref, ready)

        monkeypatch.setattr(LettingGo, "_given_up", first_read)
        monkeypatch.setattr(DiskReads, "copied", staticmethod(late))
        await a.source.give_up([hash.tobytes() for hash in digest.hashes])
        await until(lambda: not a.source._to_disks._queue and not a.source.landing)
        assert not len(a.disk)
        monkeypatch.undo()
        await read_all(a, digest, ["a"] * digest.num_shards)
        assert len(a.disk) == digest.num_shards, "who asks later has it kept"
