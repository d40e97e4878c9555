"""A node that was away brings back what was emptied meanwhile, which another one owns now: that one gets none of it."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

from tests.support.aio import on_loop
from tests.support.store_node import Members, StoreNode, build, write_files
from tfquiver.proto.tfquiver.v1 import coordinator_pb2 as pb
from tfquiver.proto.tfquiver.v1 import named_datasets_pb2, types_pb2
from tfquiver.service.node.evicting_emptying_removing_leftovers.late_evictions import LateEvictions
from tfquiver.service.node.moving_shards.moves import Moves

TASK = "life/5"


class Two:
    """`here` owns the data set by its placement rule, `back` holds it and was away; each over real TCP."""

    def __init__(self, root: Path) -> None:
        self.digest = build(write_files(root / "data"))
        members: Members = []
        self.late = LateEvictions(root / "back", self._give_up)
        self.here = StoreNode(root / "here", [self.digest], node_id="here", members=members)
        self.back = StoreNode(root / "back", [self.digest], node_id="back", members=members, stays=self.late.stays)
        self.may_go, self.begun = asyncio.Event(), asyncio.Event()
        self.moves = Moves(
            "here", self.here.disk, self.here.source, self.here.known, self._holders, self.here._digest,
            lambda: members, 0,
        )  # fmt: skip
        places = types_pb2.Places(replicas=1)
        places.groups.add(node_ids=["here"])
        self.moves.told(1, [pb.DatasetPlaces(digest_id=self.digest.digest_id, places=places, moves=True)])

    def told(self, evicted: str) -> None:
        """`back`, with its orders."""
        named = [named_datasets_pb2.NamedDigest(digest_id=self.digest.digest_id, name="data", evicted=evicted)]
        self.late.wanted(named)
        self.late.sure()
        self.late.told(named)

    async def came(self) -> int:
        await self.moves.look()
        return len(self.here.disk)

    async def _holders(self, request: pb.HoldersRequest) -> pb.HoldersReply:
        stand = [self.digest.hashes[shard].tobytes() in self.back.disk for shard in range(self.digest.num_shards)]
        bits = b"\xff" if any(stand) else b"\0"
        its = bits * ((len(request.prefixes) + 7) // 8)
        return pb.HoldersReply(
            held=[its if name == "back" else bytes(len(its)) for name in request.node_ids], places_version=1
        )

    async def _give_up(self, digest_ids: Sequence[bytes]) -> None:
        self.begun.set()
        await self.may_go.wait()
        await self.back.source.give_up([row.tobytes() for row in self.digest.hashes])


@contextlib.asynccontextmanager
async def two(root: Path) -> AsyncIterator[Two]:
    it = Two(root)
    async with it.here, it.back:
        for shard in range(it.digest.num_shards):
            (await it.back.source.get(it.digest, shard, "back")).close()
        await it.late.start()
        try:
            yield it
        finally:
            it.may_go.set()
            await it.late.close()


@on_loop
async def test_what_is_to_go_is_given_to_nobody_before_it_goes(tmp_path: Path) -> None:
    async with two(tmp_path) as it, asyncio.timeout(30):
        assert await it.came() == 0, "it has not heard yet what was emptied"
        it.told(TASK)
        await it.begun.wait()
        assert await it.came() == 0
        it.may_go.set()
        while len(it.back.disk):
            await asyncio.sleep(0.01)
        assert await it.came() == 0
        assert it.back.meter.store_bytes == it.digest.size_bytes and not it.here.meter.store_bytes


@on_loop
async def test_what_was_carried_out_or_is_wanted_again_moves(tmp_path: Path) -> None:
    async with two(tmp_path) as it:
        await it.late.done(TASK, [it.digest.digest_id])  # and what is there has been read since
        it.told(TASK)
        it.late.unsure()
        assert await it.came() == 0, "the coordinator has not seen it for a while"
        it.late.sure()
        assert await it.came() == it.digest.num_shards


@on_loop
async def test_what_was_never_emptied_moves(tmp_path: Path) -> None:
    async with two(tmp_path) as it:
        it.told("")
        assert await it.came() == it.digest.num_shards
