"""What is prefetched by an owner that has not room for all of it."""

from __future__ import annotations

from pathlib import Path

from tests.support.aio import on_loop
from tests.support.store_node import Members, StoreNode, build, write_files
from tfquiver.proto.tfquiver.v1 import coordinator_pb2, types_pb2
from tfquiver.scanning.cutting import CutPolicy
from tfquiver.service.node.disk import entry
from tfquiver.service.node.grpc_calls_warm_clear.warming import Warming


@on_loop
async def test_others_need_no_room_for_what_lands_here(tmp_path: Path) -> None:
    """All of it is on its way at once; the other one has room for what leaves, and not for that and the rest."""
    digest = build(write_files(tmp_path / "data"), CutPolicy(4096, 16384, 65536))
    sizes = [entry.disk_bytes(entry.HEADER_BYTES + int(length)) for length in digest.lengths]
    members: Members = []
    alone = [types_pb2.NodeInfo(node_id="a", quota_bytes=1 << 30)]  # all of it is its own
    here = StoreNode(tmp_path / "a", node_id="a", members=members, quota_bytes=sum(sizes) * 3 // 4, mode="raw")
    other = StoreNode(tmp_path / "b", node_id="b", members=members, quota_bytes=sum(sizes) // 2, mode="raw")

    async def missing(digest_id: bytes, shards: object) -> coordinator_pb2.MissingReply:
        raise AssertionError("there is nobody else to ask")

    async with here, other:
        warming = Warming("a", here.disk, here.source, lambda: alone, missing, stand_ins=here.placer)
        told = [told async for told in warming.warm(digest)][-1]
        assert not told.trouble
        assert told.resident_shards == told.shards
        assert len(here.disk) and len(other.disk) and len(here.disk) + len(other.disk) == told.shards
