"""A disk that takes its time to keep a shard does not keep readers waiting for those that are there."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from typing import Any

import pytest

from tests.contract.test_disk_accounts import shards
from tests.support.aio import on_loop
from tests.support.store_node import StoreNode, build, is_shard, write_files
from tfquiver import errors
from tfquiver.digests.digest import Digest
from tfquiver.proto.tfquiver.v1 import types_pb2
from tfquiver.service.node.disk import entry_file


@pytest.fixture
def digest(tmp_path: Path) -> Digest:
    return build(write_files(tmp_path / "data"))


@on_loop
async def test_hits_go_on_and_misses_are_served_from_memory_while_the_disk_hangs(
    tmp_path: Path, digest: Digest, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tfquiver.service.node.placing_at_owners_and_writing.inserts.PATIENCE_S", 0.2)
    hanging, let_go = threading.Event(), threading.Event()
    sync = entry_file.os.fsync

    def slow(fd: int) -> None:
        if hanging.is_set():
            assert let_go.wait(30)
        sync(fd)

    monkeypatch.setattr(entry_file.os, "fsync", slow)
    warm, cold = range(8), range(8, 20)
    async with asyncio.timeout(30), StoreNode(tmp_path / "cache", [digest], hot_bytes=0) as node:
        for index in warm:
            assert is_shard(await node.source.get(digest, index, "node-a"), digest, index)
        hanging.set()
        misses = [asyncio.ensure_future(node.source.get(digest, index, "node-a")) for index in cold]
        async with asyncio.timeout(5):
            for index in warm:
                assert is_shard(await node.source.get(digest, index, "node-a"), digest, index)
            for index, miss in zip(cold, misses, strict=True):
                assert is_shard(await miss, digest, index)
            requests = node.meter.store_requests
            for index in cold:  # they are on their way to the disk: nobody fetches them again
                assert is_shard(await node.source.get(digest, index, "node-a"), digest, index)
            assert node.meter.store_requests == requests == len(warm) + len(cold)
        let_go.set()
        while len(node.disk) < len(warm) + len(cold):
            await asyncio.sleep(0.01)


@on_loop
async def test_nobody_waits_long_for_the_disk_of_another_node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A scan, or who reads a compressed file, waited two and a half minutes for each shard of that owner's."""
    monkeypatch.setattr("tfquiver.service.node.bodies_sent_between_nodes.incoming.PATIENCE_S", 0.3)
    let_go, members = threading.Event(), list[types_pb2.NodeInfo]()
    made = shards(8)
    async with (
        asyncio.timeout(30),
        StoreNode(tmp_path / "a", node_id="a", members=members) as a,
        StoreNode(tmp_path / "b", node_id="b", members=members) as b,
    ):
        insert = a.disk.insert

        def slow(*arguments: Any) -> None:
            assert let_go.wait(30)
            insert(*arguments)

        monkeypatch.setattr(a.disk, "insert", slow)
        first = [asyncio.to_thread(b.peers.put, "a", shard, True) for shard in made[:6]]
        for told in await asyncio.gather(*first, return_exceptions=True):
            assert isinstance(told, errors.ResourceExhaustedError)
        with pytest.raises(errors.ResourceExhaustedError, match="takes too long"):
            await asyncio.to_thread(b.peers.put, "a", made[6], True)
        let_go.set()
        while len(a.disk) < 6:  # they went on
            await asyncio.sleep(0.01)
        await asyncio.sleep(0)
        await asyncio.to_thread(b.peers.put, "a", made[7], True)
        assert made[7].hash in a.disk and made[6].hash not in a.disk


@on_loop
async def test_who_asks_a_node_whose_disk_hangs_reads_the_store(
    tmp_path: Path, digest: Digest, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It said for two minutes that it was at work, of eight shards at a time: another node's cold epoch stood still."""
    monkeypatch.setattr("tfquiver.service.node.shards_from_disk_other_nodes_or_store.disk_reads.HANGS_S", 0.3)
    monkeypatch.setattr("tfquiver.service.node.connections_between_nodes.data_connection.WORKING_S", 0.1)
    let_go, members = threading.Event(), list[types_pb2.NodeInfo]()
    warm, cold = range(4), range(4, digest.num_shards)
    async with (
        asyncio.timeout(30),
        StoreNode(tmp_path / "a", [digest], node_id="a", members=members, hot_bytes=0) as a,
        StoreNode(tmp_path / "b", [digest], node_id="b", members=members) as b,
    ):
        for index in warm:
            (await a.source.get(digest, index, "a")).close()
        open_entry = a.disk.open_entry

        def slow(hash: bytes) -> Any:
            assert let_go.wait(30)
            return open_entry(hash)

        monkeypatch.setattr(a.disk, "open_entry", lambda hash: slow(hash) if hash in a.disk else None)
        own = [asyncio.ensure_future(a.source.get(digest, index, "a")) for index in warm]
        try:
            async with asyncio.timeout(10):
                for index in cold:
                    assert is_shard(await b.source.get(digest, index, "a"), digest, index)
        finally:
            let_go.set()
        for reader in own:
            (await reader).close()
        assert not a.source.disk_hangs
