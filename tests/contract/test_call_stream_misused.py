"""What comes over a stream of calls that no node of ours sends, and more of it than is good."""

from __future__ import annotations

import asyncio
import contextlib
from pathlib import Path
from typing import Any

import grpc
import pytest

from tests.support.aio import on_loop
from tests.support.streamed_coordinator import Coordinator, Tokens, ack, calls_of, ends_with, raw
from tfquiver.grpc_plumbing import rpc
from tfquiver.proto.tfquiver.v1 import coordinator_pb2 as pb
from tfquiver.service.coordinator.grpc_calls import streamed_calls

LONG_S = 20.0


@on_loop
async def test_a_call_of_a_version_to_come_is_to_be_made_by_itself(tmp_path: Path) -> None:
    async with raw(tmp_path, Coordinator()) as stream:
        await stream.write(pb.NodeCallsRequest(calls=[pb.NodeCall(number=1), pb.NodeCall(number=2, ack=ack([5]))]))
        replies = {reply.number: reply for _ in range(1) for reply in (await stream.read()).replies}
        while len(replies) < 2:
            replies |= {reply.number: reply for reply in (await stream.read()).replies}
        assert rpc.code_of(replies[1].code) is grpc.StatusCode.UNIMPLEMENTED
        assert pb.AckReply.FromString(replies[2].reply).ack_within_ms == 1


@on_loop
async def test_two_calls_of_one_number_end_the_stream(tmp_path: Path) -> None:
    coordinator = Coordinator()
    async with raw(tmp_path, coordinator) as stream:
        twice = pb.NodeCall(number=3, lease=pb.LeaseRequest())
        await stream.write(pb.NodeCallsRequest(calls=[twice, twice]))
        assert await ends_with(grpc.StatusCode.INVALID_ARGUMENT, stream.read()) == (
            "calls.number: 3 is under way already"
        )


@on_loop
async def test_of_too_many_under_way_more_are_refused_for_now(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streamed_calls, "MOST_UNDER_WAY", 2)
    coordinator = Coordinator()
    async with calls_of(tmp_path, coordinator) as calls:
        leases = [asyncio.create_task(calls.lease(pb.LeaseRequest(), LONG_S)) for _ in range(2)]
        await coordinator.waits.wait()
        assert "under way" in await ends_with(grpc.StatusCode.UNAVAILABLE, calls.ack(ack(), LONG_S))
        coordinator.free.set()
        await asyncio.gather(*leases)
        await calls.ack(ack(), LONG_S)
    assert coordinator.streams == 1


@pytest.mark.slow
@on_loop
async def test_who_takes_no_replies_has_no_more_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streamed_calls, "MOST_UNDER_WAY", 4)
    coordinator = Coordinator()
    coordinator.orders_bytes = 900_000  # of which connections and flow control take a few

    async def ask(stream: Any) -> None:
        with contextlib.suppress(asyncio.InvalidStateError, asyncio.CancelledError):  # it is cancelled below
            for number in range(1, 1000):
                await stream.write(pb.NodeCallsRequest(calls=[pb.NodeCall(number=number, orders=pb.OrdersRequest())]))

    async with raw(tmp_path, coordinator) as stream:
        asking = asyncio.create_task(ask(stream))
        while not (streams := list(coordinator.streamed._streams)) or len(streams[0]._replies) < 4:
            await asyncio.sleep(0)
        await asyncio.wait([asking], timeout=0.5)
        assert len(streams[0]._replies) <= 5
        assert len(streams[0]._running) <= 5
        stream.cancel()
        await asyncio.wait([asking])
        while coordinator.streamed._streams:
            await asyncio.sleep(0)


@on_loop
async def test_a_message_of_too_many_ends_the_stream_before_anything_is_made_of_it(tmp_path: Path) -> None:
    for number, message in enumerate(
        (
            pb.NodeCallsRequest(calls=[pb.NodeCall(number=number, ack=ack()) for number in range(1, 4098)]),
            pb.NodeCallsRequest(given_up=range(1, 4098), calls=[pb.NodeCall(number=1, ack=ack())]),
        )
    ):
        coordinator = Coordinator()
        (tmp_path / str(number)).mkdir()
        async with raw(tmp_path / str(number), coordinator) as stream:
            await stream.write(message)
            refused = await ends_with(grpc.StatusCode.INVALID_ARGUMENT, stream.read())
        assert refused == "calls, given_up: more than 4096 in one message"
        assert coordinator.callers == []


@on_loop
async def test_a_call_that_is_given_up_in_its_own_message_is(tmp_path: Path) -> None:
    coordinator = Coordinator()
    async with raw(tmp_path, coordinator) as stream:
        lease = pb.NodeCall(number=1, lease=pb.LeaseRequest())
        await stream.write(pb.NodeCallsRequest(calls=[lease], given_up=[1]))
        await stream.write(pb.NodeCallsRequest(calls=[pb.NodeCall(number=2, ack=ack())]))
        assert [reply.number for reply in (await stream.read()).replies] == [2]
        assert not coordinator.waits.is_set()


@on_loop
async def test_a_heartbeat_that_is_given_up_is_a_sign_of_life_all_the_same_and_so_is_what_follows(
    tmp_path: Path,
) -> None:
    """A coordinator that is late would find nobody alive who has patience for ten seconds."""
    coordinator = Coordinator()
    async with raw(tmp_path, coordinator) as stream:
        await stream.write(pb.NodeCallsRequest(calls=[pb.NodeCall(number=1, ack=ack())]))
        await stream.read()
        assert coordinator.heard == [], "nobody knows yet whose it is"
        beat = pb.NodeCall(number=2)
        beat.heartbeat.node.node_id, beat.heartbeat.incarnation = "n", "1"
        await stream.write(pb.NodeCallsRequest(calls=[beat], given_up=[2]))
        await stream.write(pb.NodeCallsRequest(calls=[pb.NodeCall(number=3, ack=ack())]))
        assert [reply.number for reply in (await stream.read()).replies] == [3]
        assert coordinator.heard == [("n", "1")] * 2


@on_loop
async def test_what_a_caller_may_not_ask_is_no_sign_of_life(tmp_path: Path) -> None:
    tokens = Tokens()
    tokens.known["node"] = tokens.known["job"]
    coordinator = Coordinator(tokens)
    async with calls_of(tmp_path, coordinator, tokens, "node") as calls:
        beat = pb.HeartbeatRequest(incarnation="1")
        beat.node.node_id = "n"
        await ends_with(grpc.StatusCode.PERMISSION_DENIED, calls.heartbeat(beat, LONG_S))
    assert coordinator.heard == []


@on_loop
async def test_replies_that_are_not_taken_are_bounded_by_their_bytes(tmp_path: Path) -> None:
    coordinator = Coordinator()
    coordinator.orders_bytes = 900_000
    calls = [pb.NodeCall(number=number, orders=pb.OrdersRequest()) for number in range(1, 101)]
    async with raw(tmp_path, coordinator) as stream:
        await stream.write(pb.NodeCallsRequest(calls=calls))
        while (
            not (streams := list(coordinator.streamed._streams)) or sum(size for _, size in streams[0]._replies) < 15e6
        ):
            await asyncio.sleep(0)
        for _ in range(1000):
            await asyncio.sleep(0)
        assert sum(size for _, size in streams[0]._replies) < streamed_calls.MOST_WAITING_BYTES + 1_000_000
        taken: list[int] = []
        while len(taken) < 100:
            taken += [reply.number for reply in (await stream.read()).replies]
        assert sorted(taken) == list(range(1, 101))


class News(Coordinator):
    """All who wait for orders have them in one moment, as there is news for all nodes."""

    @rpc.handled
    async def Orders(self, request: pb.OrdersRequest, context: Any) -> pb.OrdersReply:
        self.waits.set()
        await self.free.wait()
        reply = pb.OrdersReply(version=7)
        reply.orders.add(digest_id=bytes(900_000))
        return reply


@on_loop
async def test_so_are_those_that_many_have_waited_for(tmp_path: Path) -> None:
    coordinator = News()
    calls = [pb.NodeCall(number=number, orders=pb.OrdersRequest()) for number in range(1, 101)]
    async with raw(tmp_path, coordinator) as stream:
        await stream.write(pb.NodeCallsRequest(calls=calls))
        await coordinator.waits.wait()
        [its] = coordinator.streamed._streams
        while len(its._running) < 100:
            await asyncio.sleep(0)
        coordinator.free.set()
        most_bytes = 0
        for _ in range(1000):
            await asyncio.sleep(0)
            most_bytes = max(most_bytes, sum(size for _, size in its._replies))
        assert 15e6 < most_bytes < streamed_calls.MOST_WAITING_BYTES + 1_000_000
        taken: list[int] = []
        while len(taken) < 100:
            taken += [reply.number for reply in (await stream.read()).replies]
        assert sorted(taken) == list(range(1, 101))
