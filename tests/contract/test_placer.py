"""Shards that come by while their owner is away or full: kept where there is room, for the store is not to be read
twice."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import ClassVar

import pytest

from tests.support.aio import on_loop
from tests.support.digests import numbered_digest
from tfquiver import errors
from tfquiver.proto.tfquiver.v1 import coordinator_pb2 as pb
from tfquiver.proto.tfquiver.v1 import types_pb2
from tfquiver.service.node.disk import entry
from tfquiver.service.node.disk.disk_cache import DiskCache
from tfquiver.service.node.disk_quota_books_and_eviction.accounts import AccountTerms
from tfquiver.service.node.disk_quota_books_and_eviction.rules import Why
from tfquiver.service.node.placing_at_owners_and_writing.handing_over import HandingOver
from tfquiver.service.node.placing_at_owners_and_writing.known_places import KnownPlaces
from tfquiver.service.node.placing_at_owners_and_writing.placer import Placer
from tfquiver.service.node.sealed_memory_of_checked_shards.verified import VerifiedShard
from tfquiver.shard_owners_chunks_hash_prefixes.prefixes import of_hashes
from tfquiver.shard_owners_chunks_hash_prefixes.rendezvous import Owners

MEMBERS = [types_pb2.NodeInfo(node_id=name, quota_bytes=1 << 30) for name in ("here", "away")]


def raising(error: errors.TfquiverError) -> Callable[[str, VerifiedShard, bool], None]:
    def put(node_id: str, shard: VerifiedShard, insist: bool) -> None:
        raise error

    return put


def owned_by(owner: str, names: Sequence[str]) -> VerifiedShard:
    owners = Owners(names)
    bodies = (b"%d" % number * 100 for number in range(100))
    made = (VerifiedShard.check(hashlib.sha256(body).digest(), body, "here") for body in bodies)
    return next(one for one in made if owners.of(of_hashes([one.hash])) == [owner])


@contextlib.contextmanager
def placing(
    disk: DiskCache, put: Callable[[str, VerifiedShard, bool], None], members: Sequence[types_pb2.NodeInfo] = MEMBERS
) -> Iterator[Placer]:
    placer = Placer("here", disk, lambda: members, put)
    try:
        yield placer
    finally:
        placer.here.close()


@pytest.fixture
def shard() -> VerifiedShard:
    return owned_by("away", ["here", "away"])


@pytest.mark.parametrize("error", [errors.UnavailableError("gone"), errors.ResourceExhaustedError("it is full")])
def test_nowhere_where_there_is_no_room_here_either(
    tmp_path: Path, shard: VerifiedShard, error: errors.TfquiverError
) -> None:
    disk = DiskCache(tmp_path, 100)
    with placing(disk, raising(error)) as placer:
        assert not placer.place(shard)
    assert shard.hash not in disk


@pytest.mark.parametrize(
    ("error", "kept"),
    [
        (errors.UnavailableError("it has closed the connection"), True),
        (errors.ResourceExhaustedError("it is full"), True),
        (errors.NeverFitsError("it is larger than its quota"), True),
        (errors.NotFoundError("its chunk was ordered away"), False),
    ],
)
def test_what_its_owner_cannot_be_given_is_kept_here(
    tmp_path: Path, shard: VerifiedShard, error: errors.TfquiverError, kept: bool
) -> None:
    disk = DiskCache(tmp_path, 1 << 30)
    with placing(disk, raising(error)) as placer:
        assert placer.place(shard) == kept
    assert (shard.hash in disk) == kept


def test_but_not_where_its_data_set_is_not_to_be(tmp_path: Path) -> None:
    digest = numbered_digest(1)
    shard = VerifiedShard(digest.hashes[0].tobytes(), b"x" * 100, 0)
    disk, known = DiskCache(tmp_path, 1 << 30), KnownPlaces("here")
    places = types_pb2.Places(replicas=1, groups=[types_pb2.PlaceGroup(node_ids=["away"])])
    known.use(1, [pb.DatasetPlaces(digest_id=digest.digest_id, places=places, moves=True)])
    known.has(digest)
    placer = Placer("here", disk, lambda: MEMBERS, raising(errors.UnavailableError("gone")), known)
    assert not placer.place(shard)
    assert shard.hash not in disk


@pytest.mark.parametrize("owner", ["here", "away"])
def test_another_node_with_room_keeps_it_where_there_is_none_at_its_owner_and_here(tmp_path: Path, owner: str) -> None:
    gib = 1 << 30
    told = {"here": (gib, 0), "away": (gib, 0), "full": (gib, gib), "roomy": (gib, 0), "stores nothing": (0, 0)}
    members = [types_pb2.NodeInfo(node_id=one, quota_bytes=most, used_bytes=used) for one, (most, used) in told.items()]
    asked: list[tuple[str, bool]] = []

    def put(node_id: str, shard: VerifiedShard, insist: bool) -> None:
        asked.append((node_id, insist))
        if node_id != "roomy":
            raise errors.ResourceExhaustedError("it is full")

    shard = owned_by(owner, [one for one, (most, _) in told.items() if most])
    with placing(DiskCache(tmp_path, 100), put, members) as placer:
        assert placer.place(shard)
    assert asked[-1] == ("roomy", False)
    assert not {"full", "stores nothing"} & {node_id for node_id, _ in asked}


@pytest.mark.parametrize("disk_room", [0, 100 << 20])
def test_who_has_most_room_is_told_by_disks_too_and_who_is_full_hands_over(tmp_path: Path, disk_room: int) -> None:
    """Whether its quota or its disk has less left, that is what a node has."""
    gib = 1 << 30
    members = [
        types_pb2.NodeInfo(node_id="here", quota_bytes=100),
        types_pb2.NodeInfo(node_id="large quota", quota_bytes=50 * gib, disk_room_bytes=disk_room),
        types_pb2.NodeInfo(node_id="large disk", quota_bytes=gib, used_bytes=gib // 2, disk_room_bytes=90 * gib),
    ]
    asked = []

    def put(node_id: str, shard: VerifiedShard, insist: bool) -> None:
        asked.append(node_id)
        raise errors.ResourceExhaustedError("not now")

    placer = Placer("here", DiskCache(tmp_path, 100), lambda: members, put)
    shard = owned_by("here", [one.node_id for one in members])
    assert placer.may_hand_over(shard.hash, len(shard.raw))
    assert placer.has_room_for(shard.hash, len(shard.raw))
    assert not placer.has_room_for(shard.hash, len(shard.raw), gib)
    assert not placer.hand_over(shard), "nobody takes it"
    assert asked == (["large disk", "large quota"] if disk_room else ["large disk"])


@pytest.mark.parametrize(("besides", "has_room"), [(0, True), (3, True), (4, True), (5, False), (500, False)])
def test_room_is_planned_over_all_that_have_some(tmp_path: Path, besides: int, has_room: bool) -> None:
    """Who was nearly full asked for room on one node for all that was on its way to others."""
    size_bytes = entry.disk_bytes(entry.HEADER_BYTES + 100)
    rooms = {"here": 0, "one": 2 * size_bytes, "two": 3 * size_bytes - 1, "three": size_bytes, "none": size_bytes - 1}
    members = [types_pb2.NodeInfo(node_id=one, quota_bytes=max(1, room)) for one, room in rooms.items()]
    placer = Placer("here", DiskCache(tmp_path, 100), lambda: members, lambda node_id, shard, insist: None)
    shard = VerifiedShard(b"s" * 32, b"x" * 100, 0)
    assert placer.has_room_for(shard.hash, 100, besides * size_bytes) == has_room
    assert placer.may_hand_over(shard.hash, 100, besides * size_bytes) == has_room
    assert placer.others_have_room(size_bytes, besides * size_bytes) == has_room


@on_loop
async def test_what_is_being_handed_over_has_its_part_of_that_room(tmp_path: Path) -> None:
    """Each of a hundred shards was thought to have all of it to itself."""
    shards = [VerifiedShard(bytes([number]) * 32, b"x" * 100, 0) for number in range(5)]
    room_bytes = 2 * entry.disk_bytes(entry.HEADER_BYTES + 100)
    away = types_pb2.NodeInfo(node_id="away", quota_bytes=room_bytes)
    may_take = threading.Event()

    def put(node_id: str, shard: VerifiedShard, insist: bool) -> None:
        may_take.wait(10)

    handing_over = HandingOver(Placer("here", DiskCache(tmp_path, 100), lambda: [away], put))
    under_way = []
    try:
        for shard, may in zip(shards, [True, True, False, False, False], strict=True):
            assert handing_over.may(shard.hash, 100) == may
            if may:
                under_way.append(handing_over.start(shard))
        giving_up = asyncio.create_task(handing_over.give_up([shards[0].hash]))
        await asyncio.sleep(0)
        assert not handing_over.may(shards[2].hash, 100), "it may be there by now"
        may_take.set()
        await asyncio.gather(giving_up, *under_way)
        assert handing_over.may(shards[2].hash, 100)
    finally:
        may_take.set()
        await handing_over.close()


class Ordered:
    """Everything is of one data set, of which somebody else says what goes."""

    terms: ClassVar = {b"chunks": AccountTerms("chunks", by_order=True)}

    def accounts(self, hash: bytes, why: Why) -> Sequence[bytes]:
        return [b"chunks"]

    def accounts_of(self, hashes: Sequence[bytes]) -> Sequence[Sequence[bytes]]:
        return [[b"chunks"] for _ in hashes]


def test_what_is_ordered_is_offered_to_full_nodes_once_it_is_here_and_not_fetched_for_them(tmp_path: Path) -> None:
    disk = DiskCache(tmp_path, 100)
    disk.use(Ordered())
    full = types_pb2.NodeInfo(node_id="full", quota_bytes=1 << 20, used_bytes=1 << 20)
    asked: list[bool] = []
    placer = Placer("here", disk, lambda: [full], lambda node_id, shard, insist: asked.append(insist))
    shard = owned_by("here", ["here", "full"])
    assert placer.may_hand_over(shard.hash, len(shard.raw))
    assert placer.hand_over(shard)
    assert asked == [True]
    assert not placer.has_room_for(shard.hash, len(shard.raw)), "a prefetch would read the store for nothing"
