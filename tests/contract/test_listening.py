"""On which addresses a server listens whose host has several, as `localhost` has where it is ::1 as well."""

from __future__ import annotations

import asyncio
import re
import socket

import grpc.aio
import pytest

from tfquiver import errors
from tfquiver.grpc_plumbing import addresses, rpc
from tfquiver.local_cluster import ports

BOTH = ["127.0.0.1", "127.0.0.2"]


@pytest.fixture(autouse=True)
def two_addresses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(addresses, "to_bind", lambda host: BOTH)


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


def test_a_port_that_another_has_at_one_address_is_passed_over(monkeypatch: pytest.MonkeyPatch) -> None:
    """And the server does not listen there."""
    with socket.create_server((BOTH[1], 0)) as taken:
        half = taken.getsockname()[1]
        tried: list[int] = []
        really = addresses._bound_at_all

        def half_taken_at_first(numbers: list[str], port: int) -> int:
            tried.append(port)
            return really(numbers, half if len(tried) == 1 else port)

        monkeypatch.setattr(addresses, "_bound_at_all", half_taken_at_first)
        asyncio.run(listening("localhost:0"))
        assert len(tried) == 2
        assert not connects(BOTH[0], half)


def test_a_port_asked_for_that_another_has_at_one_address_is_refused() -> None:
    with socket.create_server((BOTH[1], 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(errors.UnavailableError, match=f"cannot listen on localhost:{port}"):
            asyncio.run(listening(f"localhost:{port}"))
        assert not connects(BOTH[0], port), "at all or at none"


@pytest.mark.parametrize("bind_host", ["127.0.0.1", "[::]"])
def test_who_has_a_port_is_told_in_our_words(bind_host: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(errors.UnavailableError) as raised:
            asyncio.run(listening(f"{bind_host}:{port}"))
    said = str(raised.value)
    assert f"cannot listen on {bind_host}:{port}: another program has that port" in said and "--port=0" in said
    assert "GRPC" not in said


@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
def test_a_port_that_is_taken_at_one_address_is_not_free_everywhere(host: str) -> None:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        taken = socket.create_server((host, 0), family=family)
    except OSError:
        pytest.skip("this machine has no IPv6")
    with taken:
        assert not ports.is_free(taken.getsockname()[1])
    assert ports.is_free(addresses.free_port(addresses.everywhere()))


@pytest.mark.parametrize("host", ["nowhere.invalid", "a..b", "a" * 70])
def test_a_host_without_an_address_is_named(host: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    with pytest.raises(errors.UnavailableError, match=f"cannot listen on {re.escape(host)}:0"):
        asyncio.run(listening(f"{host}:0"))
