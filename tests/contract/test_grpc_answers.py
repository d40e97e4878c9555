"""What a look at a port finds, without gRPC, whoever listens there."""

from __future__ import annotations

import concurrent.futures
import socket
import time

import grpc
import pytest

from tests.support.aio import on_loop
from tests.support.one_answer import answering
from tfquiver.grpc_plumbing import rpc
from tfquiver.roles_and_tokens.identity import Open
from tfquiver.server_reachability.grpc_answers import trouble


def test_a_server_in_threads_answers() -> None:
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        running = grpc.server(pool)
        port = running.add_insecure_port("localhost:0")
        running.start()
        try:
            assert [trouble(f"localhost:{port}", 5.0) for _ in range(20)] == [""] * 20
            assert trouble(f"localhost:1,localhost:{port}", 5.0) == "", "the second one is enough"
        finally:
            running.stop(None).wait()
    assert trouble(f"localhost:{port}", 5.0) == "nobody listens there (connection refused)"
    assert trouble(f"localhost:{port},nowhere.invalid:1", 5.0) == "nobody listens there (connection refused)"


@on_loop
async def test_our_own_servers_answer_while_their_loop_is_busy() -> None:
    running = rpc.new_server(Open())
    port = rpc.listen(running, "localhost:0")
    await running.start()
    try:
        assert trouble(f"localhost:{port}", 5.0) == "", "this very call holds the loop up"
    finally:
        await running.stop(None)


@pytest.mark.parametrize(("said", "told"), [
    (b"", "it closes every connection"),
    (b"HTTP/1.1 400 Bad Request\r\n", "what listens there is no server of this kind"),
    (b"\0\0\0", "what listens there is no server of this kind"),
])  # fmt: skip
def test_something_else_listens(said: bytes, told: str) -> None:
    with socket.create_server(("localhost", 0)) as listening, answering(listening, said):
        assert trouble(f"localhost:{listening.getsockname()[1]}", 5.0) == told


def test_what_a_server_says_may_come_in_pieces() -> None:
    """As through a proxy."""
    with (
        socket.create_server(("localhost", 0)) as listening,
        answering(listening, bytes((0, 0, 0, 4)), bytes(5), between_s=0.3),
    ):
        assert trouble(f"localhost:{listening.getsockname()[1]}", 5.0) == ""


def test_a_port_that_only_the_kernel_answers() -> None:
    with socket.create_server(("localhost", 0)) as listening:
        began_s = time.monotonic()
        assert trouble(f"localhost:{listening.getsockname()[1]}", 0.3) == "no answer from there"
        assert time.monotonic() - began_s < 3


@pytest.mark.parametrize("address", ["nonsense", "localhost:99999", "[::1", "\0:1"])
def test_what_is_no_address_raises_nothing(address: str) -> None:
    assert trouble(address, 0.3)
