"""A prefetch onto a disk that takes nothing for a while, or has no room."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tests.support.aio import on_loop
from tests.support.store_node import StoreNode, build, write_files
from tfquiver.digests.digest import Digest
from tfquiver.proto.tfquiver.v1 import coordinator_pb2, node_pb2
from tfquiver.scanning.cutting import CutPolicy
from tfquiver.service.node.disk import entry
from tfquiver.service.node.grpc_calls_warm_clear import warming
from tfquiver.service.node.grpc_calls_warm_clear.warming import Warming


async def _missing(digest_id: bytes, shards: object) -> coordinator_pb2.MissingReply:
    raise AssertionError("there is nobody else to ask")


def _of(node: StoreNode) -> Warming:
    return Warming(node.node_id, node.disk, node.source, lambda: node.members, _missing)


async def _last(node: StoreNode, digest: Digest) -> node_pb2.WarmProgress:
    return [told async for told in _of(node).warm(digest)][-1]


@pytest.mark.slow
@on_loop
async def test_what_a_disk_does_not_take_for_a_moment_comes_when_it_does(tmp_path: Path) -> None:
    """All that was left was refused within milliseconds, and never asked for again."""
    digest = build(write_files(tmp_path / "data"), CutPolicy(512, 1024, 4096))
    async with StoreNode(tmp_path / "cache") as node, asyncio.timeout(60):
        temporary = node.disk._layout.temporary
        temporary.rename(tmp_path / "away")
        temporary.write_text("in its place")
        said = list[str]()
        async for told in _of(node).warm(digest):
            said.append(told.trouble)
            if "the disk takes nothing: " in told.trouble and not temporary.is_dir():
                assert "cannot be written" in told.trouble
                assert not any(digest.hashes[shard].tobytes().hex() in told.trouble for shard in range(told.shards))
                temporary.unlink()
                (tmp_path / "away").rename(temporary)
        assert len(set(said)) > 1 and said[-1] == ""
        assert (told.over, told.resident_shards, told.refused_shards) == (True, told.shards, 0)


@pytest.mark.slow
@on_loop
async def test_it_ends_where_the_disk_takes_nothing_for_long(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(warming, "REFUSES_S", 1.0)
    digest = build(write_files(tmp_path / "data"), CutPolicy(512, 1024, 4096))
    async with StoreNode(tmp_path / "cache") as node, asyncio.timeout(60):
        node.disk._layout.temporary.rename(tmp_path / "away")
        node.disk._layout.temporary.write_text("in its place")
        told = await _last(node, digest)
        assert told.over and "cannot be written" in told.trouble and not told.lacks_room_bytes
        assert node.meter.store_bytes < 2 * told.total_bytes, "once all, then one shard each time"


@on_loop
async def test_how_much_room_is_lacking_is_told(tmp_path: Path) -> None:
    digest = build(write_files(tmp_path / "data"), CutPolicy(4096, 16384, 65536))
    sizes = [entry.disk_bytes(entry.HEADER_BYTES + int(length)) for length in digest.lengths]
    async with StoreNode(tmp_path / "cache", quota_bytes=sum(sizes) // 2, mode="raw") as node, asyncio.timeout(60):
        told = await _last(node, digest)
        assert told.refused_shards and "there is no more room" in told.trouble
        assert told.lacks_room_bytes == sum(sizes) - node.disk.used_bytes
        node.disk.resize(sum(sizes))
        told = await _last(node, digest)
        assert (told.resident_shards, told.trouble, told.lacks_room_bytes) == (told.shards, "", 0)
