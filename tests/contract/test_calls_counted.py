"""What a server counts of its calls: failures that are its own fault, also of calls that stream their replies."""

from __future__ import annotations

import asyncio
import urllib.request
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import grpc
import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.support.aio import on_loop
from tfquiver import errors
from tfquiver.grpc_plumbing import rpc
from tfquiver.proto.tfquiver.v1 import node_pb2 as pb
from tfquiver.proto.tfquiver.v1 import node_pb2_grpc
from tfquiver.roles_and_tokens.identity import Open
from tfquiver.service.metrics import exposition


class _Faulty(node_pb2_grpc.NodeServicer):
    """Streams well, refuses, or has a fault."""

    @rpc.handled
    async def Status(self, request: pb.StatusRequest, context: Any) -> pb.StatusReply:
        raise errors.TfquiverError("the answer to a call cannot be")

    @rpc.handled_stream
    async def Warm(self, request: pb.WarmRequest, context: Any) -> AsyncIterator[pb.WarmProgress]:
        yield pb.WarmProgress()
        if request.digest_id == b"refuse":
            raise errors.NotFoundError("digest_id: nobody knows it")
        if request.digest_id == b"typed":
            raise errors.TfquiverError("it cannot be")
        if request.digest_id:
            raise ZeroDivisionError


async def _outcome(stub: Any, digest_id: bytes) -> grpc.StatusCode:
    replies = 0
    try:
        async for _ in stub.Warm(pb.WarmRequest(digest_id=digest_id), timeout=20):
            replies += 1
    except grpc.aio.AioRpcError as error:
        return error.code()
    finally:
        assert replies == 1
    return grpc.StatusCode.OK


@asynccontextmanager
async def _serving() -> AsyncIterator[Any]:
    server = rpc.new_server(Open())
    node_pb2_grpc.add_NodeServicer_to_server(_Faulty(), server)
    port = rpc.listen(server, "localhost:0")
    await server.start()
    try:
        async with rpc.aio_channel(f"localhost:{port}") as channel:
            yield node_pb2_grpc.NodeStub(channel)
    finally:
        await server.stop(None)


@on_loop
async def test_a_stream_that_ends_by_a_fault_of_the_server_is_counted(caplog: pytest.LogCaptureFixture) -> None:
    seen: list[tuple[str, str]] = []
    rpc.on_served(lambda method, code, _took_s: seen.append((method, code)))
    try:
        async with _serving() as stub:
            outcomes = [await _outcome(stub, digest_id) for digest_id in (b"", b"refuse", b"fault")]
    finally:
        rpc.on_served(None)
    assert outcomes == [grpc.StatusCode.OK, grpc.StatusCode.NOT_FOUND, grpc.StatusCode.INTERNAL]
    assert seen == [("Warm", "INTERNAL")]
    assert "ZeroDivisionError" in caplog.text
    caplog.clear()  # tracebacks hold what their frames do


@on_loop
async def test_a_fault_that_has_a_type_is_logged_with_where_it_was_and_not_again_and_again(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with _serving() as stub:
        for _ in range(3):
            assert await _outcome(stub, b"typed") is grpc.StatusCode.INTERNAL
            with pytest.raises(grpc.aio.AioRpcError, match="the answer to a call cannot be"):
                await stub.Status(pb.StatusRequest(), timeout=20)
    for line in ('raise errors.TfquiverError("it cannot be")', 'raise errors.TfquiverError("the answer to a call'):
        assert caplog.text.count(line) == 1
    caplog.clear()  # as above


@on_loop
async def test_faults_are_told_of_each_method_before_there_is_one(caplog: pytest.LogCaptureFixture) -> None:
    """What appears with its first fault has not risen, as Prometheus sees it."""

    def faults(where: str) -> dict[str, float]:
        with urllib.request.urlopen(f"http://{where}/metrics", timeout=20) as reply:
            families = text_string_to_metric_families(reply.read().decode())
            return {
                sample.labels["method"]: sample.value
                for family in families
                for sample in family.samples
                if sample.name == "tfquiver_rpc_faults_total"
            }

    with exposition.exposed("localhost:0", "node", exposition.nothing) as where:
        before = await asyncio.to_thread(faults, where)
        async with _serving() as stub:
            for digest_id in (b"", b"refuse", b"fault"):
                await _outcome(stub, digest_id)
        after = await asyncio.to_thread(faults, where)
    assert after == {**before, "Warm": before["Warm"] + 1}
    caplog.clear()  # as above
