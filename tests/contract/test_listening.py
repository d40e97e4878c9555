"""On which addresses a server listens whose host has several, as `localhost` has where it is ::1 as well."""

from __future__ import annotations

import asyncio
import socket

import grpc.aio
import pytest

from tfquiver import errors
from tfquiver.wire import addresses, rpc

BOTH = ["127.0.0.1", "127.0.0.2"]


@pytest.fixture(autouse=True)
def two_addresses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(addresses, "to_bind", lambda host: BOTH)


class TakenAtFirst:
    """A server, whose first port somebody else has at the second address."""

    def __init__(self, server: grpc.aio.Server) -> None:
        self._server = server
        self.asked: list[str] = []
        self._taken: list[socket.socket] = []

    def add_insecure_port(self, address: str) -> int:
        self.asked.append(address)
        port = self._server.add_insecure_port(address)
        if not self._taken:
            self._taken.append(socket.create_server((BOTH[1], port)))
        return port

    def close(self) -> None:
        for taken in self._taken:
            taken.close()


def connects(host: str, port: int) -> bool:
    try:
        socket.create_connection((host, port), 5).close()
    except OSError:
        return False
    return True


async def listening(address: str) -> None:
    server = grpc.aio.server(options=[("grpc.so_reuseport", 0)])
    try:
        try:
            port = rpc.listen(server, address)
        finally:
            await server.start()  # else nothing closes what it has opened
        assert await asyncio.gather(*(asyncio.to_thread(connects, host, port) for host in BOTH)) == [True, True]
    finally:
        await server.stop(None)


def test_a_free_port_is_free_at_all_addresses() -> None:
    asyncio.run(listening("localhost:0"))


def test_a_port_that_another_has_at_one_address_is_passed_over() -> None:
    async def run() -> None:
        server = grpc.aio.server(options=[("grpc.so_reuseport", 0)])
        subject = TakenAtFirst(server)
        try:
            port = rpc.listen(subject, "localhost:0")  # type: ignore[arg-type]
            await server.start()
            assert subject.asked[-1] == f"{BOTH[1]}:{port}"
            assert len(subject.asked) == 4
        finally:
            await server.stop(None)
            subject.close()

    asyncio.run(run())


def test_a_port_asked_for_that_another_has_at_one_address_is_refused() -> None:
    with socket.create_server((BOTH[1], 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(errors.UnavailableError, match=f"cannot listen on localhost:{port}"):
            asyncio.run(listening(f"localhost:{port}"))


def test_a_host_without_an_address_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    with pytest.raises(errors.UnavailableError, match=r"cannot listen on nowhere\.invalid:0"):
        asyncio.run(listening("nowhere.invalid:0"))
