"""Chunks that are loaded ahead at the rate that the jobs of a data set have from the store together."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tests.support.aio import on_loop
from tests.support.order_world import PER_CHUNK, World, world


async def loaded_in(w: World, seconds: float) -> int:
    before = w.node.source.stats().loaded_bytes
    await asyncio.sleep(seconds)
    return w.node.source.stats().loaded_bytes - before


@pytest.mark.slow
@on_loop
async def test_loads_keep_to_the_rate_and_take_up_a_new_one_at_once(tmp_path: Path) -> None:
    async with world(tmp_path) as w:
        shard_bytes = int(w.digest.lengths[0])
        w.give(load=range(8), urgent=1, load_bytes_per_s=10 * shard_bytes)
        await w.until(lambda: len(w.node.disk) > 5, "the burst is over")
        here, began = len(w.node.disk), asyncio.get_running_loop().time()
        await w.until(lambda: len(w.node.disk) >= here + 15)
        assert asyncio.get_running_loop().time() - began >= 1.2, "ten a second, but for those that were under way"
        w.give(load=range(8), urgent=1, load_bytes_per_s=0.001)
        await loaded_in(w, 0.2)
        assert await loaded_in(w, 0.5) <= shard_bytes
        w.give(load=range(8), urgent=1)
        await w.until(lambda: len(w.node.disk) == 8 * PER_CHUNK, "and without one as fast as it can")


@pytest.mark.slow
@on_loop
async def test_each_of_several_nodes_takes_its_part_of_the_rate(tmp_path: Path) -> None:
    async with world(tmp_path, others=("b", "c", "d")) as w:
        shard_bytes = int(w.digest.lengths[0])
        w.give(load=range(8), urgent=1, load_bytes_per_s=16 * shard_bytes)
        await w.until(lambda: len(w.node.disk) > 3, "the burst is over")
        assert await loaded_in(w, 2.0) <= 10 * shard_bytes


@on_loop
async def test_a_data_set_that_keeps_to_a_rate_holds_up_no_reader(tmp_path: Path) -> None:
    async with world(tmp_path) as w:
        w.give(load=[0], urgent=0, load_bytes_per_s=0.001)
        await w.until(lambda: w.held(0) >= 1)
        assert await asyncio.wait_for(w.read(w.shards(1)[0], ""), 5), "readers do not wait for it"
        assert w.held(0) <= 2


@on_loop
async def test_no_more_is_made_up_for_than_leaves_ten_seconds_within_five_per_cent(tmp_path: Path) -> None:
    """With what the jobs' own buckets let through after a pause (budgets.bucket): 0.2 s there, a tenth here."""
    async with world(tmp_path) as w:
        shard_bytes, loop = int(w.digest.lengths[0]), asyncio.get_running_loop()
        began = loop.time()
        w.give(load=range(8), urgent=1, load_bytes_per_s=20 * shard_bytes)
        await w.until(lambda: len(w.node.disk) >= 9)
        assert len(w.node.disk) <= 20 * (loop.time() - began + 0.1) + 1
