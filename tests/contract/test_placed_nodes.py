"""Nodes that know a placement, over real TCP: who is asked for a shard, how far, and who keeps it."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.aio import on_loop
from tests.support.store_node import Members, StoreNode, build, is_shard, two_nodes, write_files
from tfquiver import errors
from tfquiver.digests.digest import Digest
from tfquiver.proto.tfquiver.v1 import coordinator_pb2 as pb
from tfquiver.proto.tfquiver.v1 import types_pb2
from tfquiver.service.node.grpc_calls_warm_clear.warming import Warming
from tfquiver.service.node.moving_shards import look_again
from tfquiver.service.node.moving_shards import moves as moves_module
from tfquiver.service.node.moving_shards.moves import Moves
from tfquiver.service.node.shards_from_disk_other_nodes_or_store import reach
from tfquiver.shard_owners_chunks_hash_prefixes import prefixes

RACKS = {"a": "r1", "b": "r1", "c": "r2", "d": "r2"}


@pytest.fixture
def digest(tmp_path: Path) -> Digest:
    return build(write_files(tmp_path / "data"))


@contextlib.asynccontextmanager
async def started(tmp_path: Path, digest: Digest, names: str = "abcd") -> AsyncIterator[dict[str, StoreNode]]:
    members: Members = []
    async with contextlib.AsyncExitStack() as stack:
        yield {
            name: await stack.enter_async_context(
                StoreNode(tmp_path / name, [digest], node_id=name, members=members, labels={"rack": RACKS[name]})
            )
            for name in names
        }


def place(nodes: dict[str, StoreNode], digest: Digest, groups: dict[str, str], replicas: int = 1) -> None:
    told = told_of(digest, groups, replicas)
    for node in nodes.values():
        assert node.known.use(node.known.version + 1, [told])
        node.known.has(digest)


def told_of(digest: Digest, groups: dict[str, str], replicas: int = 1) -> pb.DatasetPlaces:
    told = pb.DatasetPlaces(digest_id=digest.digest_id, places=types_pb2.Places(replicas=replicas), moves=True)
    for rack, names in groups.items():
        told.places.groups.add(rack=rack, node_ids=list(names))
    return told


def first(node: StoreNode, digest: Digest) -> list[str]:
    places = node.known.of(digest.digest_id)
    assert places
    return places.first(prefixes.of_rows(digest.hashes))


def keepers(node: StoreNode, digest: Digest, rack: str) -> list[str]:
    places = node.known.of(digest.digest_id)
    assert places
    return places.keepers(prefixes.of_rows(digest.hashes), rack)


@pytest.mark.slow
@on_loop
async def test_with_racks_each_has_its_copy_and_one_node_reads_the_store(tmp_path: Path, digest: Digest) -> None:
    async with started(tmp_path, digest) as nodes:
        place(nodes, digest, {"r1": "ab", "r2": "cd"})
        homes = first(nodes["a"], digest)

        async def read(name: str, owners: list[str]) -> None:
            shards = range(digest.num_shards)
            ready = await asyncio.gather(*(nodes[name].source.get(digest, i, owners[i]) for i in shards))
            good = [is_shard(one, digest, i) for i, one in enumerate(ready)]
            assert all(good)

        await asyncio.gather(*(read(name, keepers(nodes[name], digest, RACKS[name])) for name in nodes))
        assert sum(node.meter.store_bytes for node in nodes.values()) == digest.size_bytes
        for name, node in nodes.items():
            own = {
                digest.hashes[i].tobytes() for i, its in enumerate(keepers(node, digest, RACKS[name])) if its == name
            }
            assert set(node.disk.hashes()) == own
            assert node.meter.store_requests <= homes.count(name)
        crossed = sum(node.source.stats().cross_rack_bytes for node in nodes.values())
        assert crossed == digest.size_bytes  # to the rack that is not its home


@on_loop
async def test_a_node_that_cannot_be_reached_is_passed_by(tmp_path: Path, digest: Digest) -> None:
    """Kept twice, and one of the two is gone: no store read."""
    async with started(tmp_path, digest, "abc") as nodes:
        place(nodes, digest, {"": "ab"}, 2)
        for name in "ab":
            for i in range(digest.num_shards):
                (await nodes[name].source.get(digest, i, name)).close()
        await nodes["a"].port.stop()
        read = sum(node.meter.store_bytes for node in nodes.values())
        for i in range(digest.num_shards):
            assert is_shard(await nodes["c"].source.get(digest, i, "a"), digest, i)
        assert sum(node.meter.store_bytes for node in nodes.values()) == read
        assert len(nodes["c"].disk) == 0


@on_loop
async def test_how_far_a_peer_goes(tmp_path: Path, digest: Digest) -> None:
    async with started(tmp_path, digest, "ab") as nodes:
        a, b = nodes.values()
        with pytest.raises(errors.UnavailableError, match="does not stand here any more"):
            await a.peers.get("b", digest, digest.shard(0), reach=reach.ON_DISK)
        with pytest.raises(errors.UnavailableError):
            await a.source.take_over(digest, 0, "b")
        assert b.meter.store_bytes == 0
        assert is_shard(await a.peers.get("b", digest, digest.shard(0), reach=reach.STORE), digest, 0)
        assert b.meter.store_requests == 1
        place(nodes, digest, {"r1": "a", "r2": "b"})
        theirs = [i for i, name in enumerate(first(b, digest)) if name == "a" and i]
        assert is_shard(await a.peers.get("b", digest, digest.shard(theirs[0]), reach=reach.STORE), digest, theirs[0])
        assert (len(a.disk), b.meter.store_requests) == (0, 2)  # it asked nobody further
        assert is_shard(await a.peers.get("b", digest, digest.shard(theirs[1])), digest, theirs[1])
        assert (len(a.disk), b.meter.store_requests) == (1, 2)  # a plain GET: the home was asked, and keeps it
        await a.source.take_over(digest, theirs[0], "b")
        assert digest.shard(theirs[0]).hash in a.disk
        assert a.source.stats().moved == 1


@on_loop
async def test_two_that_were_told_differently_do_not_wait_for_each_other_for_ever(
    tmp_path: Path, digest: Digest, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tfquiver.service.node.shards_from_disk_other_nodes_or_store.other_nodes._ASK_S", 0.5)
    async with started(tmp_path, digest, "ab") as nodes:
        a, b = nodes.values()
        # Each takes the other for the first owner of everything.
        for node, other in ((a, "b"), (b, "a")):
            monkeypatch.setattr(node.known, "before_store", lambda digest_id, hash, other=other: other)
        async with asyncio.timeout(20):
            one, two = await asyncio.gather(a.source.get(digest, 0, "a"), b.source.get(digest, 0, "b"))
        assert is_shard(one, digest, 0)
        assert is_shard(two, digest, 0)


@on_loop
async def test_what_comes_by_goes_to_the_first_owner_and_only_that_one_warms(tmp_path: Path, digest: Digest) -> None:
    async with started(tmp_path, digest, "abc") as nodes:
        place(nodes, digest, {"": "bc"}, 2)
        owners = first(nodes["a"], digest)
        for i in range(digest.num_shards):
            assert nodes["a"].placer.owner(digest.hashes[i].tobytes()) == owners[i]

        async def missing(digest_id: bytes, shards: object) -> pb.MissingReply:
            raise errors.NotFoundError("nobody has read it")

        for name, node in nodes.items():
            warming = Warming(name, node.disk, node.source, lambda: nodes["a"].members, missing, node.known)
            told = [one async for one in warming.warm(digest)]
            assert told[-1].over
            assert told[-1].resident_shards == len(node.disk) == owners.count(name)
        assert sum(node.meter.store_bytes for node in nodes.values()) == digest.size_bytes


@pytest.mark.slow
@on_loop
async def test_nothing_is_given_up_before_its_time_or_by_another_placement(
    tmp_path: Path, digest: Digest, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(moves_module, "GIVE_UP_AFTER_S", 1.5)
    monkeypatch.setattr(look_again, "FIRST_LOOK_AGAIN_S", 0.05)
    async with started(tmp_path, digest, "ab") as nodes:
        a, b = nodes.values()
        for i in range(digest.num_shards):
            (await a.source.get(digest, i, "a")).close()
            (await b.source.get(digest, i, "b")).close()
        version, asked = 7, list[pb.HoldersRequest]()

        async def holders(request: pb.HoldersRequest) -> pb.HoldersReply:
            asked.append(request)
            if request.places_version != version:
                return pb.HoldersReply(places_version=version)
            everything = b"\xff" * ((len(request.prefixes) + 7) // 8)
            return pb.HoldersReply(held=[everything for _ in request.node_ids], places_version=version)

        moves = Moves("a", a.disk, a.source, a.known, holders, a._digest, lambda: a.members, 0)
        moves.start()
        try:
            moves.told(6, [told_of(digest, {"": "b"})])  # the coordinator is at 7 by now
            await asyncio.sleep(2.0)
            assert len(a.disk) == len({row.tobytes() for row in digest.hashes})
            assert asked
            moves.told(7, [told_of(digest, {"": "b"})])
            began = asyncio.get_running_loop().time()
            async with asyncio.timeout(20):
                while len(a.disk):
                    await asyncio.sleep(0.02)
            assert asyncio.get_running_loop().time() - began >= 1.5
            (report,) = moves.reports()
            async with asyncio.timeout(20):
                while report.to_go_shards or report.places_version != 7:
                    await asyncio.sleep(0.02)
                    (report,) = moves.reports()
        finally:
            await moves.close()


@on_loop
async def test_what_finds_no_room_is_not_sent_again_and_again(
    tmp_path: Path, digest: Digest, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(look_again, "FIRST_LOOK_AGAIN_S", 0.05)
    monkeypatch.setattr(look_again, "LONGEST_LOOK_AGAIN_S", 0.1)
    async with two_nodes(tmp_path, digest, of_a={"quota_bytes": 64 << 10}) as (a, b):
        for i in range(digest.num_shards):
            (await b.source.get(digest, i, "b")).close()

        async def holders(request: pb.HoldersRequest) -> pb.HoldersReply:
            everything = b"\xff" * ((len(request.prefixes) + 7) // 8)
            return pb.HoldersReply(held=[everything for _ in request.node_ids], places_version=7)

        looks = 0
        plan = moves_module.move_plan.OwnPart.plan

        def counted(*arguments: Any) -> Any:
            nonlocal looks
            looks += 1
            return plan(*arguments)

        monkeypatch.setattr(moves_module.move_plan.OwnPart, "plan", counted)
        moves = Moves("a", a.disk, a.source, a.known, holders, a._digest, lambda: a.members, 0)
        moves.start()
        try:
            moves.told(7, [told_of(digest, {"": "a"})])
            async with asyncio.timeout(30):
                while looks < 8 or not moves.reports()[0].no_room_shards:  # counted anew at each look
                    await asyncio.sleep(0.02)
            (report,) = moves.reports()
            assert report.to_come_shards > 0
            asked, moved = report.no_room_shards, a.source.stats().moved
            assert 0 < moved < digest.num_shards
            assert asked > 0
            sent = []
            monkeypatch.setattr(a.source, "take_over", lambda digest, shard, holder: sent.append(shard))
            until = looks + 5
            async with asyncio.timeout(30):
                while looks < until:
                    await asyncio.sleep(0.02)
            assert a.disk.used_bytes <= 64 << 10
            assert not sent
        finally:
            await moves.close()
        assert a.meter.store_bytes == 0
