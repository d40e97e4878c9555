"""A name with several addresses: nobody is there when nobody is at any of them, whichever comes last."""

from __future__ import annotations

import itertools
import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from tfquiver import errors
from tfquiver.grpc_plumbing import addresses
from tfquiver.server_reachability import grpc_answers, unreached
from tfquiver.server_reachability.reaching import check_answers
from tfquiver.server_reachability.refusals import Refusals

NAME = "two.example"
BOTH = ("127.0.0.1", "127.0.0.2")
REFUSED = "nobody listens there (connection refused)"


@pytest.fixture
def port(monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    """Where nobody listens, of a name with two addresses."""
    looked_up = socket.getaddrinfo

    def look_up(host: Any, *rest: Any, **more: Any) -> Any:
        hosts = BOTH if host == NAME else (host,)
        return list(itertools.chain.from_iterable(looked_up(one, *rest, **more) for one in hosts))

    monkeypatch.setattr(socket, "getaddrinfo", look_up)
    with socket.socket() as bound:
        bound.bind(("", 0))
        yield bound.getsockname()[1]


def test_where_each_refuses_the_server_is_not_there(port: int) -> None:
    server = f"{NAME}:{port}"
    assert Refusals().of([server, f"127.0.0.1:{port}"]) == {server, f"127.0.0.1:{port}"}
    with pytest.raises(errors.UnavailableError, match="connection refused"):
        check_answers(server, 60, "it")
    assert grpc_answers.trouble(server, 1.0) == unreached.why(server, "") == REFUSED


@pytest.mark.parametrize("at", BOTH)
def test_where_one_listens_it_may_be_there(port: int, at: str) -> None:
    with socket.create_server((at, 0)) as listening:
        server = f"{NAME}:{listening.getsockname()[1]}"
        assert Refusals().of([server]) == frozenset()


@pytest.mark.slow
@pytest.mark.parametrize("at", BOTH)
def test_where_one_is_silent_it_may_be_there(port: int, at: str) -> None:
    """The kernel drops what comes where the queue is full, as a network does on the way to a machine that is away."""
    with socket.create_server((at, 0), backlog=0) as full, ExitStack() as opened:
        where = full.getsockname()
        for _ in range(3):
            one = opened.enter_context(socket.socket())
            one.setblocking(False)
            one.connect_ex(where)
        server = f"{NAME}:{where[1]}"
        assert Refusals().of([server]) == frozenset()
        with pytest.raises(TimeoutError):
            addresses.connected(server, 0.2)
        assert grpc_answers.trouble(server, 0.2) == unreached.why(server, "") == "no answer from there"
        with pytest.raises(errors.UnavailableError, match=r"does not answer within 0\.5 s"):
            check_answers(server, 0.5, "it")


def test_of_several_servers_one_that_is_silent_may_be_there_though_the_last_refuses(port: int) -> None:
    with socket.create_server(("127.0.0.1", 0), backlog=0) as full, ExitStack() as opened:
        where = full.getsockname()
        for _ in range(3):
            one = opened.enter_context(socket.socket())
            one.setblocking(False)
            one.connect_ex(where)
        with pytest.raises(errors.UnavailableError, match=r"does not answer within 0\.5 s"):
            check_answers(f"127.0.0.1:{where[1]},127.0.0.1:{port}", 0.5, "it")


def test_a_name_that_is_looked_up_for_ever_is_waited_for_a_second(port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    begun = time.monotonic()
    with monkeypatch.context() as patch:
        patch.setattr(addresses, "refuses", lambda server, timeout_s: bool(time.sleep(1.5)))
        refusals = Refusals()
        assert refusals.of([f"{NAME}:{port}", f"127.0.0.1:{port}"]) == {f"127.0.0.1:{port}"}
        assert refusals.of([f"{NAME}:{port}"]) == frozenset(), "and nobody waits again meanwhile"
    assert time.monotonic() - begun < 1.4
