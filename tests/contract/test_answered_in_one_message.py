"""What came in one message over a stream is answered in one, as far as nobody waits for it."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from tests.support.aio import on_loop
from tests.support.streamed_coordinator import Coordinator, ack, raw
from tfquiver.proto.tfquiver.v1 import coordinator_pb2 as pb
from tfquiver.service.coordinator.grpc_calls import answered_together


class Syncing(Coordinator):
    """Acknowledgements are durable when `synced` is set."""

    def __init__(self) -> None:
        super().__init__()
        self.asked, self.synced = asyncio.Event(), asyncio.Event()

    async def Heartbeat(self, request: pb.HeartbeatRequest, context: Any) -> pb.HeartbeatReply:
        return pb.HeartbeatReply(members_version=5)

    async def Ack(self, request: pb.AckRequest, context: Any) -> pb.AckReply:
        self.asked.set()
        await self.synced.wait()
        return pb.AckReply()


HEARTBEAT = pb.NodeCall(number=1, heartbeat=pb.HeartbeatRequest())
ORDERS = pb.NodeCall(number=2, orders=pb.OrdersRequest())
ACK = pb.NodeCall(number=3, ack=ack())
LEASE = pb.NodeCall(number=4, lease=pb.LeaseRequest())


async def numbers(stream: Any) -> list[int]:
    return sorted(reply.number for reply in (await stream.read()).replies)


@on_loop
async def test_a_heartbeat_waits_for_the_log_with_the_acknowledgement_that_came_along(tmp_path: Path) -> None:
    coordinator = Syncing()
    async with raw(tmp_path, coordinator) as stream:
        await stream.write(pb.NodeCallsRequest(calls=[HEARTBEAT, ORDERS, ACK]))
        await coordinator.asked.wait()
        coordinator.synced.set()
        assert await numbers(stream) == [1, 2, 3]
        await stream.write(pb.NodeCallsRequest(calls=[HEARTBEAT, ORDERS]))
        assert await numbers(stream) == [1, 2]


@on_loop
async def test_it_does_not_wait_for_a_log_that_takes_long(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(answered_together, "WITHIN_S", 0.01)
    coordinator = Syncing()
    async with raw(tmp_path, coordinator) as stream:
        await stream.write(pb.NodeCallsRequest(calls=[ACK, HEARTBEAT, ORDERS]))
        assert await numbers(stream) == [1, 2]
        coordinator.synced.set()
        assert await numbers(stream) == [3]


@on_loop
async def test_a_lease_waits_for_none_and_takes_along_what_waits(tmp_path: Path) -> None:
    coordinator = Syncing()
    coordinator.free.set()
    async with raw(tmp_path, coordinator) as stream:
        await stream.write(pb.NodeCallsRequest(calls=[HEARTBEAT, ACK]))
        await coordinator.asked.wait()
        await stream.write(pb.NodeCallsRequest(calls=[LEASE]))
        assert await numbers(stream) == [1, 4]
        coordinator.synced.set()
        assert await numbers(stream) == [3]


@on_loop
async def test_what_is_given_up_is_waited_for_no_longer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(answered_together, "WITHIN_S", 60.0)
    coordinator = Syncing()
    async with raw(tmp_path, coordinator) as stream:
        await stream.write(pb.NodeCallsRequest(calls=[HEARTBEAT, ORDERS, ACK]))
        await coordinator.asked.wait()
        await stream.write(pb.NodeCallsRequest(given_up=[3]))
        assert await numbers(stream) == [1, 2]


@on_loop
async def test_what_is_given_up_before_it_has_begun_is_not_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(answered_together, "WITHIN_S", 60.0)
    async with raw(tmp_path, Syncing()) as stream:
        await stream.write(pb.NodeCallsRequest(calls=[HEARTBEAT, ACK], given_up=[3]))
        assert await asyncio.wait_for(numbers(stream), 30) == [1]
