"""A coordinator that takes calls over streams as the real one does, and what else tests of them need."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import grpc
import pytest

from tfquiver import errors
from tfquiver.grpc_plumbing import rpc
from tfquiver.grpc_plumbing.rpc import handled
from tfquiver.proto.tfquiver.v1 import coordinator_pb2 as pb
from tfquiver.proto.tfquiver.v1 import coordinator_pb2_grpc
from tfquiver.roles_and_tokens.identity import Identity, Open, Role, wrong_token
from tfquiver.roles_and_tokens.tokens import hash_of
from tfquiver.service.coordinator.grpc_calls.streamed_calls import StreamedCalls
from tfquiver.service.node.coordinator_link.call_stream import CallStream


class Tokens:
    named = True

    def __init__(self) -> None:
        self.known = {"node": Identity(Role.NODE, "n"), "job": Identity(Role.JOB, "j")}

    async def identify(self, token: str) -> Identity:
        if token not in self.known:
            raise wrong_token(token)
        return self.known[token]

    def by_hash(self, hash: bytes) -> Identity | None:
        return next((who for token, who in self.known.items() if hash_of(token) == hash), None)


class Coordinator(coordinator_pb2_grpc.CoordinatorServicer):
    """Acks are answered at once, leases when `free` is set; what is called by itself is noted."""

    def __init__(self, tokens: Tokens | None = None) -> None:
        methods = {"Heartbeat": self.Heartbeat, "Orders": self.Orders, "Lease": self.Lease, "Ack": self.Ack}
        self.heard = list[tuple[str, str]]()  # of whose messages
        self.streamed = StreamedCalls(methods, tokens, lambda *whose: self.heard.append(whose))
        self.streams, self.callers = 0, list[Identity]()
        self.free, self.waits, self.given_up = asyncio.Event(), asyncio.Event(), asyncio.Event()
        self.alone = list[str]()
        self.orders_bytes = 0

    def _note(self, context: Any) -> None:
        if hasattr(context, "invocation_metadata"):
            self.alone.append("a call by itself")

    async def NodeCalls(self, request_iterator: Any, context: Any) -> None:  # type: ignore[override]
        self.streams += 1
        await self.streamed.serve(context)

    @handled
    async def Lease(self, request: pb.LeaseRequest, context: Any) -> pb.LeaseReply:
        self.waits.set()
        try:
            await self.free.wait()
        except asyncio.CancelledError:
            self.given_up.set()
            raise
        return pb.LeaseReply(state=pb.LeaseReply.STATE_WAIT, ack_within_ms=request.wait_ms)

    @handled
    async def Ack(self, request: pb.AckRequest, context: Any) -> pb.AckReply:
        self._note(context)
        self.callers.append(rpc.caller())
        if request.session_id == "none":
            raise errors.NotFoundError("no session 'none'")
        if request.session_id == "another's":
            raise errors.PermissionError_("a session of somebody else")
        return pb.AckReply(ack_within_ms=len(request.shards))

    @handled
    async def Heartbeat(self, request: pb.HeartbeatRequest, context: Any) -> pb.HeartbeatReply:
        return pb.HeartbeatReply()

    @handled
    async def Orders(self, request: pb.OrdersRequest, context: Any) -> pb.OrdersReply:
        self._note(context)
        reply = pb.OrdersReply(version=7)
        reply.orders.add(digest_id=bytes(self.orders_bytes))
        return reply


@asynccontextmanager
async def calls_of(
    tmp_path: Path, servicer: coordinator_pb2_grpc.CoordinatorServicer, tokens: Tokens | None = None, token: str = ""
) -> AsyncIterator[CallStream]:
    server = rpc.new_server(tokens or Open())
    coordinator_pb2_grpc.add_CoordinatorServicer_to_server(servicer, server)
    rpc.listen(server, f"unix:{tmp_path}/socket")
    await server.start()
    channel = rpc.aio_channel(f"unix:{tmp_path}/socket")
    calls = CallStream(coordinator_pb2_grpc.CoordinatorStub(channel), rpc.metadata(token))
    try:
        async with asyncio.timeout(30):
            yield calls
    finally:
        calls.close()
        await channel.close()
        await server.stop(None)


async def ends_with(code: grpc.StatusCode, call: Any) -> str:
    with pytest.raises(grpc.RpcError) as raised:
        await call
    assert raised.value.code() is code
    return str(raised.value.details())


def ack(shards: Sequence[int] = (), session_id: str = "s") -> pb.AckRequest:
    return pb.AckRequest(session_id=session_id, shards=shards)


@asynccontextmanager
async def raw(tmp_path: Path, coordinator: Coordinator) -> AsyncIterator[Any]:
    async with calls_of(tmp_path, coordinator) as calls:
        yield calls._stub.NodeCalls()
