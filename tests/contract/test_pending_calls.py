"""A server whose loop is busy for a while keeps what is asked meanwhile, however much it is."""

from __future__ import annotations

import asyncio
import threading
import time
from typing import Any

import grpc
import pytest

from tests.support.aio import on_loop
from tfquiver.grpc_plumbing import rpc
from tfquiver.proto.tfquiver.v1 import coordinator_pb2 as pb
from tfquiver.proto.tfquiver.v1 import coordinator_pb2_grpc
from tfquiver.roles_and_tokens.identity import Open

CALLS = 5000  # a thousand nodes and a thousand jobs ask twice; gRPC by itself cancels some of more than a thousand


class Servicer(coordinator_pb2_grpc.CoordinatorServicer):
    async def ListNodes(self, request: pb.ListNodesRequest, context: Any) -> pb.ListNodesReply:
        return pb.ListNodesReply()


def _ask(address: str, asked: threading.Event) -> list[grpc.StatusCode]:
    with rpc.channel(address) as channel:
        stub: Any = coordinator_pb2_grpc.CoordinatorStub(channel)
        # No deadline of a caller decides: how long so many take is the machine's affair.
        stub.ListNodes(pb.ListNodesRequest(), timeout=250.0)
        calls = [stub.ListNodes.future(pb.ListNodesRequest(), timeout=250.0) for _ in range(CALLS)]
        asked.set()
        return [call.code() for call in calls]


@pytest.mark.slow
@on_loop
async def test_nothing_that_is_asked_of_a_busy_server_is_refused() -> None:
    server = rpc.new_server(Open())
    coordinator_pb2_grpc.add_CoordinatorServicer_to_server(Servicer(), server)
    port = rpc.listen(server, "localhost:0")
    await server.start()
    asked = threading.Event()
    try:
        answers = asyncio.create_task(asyncio.to_thread(_ask, f"localhost:{port}", asked))
        while not asked.is_set() and not answers.done():
            await asyncio.sleep(0)
            time.sleep(0.2)  # the loop does something else
        codes = await answers
    finally:
        await server.stop(None)
    assert {code.name: codes.count(code) for code in set(codes)} == {"OK": CALLS}
