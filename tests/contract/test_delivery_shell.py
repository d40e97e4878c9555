"""What a trainer was delivered is acknowledged together, as late as the coordinator allows; at once when it left."""

from __future__ import annotations

import asyncio

from tests.support.aio import on_loop
from tfquiver.proto.tfquiver.v1 import coordinator_pb2 as pb
from tfquiver.service.node.readers.delivery_shell import Deliveries
from tfquiver.wire import reader_frames as frames


class Coordinator:
    def __init__(self) -> None:
        self.calls = asyncio.Queue[list[int]]()

    async def ack(self, request: pb.AckRequest) -> pb.AckReply:
        self.calls.put_nowait(list(request.shards))
        return pb.AckReply(ack_within_ms=9_000)


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
