"""A disk that takes its time to keep a shard does not keep readers waiting for those that are there."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path

import pytest

from tests.support.aio import on_loop
from tests.support.store_node import StoreNode, build, is_shard, write_files
from tfquiver.content.digest import Digest
from tfquiver.service.node.disk import entry_file


@pytest.fixture
def digest(tmp_path: Path) -> Digest:
    return build(write_files(tmp_path / "data"))


@on_loop
async def test_hits_go_on_and_misses_are_served_from_memory_while_the_disk_hangs(
    tmp_path: Path, digest: Digest, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tfquiver.service.node.shards.inserts.PATIENCE_S", 0.2)
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
