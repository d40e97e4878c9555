"""Nodes by the hundred that wait for orders: a few are told at a time, and all at once when the coordinator stops."""

from __future__ import annotations

import asyncio
from pathlib import Path

from tests.support.aio import on_loop
from tests.support.planning import coordinating
from tfquiver.proto.tfquiver.v1 import coordinator_pb2 as pb
from tfquiver.service.coordinator.long_polls.node_orders import TOLD_AT_ONCE

WAITS_S = 30.0


@on_loop
async def test_of_many_a_few_are_told_at_a_time_and_each_the_newest(tmp_path: Path) -> None:
    """A thousand were told in one turn of the loop: 96 ms, and 200 until it was free again."""
    async with coordinating(tmp_path) as coordinator, asyncio.timeout(20):
        orders, told = coordinator.node_orders, list[tuple[int, int]]()
        before = orders.version

        async def node(number: int) -> None:
            told.append((number, (await orders.newer(before, WAITS_S)).version))

        nodes = [asyncio.create_task(node(number)) for number in range(10 * TOLD_AT_ONCE)]
        await asyncio.sleep(0)
        coordinator.caching.settings_set += 1
        orders.announce()
        most = seen = 0
        while len(told) < len(nodes):
            await asyncio.sleep(0)
            if seen == 0 and told:  # something else is set while the rest still wait
                coordinator.caching.settings_set += 1
                orders.announce()
            most, seen = max(most, len(told) - seen), len(told)
        assert most <= TOLD_AT_ONCE
        assert [number for number, _ in told] == list(range(len(nodes))), "who came first, first"
        assert {version for _, version in told[TOLD_AT_ONCE:]} == {orders.version} == {before + 2}


@on_loop
async def test_a_few_are_told_in_the_next_turn(tmp_path: Path) -> None:
    async with coordinating(tmp_path) as coordinator:
        orders = coordinator.node_orders
        for _ in range(5):
            waits = [asyncio.create_task(orders.newer(orders.version, WAITS_S)) for _ in range(TOLD_AT_ONCE)]
            await asyncio.sleep(0)
            coordinator.caching.settings_set += 1
            orders.announce()
            for _ in range(3):
                await asyncio.sleep(0)
            assert all(one.done() for one in waits)


@on_loop
async def test_one_that_has_waited_long_enough_is_forgotten_and_the_others_are_told(tmp_path: Path) -> None:
    async with coordinating(tmp_path) as coordinator, asyncio.timeout(20):
        orders, before = coordinator.node_orders, coordinator.node_orders.version
        others = [asyncio.create_task(orders.newer(before, WAITS_S)) for _ in range(TOLD_AT_ONCE)]
        await asyncio.sleep(0)
        gone = asyncio.create_task(orders.newer(before, WAITS_S))
        late = [asyncio.create_task(orders.newer(before, WAITS_S)) for _ in range(TOLD_AT_ONCE)]
        assert await orders.newer(before, 0.0) == pb.OrdersReply(version=before)
        coordinator.caching.settings_set += 1
        orders.announce()
        gone.cancel()  # when it is due
        assert {reply.version for reply in await asyncio.gather(*others, *late)} == {before + 1}


@on_loop
async def test_who_stops_tells_all_at_once(tmp_path: Path) -> None:
    async with coordinating(tmp_path) as coordinator:
        orders = coordinator.node_orders
        waits = [asyncio.create_task(orders.newer(orders.version, WAITS_S)) for _ in range(10 * TOLD_AT_ONCE)]
        await asyncio.sleep(0)
        orders.release_waiters()
        for _ in range(3):
            await asyncio.sleep(0)
        assert all(one.done() for one in waits)


@on_loop
async def test_who_asks_a_coordinator_that_stops_does_not_wait(tmp_path: Path) -> None:
    """A node asks again as soon as it was told: its call held up each stop for the second that calls are given."""
    async with coordinating(tmp_path) as coordinator, asyncio.timeout(WAITS_S / 2):
        orders = coordinator.node_orders
        orders.release_waiters()
        assert (await orders.newer(orders.version, WAITS_S)).version == orders.version
