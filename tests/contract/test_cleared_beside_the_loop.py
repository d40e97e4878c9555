"""A node that is cleared of a million entries: what is left of them is counted beside its loop."""

from __future__ import annotations

import hashlib
import threading
from pathlib import Path

import pytest

from tests.support.aio import on_loop
from tests.support.store_node import StoreNode
from tfquiver.service.node.checked_shards_in_memory.hot import HotSet
from tfquiver.service.node.checked_shards_in_memory.verified import VerifiedShard
from tfquiver.service.node.disk.disk_cache import DiskCache
from tfquiver.service.node.grpc_calls_warm_clear.clear import clear


@on_loop
async def test_entries_are_not_looked_up_on_the_loop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with StoreNode(tmp_path / "cache") as node:
        for body in (b"one" * 100, b"two" * 100):
            node.disk.insert(VerifiedShard.check(hashlib.sha256(body).digest(), body, "a shard"))
        assert len(node.disk) == 2
        is_here, threads = DiskCache.__contains__, set[threading.Thread]()

        def looked_up(disk: DiskCache, hash: bytes) -> bool:
            threads.add(threading.current_thread())
            return is_here(disk, hash)

        monkeypatch.setattr(DiskCache, "__contains__", looked_up)
        reply = await clear(node.disk, node.source, HotSet(0))
        assert (reply.entries, reply.left, len(node.disk)) == (2, 0, 0)
        assert threads and threading.main_thread() not in threads
