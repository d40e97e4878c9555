"""Shards that are read past the cache: really from the store, and without a trace for everybody else."""

from __future__ import annotations

import asyncio
import gzip
from pathlib import Path

import pytest

from tests.support.aio import on_loop
from tests.support.order_world import PER_CHUNK, world
from tests.support.store_node import StoreNode, build, is_shard, write_files


@on_loop
async def test_what_is_kept_is_read_from_the_store_and_stays_as_it_is(tmp_path: Path) -> None:
    digest = build(write_files(tmp_path / "data"))
    everything = range(digest.num_shards)
    async with StoreNode(tmp_path / "cache") as node:
        for owner in (node.node_id, node.node_id, ""):  # from the store, the disk, and memory where it was not raw
            for index in everything:
                assert is_shard(await node.source.get(digest, index, owner), digest, index)
        before = node.source.stats().store_bytes
        hits, misses, hot_bytes = (getattr(node.source.stats(), key) for key in ("hits", "misses", "hot_bytes"))
        for index in everything:
            assert is_shard(await node.source.get(digest, index, node.node_id, bypass=True), digest, index)
        stats = node.source.stats()
        assert stats.store_bytes == before + digest.size_bytes
        assert (stats.bypasses, stats.bypass_bytes) == (digest.num_shards, digest.size_bytes)
        assert (stats.hits, stats.misses, stats.hot_bytes) == (hits, misses, hot_bytes)


@on_loop
async def test_nothing_is_kept_of_what_was_not_there(tmp_path: Path) -> None:
    digest = build(write_files(tmp_path / "data"))
    async with StoreNode(tmp_path / "cache") as node:
        for _ in range(2):
            assert is_shard(await node.source.get(digest, 0, node.node_id, bypass=True), digest, 0)
        stats = node.source.stats()
        assert (stats.entries, stats.hot_bytes, stats.store_requests) == (0, 0, 2)


@on_loop
async def test_it_joins_nobody_and_nobody_joins_it(tmp_path: Path) -> None:
    async with world(tmp_path) as w:
        shard = w.shards(2)[0]
        offset = int(w.digest.offsets[shard])
        w.store.held = {offset}
        past = [asyncio.ensure_future(w.node.source.get(w.digest, shard, "", bypass=True)) for _ in range(2)]
        await w.until(lambda: w.store.reads.count(offset) == 2, "each for itself")
        others = [asyncio.ensure_future(w.read(shard)) for _ in range(3)]
        await w.until(lambda: w.store.reads.count(offset) == 3, "the others have one of their own")
        w.give(load=[2], urgent=1)
        past.append(asyncio.ensure_future(w.node.source.get(w.digest, shard, w.node.node_id, bypass=True)))
        await w.until(lambda: w.store.reads.count(offset) == 4)
        w.store.let_go()
        assert all(is_shard(ready, w.digest, shard) for ready in await asyncio.gather(*past))
        assert await asyncio.gather(*others) == [True] * 3
        await w.until(lambda: w.held(2) == PER_CHUNK)
        assert w.store.reads.count(offset) == 4, "I-9: for all others once"


@pytest.mark.parametrize("first", ["bypass", "reader"])
@on_loop
async def test_passes_over_a_compressed_file_are_not_shared_either(tmp_path: Path, first: str) -> None:
    write_files(tmp_path / "data", files=1)
    path = tmp_path / "data" / "0.tfrecord"
    path.write_bytes(gzip.compress(path.read_bytes()))
    digest = build(path)
    async with StoreNode(tmp_path / "cache") as node:
        gets = [
            node.source.get(digest, index, node.node_id, bypass=past)
            for past in ((True, False) if first == "bypass" else (False, True))
            for index in range(digest.num_shards)
        ]
        ready = await asyncio.gather(*gets)
        assert all(is_shard(one, digest, at % digest.num_shards) for at, one in enumerate(ready))
        stats = node.source.stats()
        assert stats.entries == digest.num_shards, "its neighbours are kept all the same"
        assert stats.store_bytes == 2 * path.stat().st_size
