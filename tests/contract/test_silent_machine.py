"""A machine that is gone hangs up on nobody: where another server stands by it is found all the same."""

from __future__ import annotations

import asyncio
from typing import Any

import grpc
import pytest

from tests.support.aio import on_loop
from tests.support.silent_machine import METHOD, Relay, serving
from tests.support.streamed_coordinator import Coordinator, ack
from tfquiver.grpc_plumbing import rpc
from tfquiver.proto.tfquiver.v1 import coordinator_pb2_grpc
from tfquiver.roles_and_tokens.identity import Open
from tfquiver.service.node.coordinator_link import call_stream
from tfquiver.service.node.coordinator_link.call_stream import CallStream

_FASTER = 4


async def _answering(answer: bytes, after_s: float = 0.0) -> tuple[grpc.aio.Server, int]:
    async def call(_request: bytes, _context: Any) -> bytes:
        await asyncio.sleep(after_s)
        return answer

    return await serving(grpc.unary_unary_rpc_method_handler(call))


@pytest.fixture(autouse=True)
def faster(monkeypatch: pytest.MonkeyPatch) -> None:
    times = [(name, value // _FASTER) for name, value in rpc._NOTICES_SILENCE]
    monkeypatch.setattr(rpc, "_NOTICES_SILENCE", times)


@pytest.mark.slow
@on_loop
async def test_the_second_one_is_found_when_the_first_one_says_nothing_more() -> None:
    (first, first_port), (second, second_port) = await _answering(b"first"), await _answering(b"second")
    async with (
        Relay(first_port) as relay,
        rpc.aio_channel(f"127.0.0.1:{relay.port},127.0.0.1:{second_port}") as channel,
    ):
        call: Any = channel.unary_unary(METHOD)
        assert await call(b"", timeout=10) == b"first"
        relay.fall_silent()
        assert await rpc.retry(lambda: call(b"", timeout=2), "call", 20) == b"second"
    await first.stop(None)
    await second.stop(None)


@pytest.mark.slow
@on_loop
async def test_so_is_it_by_a_nodes_stream_of_calls_which_leaves_nobody_for_being_late(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The stream's own patience ends streams, no connections: who has another coordinator need not wait for it."""
    monkeypatch.setattr(call_stream, "_SILENT_S", 1e9)
    coordinators, servers = [Coordinator(), Coordinator()], []
    ports = list[int]()
    for one in coordinators:
        server = rpc.new_server(Open())
        coordinator_pb2_grpc.add_CoordinatorServicer_to_server(one, server)
        ports.append(rpc.listen(server, "127.0.0.1:0"))
        await server.start()
        servers.append(server)
    async with (
        Relay(ports[0]) as relay,
        rpc.aio_channel(f"127.0.0.1:{relay.port},127.0.0.1:{ports[1]}") as channel,
    ):
        calls = CallStream(coordinator_pb2_grpc.CoordinatorStub(channel), ())
        await calls.ack(ack(), 10)
        assert [one.streams for one in coordinators] == [1, 0]
        relay.fall_silent()
        await rpc.retry(lambda: calls.ack(ack(), 2), "calls", 20)
        assert [one.streams for one in coordinators] == [1, 1]
        calls.close()
    for server in servers:
        await server.stop(None)


@pytest.mark.slow
@on_loop
async def test_who_waits_long_for_an_answer_is_not_hung_up_on_for_asking_whether_somebody_is_there() -> None:
    server, port = await _answering(b"late", after_s=6.0)
    async with rpc.aio_channel(f"127.0.0.1:{port},127.0.0.1:{port}") as channel:
        call: Any = channel.unary_unary(METHOD)
        assert await call(b"", timeout=20) == b"late"
    await server.stop(None)
