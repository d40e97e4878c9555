"""A server's port is known before it listens, and nobody else can have it meanwhile."""

from __future__ import annotations

import asyncio
import socket
import subprocess
import sys
from contextlib import ExitStack

import grpc.aio
import pytest

from tests.support import fixed_ports
from tests.support.aio import on_loop
from tfquiver import errors
from tfquiver.grpc_plumbing import addresses
from tfquiver.service.common_to_servers.tensorflow_servers import known_port


def connects(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), 5).close()
    except ConnectionRefusedError:
        return False
    return True


async def serving(port: int) -> grpc.aio.Server:
    """As TensorFlow's servers: gRPC, with SO_REUSEPORT, on every address. Raises RuntimeError."""
    server = grpc.aio.server(options=[("grpc.so_reuseport", 1)])
    try:
        assert server.add_insecure_port(f"0.0.0.0:{port}") == port
    finally:
        await server.start()  # else nothing closes what it has opened
    return server


@pytest.mark.parametrize("asked", ["any", "that one"])
@on_loop
async def test_grpc_listens_where_it_is_held_and_goes_on_when_it_is_let_go(asked: str) -> None:
    port = 0 if asked == "any" else fixed_ports.free_port(addresses.everywhere())
    with known_port.held(port) as held:
        assert held.number == (port or held.number) > 0
        assert not connects(held.number), "nobody is there yet, and whoever comes is told so"
        server = await serving(held.number)
        for _ in range(20):  # none of them goes to the socket that holds it
            assert await asyncio.to_thread(connects, held.number)
        held.let_go()
        assert await asyncio.to_thread(connects, held.number)
    await server.stop(None)


@pytest.mark.parametrize("asked", ["any", "that one"])
@pytest.mark.parametrize("option", [None, socket.SO_REUSEADDR])
@pytest.mark.parametrize("host", ["127.0.0.1", "0.0.0.0"])
def test_nobody_else_can_have_it(host: str, option: int | None, asked: str) -> None:
    port = 0 if asked == "any" else fixed_ports.free_port(addresses.everywhere())
    with known_port.held(port) as held, socket.socket() as other:
        if option is not None:
            other.setsockopt(socket.SOL_SOCKET, option, 1)
        with pytest.raises(OSError, match="in use"):
            other.bind((host, held.number))


def test_who_asks_for_any_port_gets_another_one() -> None:
    """Also of those who share theirs, as TensorFlow's servers do."""
    with ExitStack() as stack:
        mine = {stack.enter_context(known_port.held(0)).number for _ in range(100)}
        assert len(mine) == 100
        for _ in range(1000):
            other = stack.enter_context(socket.socket())
            other.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
            other.bind(("0.0.0.0", 0))
            assert other.getsockname()[1] not in mine


@on_loop
async def test_a_port_that_a_server_has_is_refused_also_where_it_would_be_shared() -> None:
    with known_port.held(0) as held:
        port = held.number
        with pytest.raises(errors.UnavailableError, match=f"--port={port}"), known_port.held(port):
            raise AssertionError("two hold it")
        server = await serving(port)
    with pytest.raises(errors.UnavailableError, match=f"--port={port}"), known_port.held(port):
        raise AssertionError("two servers would share it")
    await server.stop(None)


def test_two_who_start_with_one_number_at_one_time_do_not_share_it() -> None:
    """One is between two options of its socket, where the other one's would be let in."""
    port = 47_123
    code = (
        "import sys; from tfquiver.service.common_to_servers.tensorflow_servers import known_port\n"
        f"with known_port._alone({port}): print('there', flush=True); sys.stdin.read()"
    )
    with subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == b"there\n"
        with pytest.raises(errors.UnavailableError, match=f"--port={port}: another server"), known_port.held(port):
            raise AssertionError("two hold it")
    with known_port.held(port) as held:
        assert held.number == port


def test_what_is_left_of_connections_of_the_server_before_is_no_obstacle() -> None:
    listener = socket.create_server(("127.0.0.1", 0))
    port = listener.getsockname()[1]
    with socket.create_connection(("127.0.0.1", port)) as near:
        far, _ = listener.accept()
        far.close()  # first: its port is the one that has to wait
        assert near.recv(1) == b""
        listener.close()
    with pytest.raises(OSError, match="in use"), socket.socket() as plain:
        plain.bind(("127.0.0.1", port))
    with known_port.held(port) as held:
        assert held.number == port
