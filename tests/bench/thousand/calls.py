"""How a node makes the calls that it makes all the time: as real ones do, `CallStream`, or as they did before that."""

from __future__ import annotations

from typing import Any, Protocol

from tfquiver.proto.tfquiver.v1 import coordinator_pb2 as pb


class Calls(Protocol):
    async def heartbeat(self, request: pb.HeartbeatRequest, timeout_s: float) -> pb.HeartbeatReply: ...
    async def orders(self, request: pb.OrdersRequest, timeout_s: float) -> pb.OrdersReply: ...
    async def lease(self, request: pb.LeaseRequest, timeout_s: float) -> pb.LeaseReply: ...
    async def ack(self, request: pb.AckRequest, timeout_s: float) -> pb.AckReply: ...
    def close(self) -> None: ...


class OneByOne:
    def __init__(self, stub: Any) -> None:
        self._stub = stub

    async def heartbeat(self, request: pb.HeartbeatRequest, timeout_s: float) -> pb.HeartbeatReply:
        reply: pb.HeartbeatReply = await self._stub.Heartbeat(request, timeout=timeout_s)
        return reply

    async def orders(self, request: pb.OrdersRequest, timeout_s: float) -> pb.OrdersReply:
        reply: pb.OrdersReply = await self._stub.Orders(request, timeout=timeout_s)
        return reply

    async def lease(self, request: pb.LeaseRequest, timeout_s: float) -> pb.LeaseReply:
        reply: pb.LeaseReply = await self._stub.Lease(request, timeout=timeout_s)
        return reply

    async def ack(self, request: pb.AckRequest, timeout_s: float) -> pb.AckReply:
        reply: pb.AckReply = await self._stub.Ack(request, timeout=timeout_s)
        return reply

    def close(self) -> None:
        pass
