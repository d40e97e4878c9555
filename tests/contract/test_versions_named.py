"""Who refuses another version names both, and says what to do: calls, frames of the reader socket and the data port."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import grpc.aio
import pytest

from tests.support.aio import on_loop
from tfquiver import errors
from tfquiver.grpc_plumbing import rpc
from tfquiver.messages_and_binary_formats import reader_frames
from tfquiver.proto.tfquiver.v1 import node_pb2 as pb
from tfquiver.proto.tfquiver.v1 import node_pb2_grpc
from tfquiver.roles_and_tokens.identity import Always, Authority, Identity, Open, Role
from tfquiver.service.node.connections_between_nodes import data_frames
from tfquiver.version import VERSION


class Answers(node_pb2_grpc.NodeServicer):
    async def Status(self, request: pb.StatusRequest, context: Any) -> pb.StatusReply:
        return pb.StatusReply(hits=7)


class Nobody(Authority):
    async def identify(self, token: str) -> Identity:
        raise errors.UnauthenticatedError("no token")


async def refused(address: str, method: str) -> errors.TfquiverError:
    async with grpc.aio.insecure_channel(address) as channel:
        stub: Any = node_pb2_grpc.NodeStub(channel)
        call = channel.unary_unary(method, request_serializer=None, response_deserializer=None)
        with pytest.raises(grpc.RpcError) as caught:
            await call(b"whatever", timeout=30)
        await stub.Status(pb.StatusRequest(), timeout=30)  # what there is goes on
        assert caught.value.code() is grpc.StatusCode.UNIMPLEMENTED
        return rpc.from_rpc_error(caught.value, "asking node n")


@pytest.mark.parametrize("authority", [Open(), Always(Identity(Role.ADMIN, "ann")), Always(Identity(Role.JOB, "j"))])
@on_loop
async def test_a_call_that_a_server_does_not_have(tmp_path: Path, authority: Authority) -> None:
    server = rpc.new_server(authority)
    node_pb2_grpc.add_NodeServicer_to_server(Answers(), server)
    rpc.listen(server, f"unix:{tmp_path / 's'}")
    await server.start()
    try:
        error = await refused(f"unix:{tmp_path / 's'}", "/tfquiver.v1.Node/Of\x1bLater")
    finally:
        await server.stop(None)
    assert str(error) == (
        f"asking node n: tfquiver {VERSION}, which answers here, has no call /tfquiver.v1.Node/Of\\x1bLater; this is "
        f"tfquiver {VERSION}: upgrade the older of the two (`tfquiver doctor` says what runs where)"
    )


@on_loop
async def test_of_an_older_server_that_does_not_name_itself(tmp_path: Path) -> None:
    server = grpc.aio.server()
    node_pb2_grpc.add_NodeServicer_to_server(Answers(), server)
    server.add_insecure_port(f"unix:{tmp_path / 's'}")
    await server.start()
    try:
        error = await refused(f"unix:{tmp_path / 's'}", "/tfquiver.v1.Node/OfTomorrow")
    finally:
        await server.stop(None)
    assert "version, that does not say which, than this, tfquiver " + VERSION in str(error)
    assert "upgrade the older of the two" in str(error)


@on_loop
async def test_who_shows_no_token_is_not_told_the_version(tmp_path: Path) -> None:
    server = rpc.new_server(Nobody())
    rpc.listen(server, f"unix:{tmp_path / 's'}")
    await server.start()
    try:
        async with grpc.aio.insecure_channel(f"unix:{tmp_path / 's'}") as channel:
            call = channel.unary_unary("/tfquiver.v1.Node/OfTomorrow")
            with pytest.raises(grpc.RpcError) as caught:
                await call(b"", timeout=30)
    finally:
        await server.stop(None)
    assert caught.value.code() is grpc.StatusCode.UNAUTHENTICATED and VERSION not in str(caught.value.details())


def test_what_a_server_refuses_for_another_reason_keeps_its_words() -> None:
    error = grpc.aio.AioRpcError(
        grpc.StatusCode.UNIMPLEMENTED, grpc.aio.Metadata(), grpc.aio.Metadata(), "--policy=off"
    )
    assert str(rpc.from_rpc_error(error, "policy")) == "policy: --policy=off"


@pytest.mark.parametrize(
    ("frame", "decode", "peer"),
    [
        (reader_frames.encode(reader_frames.Ping()), reader_frames.decode, "op"),
        (data_frames.encode(data_frames.Working()), data_frames.decode_header, "node"),
    ],
)
def test_frames_of_another_version(frame: bytes, decode: Any, peer: str) -> None:
    other = frame[:2] + bytes([frame[2] + 8]) + frame[3:]
    with pytest.raises(errors.ProtocolError) as caught:
        decode(other[: data_frames.HEADER_BYTES] if peer == "node" else other)
    assert str(caught.value) == (
        f"the {peer} at the other end speaks protocol version {frame[2] + 8}, tfquiver {VERSION} here {frame[2]}: "
        "upgrade the older of the two, and start it again"
    )
