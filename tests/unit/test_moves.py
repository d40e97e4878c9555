"""What a node does of a move, look by look, and what it says of it: with a real disk, and a coordinator and another
node that are calls."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path
from typing import Any

import google_crc32c
import numpy as np
import pytest

from tests.support.aio import on_loop
from tests.support.digests import digest_of
from tfquiver import errors
from tfquiver.clock import ManualClock
from tfquiver.digests.digest import Digest, ShardRef
from tfquiver.proto.tfquiver.v1 import coordinator_pb2 as pb
from tfquiver.proto.tfquiver.v1 import types_pb2
from tfquiver.service.node.disk.disk_cache import DiskCache
from tfquiver.service.node.disk_quota_books_and_eviction.accounts import UNSET, AccountTerms
from tfquiver.service.node.disk_quota_books_and_eviction.rules import Why
from tfquiver.service.node.moving_shards.moves import GIVE_UP_AFTER_S, ChangedError, Moves
from tfquiver.service.node.placing_at_owners_and_writing.known_places import KnownPlaces
from tfquiver.service.node.reading_the_object_store.metered_store import Meter
from tfquiver.service.node.sealed_memory_of_checked_shards.hot import HotSet
from tfquiver.service.node.sealed_memory_of_checked_shards.ready_shard import ReadyShard
from tfquiver.service.node.sealed_memory_of_checked_shards.verified import VerifiedShard
from tfquiver.service.node.shards_from_disk_other_nodes_or_store.fetcher import Fetcher
from tfquiver.service.node.shards_from_disk_other_nodes_or_store.shard_source import ShardSource
from tfquiver.shard_owners_chunks_hash_prefixes import prefixes

BODIES = [b"shard %03d " % shard * 10 for shard in range(12)]
DIGEST = digest_of([hashlib.sha256(body).digest() for body in BODIES], shard_bytes=len(BODIES[0]))
HASHES = [row.tobytes() for row in DIGEST.hashes]
ALL = frozenset(range(len(BODIES)))
A, B, C = {"": "a"}, {"": "b"}, {"": "c"}


def told(groups: dict[str, str], digest: Digest = DIGEST) -> pb.DatasetPlaces:
    one = pb.DatasetPlaces(digest_id=digest.digest_id, places=types_pb2.Places(replicas=1), moves=True)
    for rack, names in groups.items():
        one.places.groups.add(rack=rack, node_ids=list(names))
    return one


class OtherNode:
    """Holds shards, gives them, and takes none."""

    mismatches = 0

    def __init__(self) -> None:
        self.held = set[int]()
        self.asked = list[int]()
        self.on_get: Callable[[], None] = lambda: None

    def knows(self, node_id: str) -> bool:
        return True

    async def get(
        self, node_id: str, digest: Digest, ref: ShardRef, suspect: bool = False, reach: int = 0
    ) -> ReadyShard:
        self.asked.append(ref.index)
        self.on_get()
        if ref.index not in self.held:
            raise errors.UnavailableError("it does not stand here any more")
        body = BODIES[ref.index]
        return ReadyShard.from_bytes(body, google_crc32c.value(body), "peer")


class Refuse:
    """Keeps all but some."""

    def __init__(self, refused: Sequence[int]) -> None:
        self.terms: dict[bytes, AccountTerms] = {}
        self._refused = {HASHES[shard] for shard in refused}

    def accounts(self, hash: bytes, why: Why) -> Sequence[bytes]:
        return () if hash in self._refused else (UNSET,)

    def accounts_of(self, hashes: Sequence[bytes]) -> Sequence[Sequence[bytes]]:
        return [self.accounts(hash, Why.STANDS) for hash in hashes]


class World:
    """Node `a`, as it is; `b` and `c`, of which the coordinator says what `other` holds."""

    def __init__(self, root: Path) -> None:
        self.clock, self.other = ManualClock(100.0), OtherNode()
        self.members = tuple(types_pb2.NodeInfo(node_id=name, quota_bytes=1 << 30) for name in "abc")
        self.disk = DiskCache(root, 1 << 30)
        self.known = KnownPlaces("a", lambda: self.members)
        fetcher = Fetcher(Meter(), lambda shard: True, deadline_s=10.0)
        self.source = ShardSource("a", self.disk, HotSet(0), fetcher, self.other, owners=self.known)
        self.version, self.settled, self.moved = 0, False, 0
        self.asked, self.over = list[pb.HoldersRequest](), 0
        self.on_digest: Callable[[], None] = lambda: None
        self.on_holders: Callable[[], None] = lambda: None
        self.moves = Moves(
            "a", self.disk, self.source, self.known, self._holders, self._digest, lambda: self.members, 0,
            self._over, self.clock,
        )  # fmt: skip

    def put(self, shards: frozenset[int]) -> None:
        for shard in shards:
            self.disk.insert(VerifiedShard.check(HASHES[shard], BODIES[shard], "here"))

    @property
    def here(self) -> set[int]:
        return {shard for shard, hash in enumerate(HASHES) if hash in self.disk}

    @property
    def report(self) -> pb.MoveReport:
        (report,) = self.moves.reports() or [pb.MoveReport()]
        return report

    def tell(self, groups: dict[str, str]) -> None:
        """The coordinator is at that version, too."""
        self.version += 1
        self.moves.told(self.version, [told(groups)])

    async def _digest(self, digest_id: bytes) -> Digest:
        self.on_digest()
        return DIGEST

    async def _holders(self, request: pb.HoldersRequest) -> pb.HoldersReply:
        self.asked.append(request)
        reply = pb.HoldersReply(places_version=request.places_version, settled=self.settled, moves=self.moved)
        held = np.isin(np.array(request.prefixes, np.uint64), prefixes.of_hashes([HASHES[i] for i in self.other.held]))
        reply.held.extend(np.packbits(held, bitorder="little").tobytes() for _ in request.node_ids)
        self.on_holders()
        return reply

    def _over(self) -> None:
        self.over += 1


@contextlib.asynccontextmanager
async def world_in(root: Path) -> AsyncIterator[World]:
    world = World(root)
    try:
        yield world
    finally:
        await world.moves.close()
        await world.source.close()


@on_loop
async def test_what_others_hold_comes_and_is_told(tmp_path: Path) -> None:
    async with world_in(tmp_path) as world:
        world.put(frozenset({0, 1}))
        world.other.held = {1, 2, 3}
        world.tell(A)
        assert await world.moves.look()
        assert world.here == {0, 1, 2, 3}
        report = world.report
        assert (report.places_version, report.to_come_shards, report.to_go_shards) == (1, 0, 0)
        assert (report.came_bytes, report.idle_looks) == (2 * len(BODIES[0]), 0)
        assert world.over == 1
        assert not await world.moves.look()
        assert (world.report.idle_looks, world.over) == (1, 1)


@on_loop
async def test_what_others_own_goes_when_they_hold_it_and_not_at_once(tmp_path: Path) -> None:
    async with world_in(tmp_path) as world:
        world.put(frozenset({0, 1, 2}))
        world.other.held = {0, 1}
        world.tell(B)
        world.clock.advance(GIVE_UP_AFTER_S - 0.1)
        assert await world.moves.look(), "it waits"
        assert (world.here, world.over) == ({0, 1, 2}, 0)
        world.clock.advance(0.2)
        assert await world.moves.look()
        assert (world.here, world.report.to_go_shards, world.report.gone_shards, world.over) == ({2}, 1, 2, 0)
        world.other.held = {0, 1, 2}
        await world.moves.look()
        assert (world.here, world.report.to_go_shards, world.over) == (set(), 0, 1)


@on_loop
async def test_what_stays_where_it_was_is_over_when_the_coordinator_says_so(tmp_path: Path) -> None:
    async with world_in(tmp_path) as world:
        world.put(frozenset({0}))
        world.tell(B)
        world.clock.advance(2 * GIVE_UP_AFTER_S)
        for looks in range(1, 4):
            assert not await world.moves.look()
            assert (world.report.idle_looks, world.over) == (looks, 0)
        world.settled = True
        await world.moves.look()
        assert (world.here, world.report.to_go_shards, world.over) == ({0}, 1, 1)


@pytest.mark.parametrize("when", ["its digest is got", "it has begun to look", "shards come", "it asks who holds them"])
@on_loop
async def test_a_look_at_an_old_placement_says_nothing_of_the_new_one(tmp_path: Path, when: str) -> None:
    """Everything is here, and nothing to do: until, in the middle of the look, others own it."""
    async with world_in(tmp_path) as world:
        world.put(ALL - {0})
        world.other.held = {0}
        world.tell(A)
        once = [lambda: world.tell(B)]

        def change() -> None:
            if once:
                once.pop()()

        match when:
            case "its digest is got":
                world.put(ALL)
                world.on_digest = change
            case "it has begun to look":
                world.put(ALL)
                hashes = world.disk.hashes
                world.disk.hashes = lambda: (change(), hashes())[1]  # type: ignore[method-assign]
            case "shards come":
                world.other.on_get = change
            case _:
                world.on_holders = change
        with pytest.raises(ChangedError):
            await world.moves.look()
        assert not once, "the placement is another one"
        assert (world.report.places_version, world.over) == (0, 0)
        world.clock.advance(2 * GIVE_UP_AFTER_S)
        await world.moves.look()
        assert (world.report.places_version, world.over) == (2, 0)
        assert world.report.to_go_shards == len(world.here - world.other.held)


@on_loop
async def test_nothing_goes_by_a_placement_that_is_another_by_then(tmp_path: Path) -> None:
    async with world_in(tmp_path) as world:
        world.put(ALL)
        world.other.held = set(ALL)
        world.tell(B)
        world.clock.advance(2 * GIVE_UP_AFTER_S)
        world.on_holders = lambda: world.tell(A)
        with pytest.raises(ChangedError):
            await world.moves.look()
        assert world.here == ALL


@on_loop
async def test_what_has_just_come_is_seen_when_others_are_to_have_it(tmp_path: Path) -> None:
    async with world_in(tmp_path) as world:
        world.other.held = set(ALL)
        world.tell(A)
        await world.moves.look()
        world.tell(B)
        assert await world.moves.look()
        assert (world.report.places_version, world.report.to_go_shards, world.over) == (2, len(ALL), 1)


@on_loop
async def test_the_coordinator_at_another_version_is_waited_for(tmp_path: Path) -> None:
    async with world_in(tmp_path) as world:
        world.other.held = set(ALL)
        world.tell(A)

        async def newer(request: pb.HoldersRequest) -> pb.HoldersReply:
            return pb.HoldersReply(places_version=request.places_version + 1)

        world.moves._holders = newer
        with pytest.raises(ChangedError):
            await world.moves.look()
        assert (world.here, world.report.places_version, world.over) == (set(), 0, 0)


@on_loop
async def test_what_the_disk_does_not_want_is_not_to_come(tmp_path: Path) -> None:
    async with world_in(tmp_path) as world:
        world.other.held = set(ALL)
        world.disk.use(Refuse([3, 5]))
        world.tell(A)
        await world.moves.look()
        assert world.here == ALL - {3, 5}
        assert (world.report.to_come_shards, world.report.to_come_bytes, world.report.no_room_shards) == (0, 0, 0)
        assert not set(world.other.asked) & {3, 5}
        for looks in range(1, 4):
            assert not await world.moves.look()
            assert world.report.idle_looks == looks, "it was tried, and nobody waits for it"
        assert not world.moves._left()
        world.disk.use(Refuse([5]))
        await world.moves.look()
        assert world.here == ALL - {5}, "it is wanted by now"


@on_loop
async def test_a_peer_that_does_not_give_is_asked_again_and_is_not_over(tmp_path: Path) -> None:
    async with world_in(tmp_path) as world:
        world.other.held = set(ALL)
        world.other.on_get = world.other.held.clear  # it lost them all a moment ago
        world.tell(A)
        assert not await world.moves.look()
        assert (world.report.to_come_shards, world.report.idle_looks) == (len(ALL), 0)
        assert world.moves._left()


@on_loop
async def test_all_of_it_by_itself(tmp_path: Path) -> None:
    """As in a node: it begins when it is told, and is at rest when there is nothing to move."""
    async with world_in(tmp_path) as world:
        world.other.held = set(ALL)
        over = asyncio.Event()
        world.moves._on_moved = over.set
        world.moves.start()
        world.tell(A)
        async with asyncio.timeout(30):
            await over.wait()
        assert world.here == ALL
        assert {request.places_version for request in world.asked} == {1}


@on_loop
async def test_nothing_comes_of_a_data_set_that_is_emptied_until_that_is_over(tmp_path: Path) -> None:
    """The other node has not given it up yet, when this one has."""
    async with world_in(tmp_path) as world:
        world.other.held = set(ALL)
        world.tell(A)
        world.moves.emptied([DIGEST.digest_id])
        assert not await world.moves.look()
        assert (world.here, world.other.asked) == (set(), [])
        world.moves.emptied([])
        assert await world.moves.look()
        assert world.here == ALL


@on_loop
async def test_who_empties_a_data_set_waits_for_what_is_on_its_way(tmp_path: Path) -> None:
    async with world_in(tmp_path) as world:
        world.other.held = set(ALL)
        world.tell(A)
        given, asked = asyncio.Event(), asyncio.Event()
        get = world.other.get

        async def held_up(*arguments: Any, **named: Any) -> ReadyShard:
            asked.set()
            await given.wait()
            return await get(*arguments, **named)

        world.other.get = held_up  # type: ignore[method-assign]
        looking = asyncio.create_task(world.moves.look())
        await asked.wait()
        world.moves.emptied([DIGEST.digest_id])
        still = asyncio.create_task(world.moves.still([DIGEST.digest_id]))
        await asyncio.sleep(0)
        assert not still.done()
        given.set()
        async with asyncio.timeout(30):
            await still
            here = world.here
            await looking
        assert 0 < len(here) < len(ALL)
        assert world.here == here, "no more came"
