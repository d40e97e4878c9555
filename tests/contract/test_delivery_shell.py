"""What a trainer was delivered is acknowledged together, as late as the coordinator allows; at once when it left."""

from __future__ import annotations

import asyncio

from tests.support.aio import on_loop
from tfquiver.messages_and_binary_formats import reader_frames as frames
from tfquiver.proto.tfquiver.v1 import coordinator_pb2 as pb
from tfquiver.service.node.unix_socket_clients.delivery_shell import MAX_ACKS, Deliveries


class Coordinator:
    def __init__(self, first_within_ms: int = 9_000) -> None:
        self.calls = asyncio.Queue[list[int]]()
        self._within_ms = first_within_ms

    async def ack(self, request: pb.AckRequest) -> pb.AckReply:
        self.calls.put_nowait(list(request.shards))
        reply, self._within_ms = pb.AckReply(ack_within_ms=self._within_ms), 9_000
        return reply


@on_loop
async def test_after_the_first_reply_it_gathers_until_the_trainer_goes() -> None:
    coordinator = Coordinator()
    deliveries = Deliveries(coordinator)
    async with asyncio.timeout(5):  # less than it was told to wait
        assert deliveries.take(frames.Delivered("s", (1,)))
        assert await coordinator.calls.get() == [1]
        for shard in (2, 3):
            assert deliveries.take(frames.Delivered("s", (shard,)))
            await asyncio.sleep(0.05)
        assert coordinator.calls.empty()
        deliveries.on_gone()
        assert await coordinator.calls.get() == [2, 3]


@on_loop
async def test_what_would_not_wait_for_the_next_heartbeat_goes_with_this_one() -> None:
    coordinator = Coordinator()
    deliveries = Deliveries(coordinator)
    async with asyncio.timeout(5):
        assert deliveries.take(frames.Delivered("s", (1,)))
        assert await coordinator.calls.get() == [1]
        assert deliveries.take(frames.Delivered("s", (2,)))
        await asyncio.sleep(0)
        deliveries.heartbeat_goes(8.0)
        for _ in range(3):
            await asyncio.sleep(0)
        assert coordinator.calls.empty(), "it is not due before the next one"
        deliveries.heartbeat_goes(10.0)
        await asyncio.sleep(0)  # and so before the heartbeat itself, which is made a turn later
        assert coordinator.calls.get_nowait() == [2]
        deliveries.heartbeat_goes(10.0)  # nothing waits
        assert deliveries.take(frames.Delivered("s", (3,)))
        for _ in range(3):
            await asyncio.sleep(0)
        assert coordinator.calls.empty()
        deliveries.on_gone()
        assert await coordinator.calls.get() == [3]


@on_loop
async def test_what_waits_of_several_sessions_goes_together() -> None:
    """One after the other they would wait the longer the more there are: longer than a trainer remembers."""
    coordinator = Coordinator(first_within_ms=50)
    deliveries = Deliveries(coordinator)
    async with asyncio.timeout(5):  # less than they wait after the next reply
        assert deliveries.take(frames.Delivered("s", (1,)))
        assert await coordinator.calls.get() == [1]
        for number, session_id in enumerate("stu", 2):
            assert deliveries.take(frames.Delivered(session_id, (number,)))
        assert [await coordinator.calls.get() for _ in "stu"] == [[2], [3], [4]]
        deliveries.on_gone()


@on_loop
async def test_more_than_one_call_takes_is_passed_on_in_order() -> None:
    coordinator = Coordinator()
    deliveries = Deliveries(coordinator)
    async with asyncio.timeout(5):
        assert deliveries.take(frames.Delivered("s", tuple(range(MAX_ACKS + 1))))
        assert await coordinator.calls.get() == list(range(MAX_ACKS))
        assert await coordinator.calls.get() == [MAX_ACKS]
