"""What a reader asks of a coordinator that knows less: nothing is taken for durable that it has not said so of."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import grpc

from tests.support.aio import on_loop
from tfquiver.messages_and_binary_formats import reader_frames as frames
from tfquiver.proto.tfquiver.v1 import coordinator_pb2 as pb
from tfquiver.proto.tfquiver.v1 import coordinator_pb2_grpc, types_pb2
from tfquiver.service.node.coordinator_link.coordinator_calls import CoordinatorCalls
from tfquiver.service.node.reader_sessions.instructions import Lease
from tfquiver.service.node.reader_sessions.reader_calls import ACK_WITHIN_S, MAX_ACK_WITHIN_S, ReaderCalls


class Coordinator(coordinator_pb2_grpc.CoordinatorServicer):
    def __init__(self, reply: pb.LeaseReply) -> None:
        self._reply, self.acked = reply, list[list[int]]()

    async def NodeCalls(self, request_iterator: Any, context: Any) -> None:  # type: ignore[override]
        await context.abort(grpc.StatusCode.UNIMPLEMENTED, "")

    async def Lease(self, request: pb.LeaseRequest, context: Any) -> pb.LeaseReply:  # type: ignore[override]
        return self._reply

    async def Ack(self, request: pb.AckRequest, context: Any) -> pb.AckReply:  # type: ignore[override]
        self.acked.append(list(request.shards))
        return pb.AckReply()


async def lease(tmp_path: Path, reply: pb.LeaseReply) -> tuple[list[list[int]], float]:
    """What was acknowledged by calls of their own, and how long the next ones may wait."""
    acked, reader = await leased(tmp_path, reply)
    return acked, reader.ack_within_s


async def leased(tmp_path: Path, reply: pb.LeaseReply) -> tuple[list[list[int]], ReaderCalls]:
    """What was acknowledged by calls of their own, and who asked."""
    server, servicer = grpc.aio.server(), Coordinator(reply)
    coordinator_pb2_grpc.add_CoordinatorServicer_to_server(servicer, server)
    server.add_insecure_port(f"unix:{tmp_path}/socket")
    await server.start()
    calls = CoordinatorCalls(f"unix:{tmp_path}/socket", "", types_pb2.NodeInfo, 5.0)
    try:
        reader = ReaderCalls(calls, ("n", "1"), "", frames.Open("s", "k", bytes(32), "j", "r", 1, frames.Wish(), False))
        async with asyncio.timeout(5):
            await reader.lease(Lease(1, 1, 1, False, 0, acked=(3, 4)))
        return servicer.acked, reader
    finally:
        await calls._channel.close()
        await server.stop(None)


@on_loop
async def test_a_coordinator_that_does_not_know_of_it_is_told_again(tmp_path: Path) -> None:
    reply = pb.LeaseReply(state=pb.LeaseReply.STATE_WAIT)
    assert await lease(tmp_path, reply) == ([[3, 4]], ACK_WITHIN_S)


@on_loop
async def test_one_that_does_is_not(tmp_path: Path) -> None:
    reply = pb.LeaseReply(state=pb.LeaseReply.STATE_WAIT, acks_durable=True, ack_within_ms=2000)
    assert await lease(tmp_path, reply) == ([], 2.0)


@on_loop
async def test_no_coordinator_has_them_wait_longer_than_a_reader_remembers_them(tmp_path: Path) -> None:
    reply = pb.LeaseReply(state=pb.LeaseReply.STATE_WAIT, acks_durable=True, ack_within_ms=1 << 31)
    assert (await lease(tmp_path, reply))[1] == MAX_ACK_WITHIN_S


@on_loop
async def test_what_stands_on_no_disk_is_known_until_the_shard_is_forgotten(tmp_path: Path) -> None:
    leases = [pb.LeasedShard(shard=shard, owner="n", resident=shard == 5) for shard in (4, 5, 6)]
    _, reader = await leased(tmp_path, pb.LeaseReply(state=pb.LeaseReply.STATE_LEASED, leases=leases))
    assert reader.missing == {4, 6}
    reader.forget([6])
    assert reader.missing == {4}
