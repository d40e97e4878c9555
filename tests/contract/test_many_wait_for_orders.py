"""Nodes by the hundred that wait for orders: a few are told at a time, and all at once when the coordinator stops."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tests.support.aio import on_loop
from tests.support.planning import coordinating
from tfquiver.proto.tfquiver.v1 import coordinator_pb2 as pb
from tfquiver.proto.tfquiver.v1 import types_pb2
from tfquiver.proto.tfquiver.v1.commit_log_pb2 import PlacementSet
from tfquiver.service.coordinator.grpc_calls.servicer import CoordinatorServicer
from tfquiver.service.coordinator.long_polls import node_orders
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


@on_loop
async def test_orders_of_many_data_sets_are_made_in_parts_and_once_for_all_who_ask(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of ten thousand that are placed it took 85 ms of the loop, in one."""
    rests, going_on, made = list[int](), asyncio.Event(), list[int]()

    class Parts:
        async def rest(self) -> None:
            rests.append(len(rests))
            await going_on.wait()

    async with coordinating(tmp_path, a=1 << 40, b=1 << 40) as coordinator, asyncio.timeout(20):
        orders, caching = coordinator.node_orders, coordinator.caching
        monkeypatch.setattr(node_orders, "InParts", Parts)
        monkeypatch.setattr(caching.placement, "known", lambda digest_id: True)
        ids = [bytes([number]) * 32 for number in range(5)]
        for digest_id in ids:
            caching.placement.settings[digest_id] = types_pb2.CacheSetting(mode=types_pb2.CACHE_MODE_UNIFORM)
            caching.place(PlacementSet(digest_id=digest_id, rule=types_pb2.PlacementRule(replicas=2)))
        before, build = orders.version, orders._made

        async def counted() -> pb.OrdersReply:
            made.append(len(rests))
            return await build()

        monkeypatch.setattr(orders, "_made", counted)
        gone = asyncio.create_task(orders.newer(0, WAITS_S))
        first = [asyncio.create_task(orders.newer(0, WAITS_S)) for _ in range(3)]
        while not rests:
            await asyncio.sleep(0)
        gone.cancel()  # who has begun it
        while len(rests) < 2:
            await asyncio.sleep(0)
        caching.place(PlacementSet(digest_id=ids[0], rule=types_pb2.PlacementRule(replicas=1)))
        late = [asyncio.create_task(orders.newer(0, WAITS_S)) for _ in range(3)]
        await asyncio.sleep(0)
        going_on.set()
        for wait in first:
            reply = await wait
            assert reply.version == before, "of what was set since they ask again"
            assert {one.digest_id for one in reply.places} == set(ids)
            copies = [one.places.replicas for one in reply.places if not one.same_as]
            assert copies == [2], "all as the version says that is told with them"
        told = [await wait for wait in late]
        assert all(reply.version == orders.version for reply in told)
        assert all(reply.places_version == caching.placed.version for reply in told)
        assert len(made) == 3, "one that was broken off, one for those who asked before, one for those after"


@on_loop
async def test_a_removal_is_told_with_orders_and_changes_nothing_that_others_were_given(tmp_path: Path) -> None:
    """One reply is for many nodes, and its bytes are made once."""
    async with coordinating(tmp_path) as coordinator:
        orders = CoordinatorServicer(coordinator).Orders
        first = await orders(pb.OrdersRequest(), None)
        assert await orders(pb.OrdersRequest(), None) is first
        before = first.SerializeToString()
        coordinator.registry._removals += 1
        then = await orders(pb.OrdersRequest(), None)
        assert then.removals == coordinator.registry.removals == first.removals + 1
        assert first.SerializeToString() == before
