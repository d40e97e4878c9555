"""A node that is cleared of a million entries: nothing is looked up on its loop for each. And one whose readers go on
meanwhile."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.support.aio import on_loop
from tests.support.store_node import StoreNode
from tfquiver.service.node.disk.disk_cache import DiskCache
from tfquiver.service.node.disk.layout import Layout
from tfquiver.service.node.disk.leaving_entries import GaveUp
from tfquiver.service.node.grpc_calls_warm_clear.clear import clear
from tfquiver.service.node.sealed_memory_of_checked_shards.hot import HotSet
from tfquiver.service.node.sealed_memory_of_checked_shards.verified import VerifiedShard

BODIES = (b"one" * 100, b"two" * 100)


def insert(disk: DiskCache) -> None:
    for body in BODIES:
        disk.insert(VerifiedShard.check(hashlib.sha256(body).digest(), body, "a shard"))


@on_loop
async def test_entries_are_not_looked_up_on_the_loop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with StoreNode(tmp_path / "cache") as node:
        insert(node.disk)
        assert len(node.disk) == 2
        is_here, threads = DiskCache.__contains__, set[threading.Thread]()

        def looked_up(disk: DiskCache, hash: bytes) -> bool:
            threads.add(threading.current_thread())
            return is_here(disk, hash)

        def read_only(disk: DiskCache, hashes: Sequence[bytes]) -> GaveUp:
            return GaveUp(0, 0, len(hashes))

        with monkeypatch.context() as patched:
            patched.setattr(DiskCache, "__contains__", looked_up)
            patched.setattr(DiskCache, "give_up", read_only)
            reply = await clear(node.disk, node.source, HotSet(0))
        assert (reply.entries, reply.bytes, reply.left) == (0, 0, 2)
        assert threading.main_thread() not in threads


@on_loop
async def test_what_readers_fetch_again_meanwhile_is_not_called_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was said that the disk did not let go, and that fewer bytes had gone."""
    async with StoreNode(tmp_path / "cache") as node:
        insert(node.disk)
        used_bytes, give_up = node.disk.used_bytes, DiskCache.give_up

        def then_fetched(disk: DiskCache, hashes: Sequence[bytes]) -> GaveUp:
            told = give_up(disk, hashes)
            insert(disk)
            return told

        monkeypatch.setattr(DiskCache, "give_up", then_fetched)
        reply = await clear(node.disk, node.source, HotSet(0))
        assert (reply.entries, reply.bytes, reply.left) == (2, used_bytes, 0)
        assert len(node.disk) == 2


@on_loop
async def test_of_a_disk_that_keeps_some_only_those_are_left_and_other_evictions_are_not_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root, other = tmp_path / "cache", b"other" * 100
    async with StoreNode(root) as node:
        insert(node.disk)
        used_bytes, give_up = node.disk.used_bytes, DiskCache.give_up
        stays = Layout(root).path_of(hashlib.sha256(BODIES[1]).digest())
        stays.unlink()
        stays.mkdir()

        def then_others(disk: DiskCache, hashes: Sequence[bytes]) -> GaveUp:
            told = give_up(disk, hashes)
            insert(disk)
            shard = VerifiedShard.check(hashlib.sha256(other).digest(), other, "a shard")
            disk.insert(shard)
            give_up(disk, [shard.hash])
            return told

        monkeypatch.setattr(DiskCache, "give_up", then_others)
        reply = await clear(node.disk, node.source, HotSet(0))
        assert (reply.entries, reply.bytes, reply.left) == (1, used_bytes // 2, 1)
        assert len(node.disk) == 2, "what readers have fetched back is not called left"
