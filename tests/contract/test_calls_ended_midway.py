"""What is raised of a call that the server ends while its requests are still being sent: gRPC's client forgets why."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator
from pathlib import Path

import grpc
import grpc.aio
import pytest

from tests.support.aio import on_loop
from tfquiver import errors
from tfquiver.grpc_plumbing import rpc

LOST = "Internal error from Core"
WHOLE = b"x" * 10_000


class Refusing(grpc.GenericRpcHandler):
    """Ends every call at its first request."""

    def service(self, handler_call_details: grpc.HandlerCallDetails) -> grpc.RpcMethodHandler:
        async def refuse(requests: AsyncIterator[bytes], context: grpc.aio.ServicerContext[bytes, bytes]) -> bytes:
            return await context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, "full")

        return grpc.stream_unary_rpc_method_handler(refuse)


@on_loop
async def test_what_the_server_said_is_raised_however_it_was_lost_at_first(tmp_path: Path) -> None:
    server = grpc.aio.server()
    server.add_generic_rpc_handlers((Refusing(),))
    server.add_insecure_port(f"unix:{tmp_path}/socket")
    await server.start()
    lost = 0

    async def call() -> bytes:
        nonlocal lost
        stream = channel.stream_stream("/any/Call")()
        try:
            for _ in range(random.randrange(4)):  # where its end is found by a write, gRPC says nothing of why
                await stream.write(WHOLE)
        except (grpc.RpcError, asyncio.InvalidStateError):
            pass
        try:
            return bytes(await stream.read())
        except grpc.RpcError as error:
            lost += error.details() == LOST
            raise

    async with grpc.aio.insecure_channel(f"unix:{tmp_path}/socket") as channel, asyncio.timeout(60):
        while not lost:
            with pytest.raises(errors.ResourceExhaustedError, match="asked: full"):
                await rpc.retry(call, "asked", 20.0)
    await server.stop(None)
