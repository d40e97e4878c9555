"""A machine that refuses is told from one that says nothing: of the former no port is closed, its server has ended."""

from __future__ import annotations

import socket
from contextlib import ExitStack

from tests.support.fixed_ports import free_port
from tfquiver import errors
from tfquiver.cli import calls
from tfquiver.proto.tfquiver.v1 import node_pb2, node_pb2_grpc
from tfquiver.server_reachability import unreached


def test_a_server_that_was_killed_is_said_to_be() -> None:
    with ExitStack() as stack:
        mute = stack.enter_context(socket.create_server(("127.0.0.1", 0)))  # takes connections, says nothing
        questions = list[calls.Asked]()
        for port in (free_port(), mute.getsockname()[1]):
            channel = stack.enter_context(calls.node_channel(f"127.0.0.1:{port}"))
            stub = node_pb2_grpc.NodeStub(channel)
            questions.append((stub.Status, node_pb2.StatusRequest(), f"node n at 127.0.0.1:{port}"))
        killed, silent = calls.ask_all(questions, "", wait_for_ready=False)
    assert isinstance(killed, errors.UnavailableError) and isinstance(silent, errors.UnavailableError)
    assert f"does not answer: {unreached.REFUSED}; it was stopped or killed: where `tfquiver up`" in str(killed)
    assert str(silent).endswith("does not answer within 1 s")
