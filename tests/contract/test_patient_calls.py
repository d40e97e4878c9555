"""A server that is not there, that comes late, or that has the port and says nothing: who calls is told, and waits."""

from __future__ import annotations

import concurrent.futures
import logging
import re
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import grpc
import pytest

from tests.support import fixed_ports
from tfquiver import errors
from tfquiver.cluster_address import naming
from tfquiver.grpc_plumbing import addresses, rpc
from tfquiver.server_reachability import reaching, unreached
from tfquiver.server_reachability.patient_calls import until_answered

METHOD = "/a.Service/Call"


Answers = Callable[[bytes, grpc.ServicerContext], bytes]


class _Handler(grpc.GenericRpcHandler):
    def __init__(self, answer: Answers) -> None:
        self._answer = answer

    def service(self, handler_call_details: Any) -> Any:
        return grpc.unary_unary_rpc_method_handler(self._answer)


@contextmanager
def server(port: int, answer: Answers = lambda request, context: request + b"!") -> Iterator[None]:
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        running = grpc.server(pool, handlers=[_Handler(answer)], options=[("grpc.so_reuseport", 0)])
        running.add_insecure_port(f"localhost:{port}")
        running.start()
        try:
            yield
        finally:
            running.stop(None).wait()


def call(channel: grpc.Channel) -> Callable[[], Any]:
    return lambda: channel.unary_unary(METHOD).future(b"hello", timeout=10)


@pytest.mark.slow
def test_nobody_listens(caplog: pytest.LogCaptureFixture) -> None:
    began_s = time.monotonic()
    with rpc.channel("localhost:1") as channel, pytest.raises(errors.UnavailableError) as raised:
        until_answered(call(channel), "asking X at localhost:1", "localhost:1", 2.5)
    (told,) = caplog.records
    assert told.levelno == logging.WARNING
    assert re.fullmatch(
        r"asking X at localhost:1: nobody listens there \(connection refused\); waiting for it until \d\d:\d\d:\d\d",
        told.getMessage(),
    )
    assert "nobody listens there (connection refused), for 2.5 s; is the cluster running" in str(raised.value)
    assert time.monotonic() - began_s < 5


@pytest.mark.slow
def test_a_server_that_is_just_starting_is_waited_for_and_the_wait_is_told(caplog: pytest.LogCaptureFixture) -> None:
    port = fixed_ports.free_port(addresses.to_bind("localhost"))
    address = f"localhost:{port}"
    with rpc.channel(address) as channel, concurrent.futures.ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(until_answered, call(channel), "asking", address, 30.0)
        with pytest.raises(concurrent.futures.TimeoutError):
            waiting.result(3.0)
        assert len(caplog.records) == 1
        with server(port):
            assert waiting.result(20) == b"hello!"


def test_who_is_busy_is_asked_again_after_as_long_as_it_took_to_say_so() -> None:
    port = fixed_ports.free_port(addresses.to_bind("localhost"))
    asked_s: list[float] = []

    def busy_twice(request: bytes, context: grpc.ServicerContext) -> bytes:
        asked_s.append(time.monotonic())
        if len(asked_s) < 3:
            threading.Event().wait(0.5)
            context.abort(grpc.StatusCode.UNAVAILABLE, "too many large digests are being registered: try again later")
        return request + b"!"

    with server(port, busy_twice), rpc.channel(f"localhost:{port}") as channel:
        assert until_answered(call(channel), "asking", f"localhost:{port}", 30.0) == b"hello!"
    first_s, second_s, third_s = asked_s
    assert min(second_s - first_s, third_s - second_s) > 0.9  # half a second of it to be refused


def test_who_answers_at_once_hears_nothing(caplog: pytest.LogCaptureFixture) -> None:
    port = fixed_ports.free_port(addresses.to_bind("localhost"))
    with server(port), rpc.channel(f"localhost:{port}") as channel:
        reaching.check_answers(f"localhost:{port}", 5.0, "it")
        assert until_answered(call(channel), "asking", f"localhost:{port}", 5.0) == b"hello!"
    assert not caplog.records


@pytest.mark.slow
def test_a_dispatcher_that_has_the_port_and_says_nothing(caplog: pytest.LogCaptureFixture) -> None:
    with socket.create_server(("localhost", 0)) as silent:
        address = naming.dispatcher(f"localhost:{silent.getsockname()[1]}")
        with pytest.raises(
            errors.UnavailableError, match=r"does not answer within 2\.5 s: no server answers there; is"
        ):
            reaching.check_answers(address, 2.5, "the dispatcher")
    (told,) = caplog.records
    assert "no server answers there; waiting for it until" in told.getMessage()


def test_a_dispatcher_whose_port_is_wrong_is_told_at_once() -> None:
    began_s = time.monotonic()
    with pytest.raises(errors.UnavailableError, match="nobody listens there"):
        reaching.check_answers("localhost:1", 30.0, "the dispatcher")
    assert time.monotonic() - began_s < 1


@pytest.mark.parametrize("host", ["a..b", "x" * 64 + ".example"])
def test_a_name_that_none_can_have_is_told_as_others_are(host: str) -> None:
    with pytest.raises(errors.UnavailableError, match="the dispatcher does not answer: "):
        reaching.check_answers(naming.dispatcher(f"{host}:5050"), 30.0, "the dispatcher")


def test_what_a_server_refuses_is_not_tried_again(caplog: pytest.LogCaptureFixture) -> None:
    port = fixed_ports.free_port(addresses.to_bind("localhost"))

    class Refuses(grpc.GenericRpcHandler):
        def service(self, handler_call_details: Any) -> None:
            return None

    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        running = grpc.server(pool, handlers=[Refuses()])
        running.add_insecure_port(f"localhost:{port}")
        running.start()
        try:
            with rpc.channel(f"localhost:{port}") as channel, pytest.raises(errors.TfquiverError, match="another kind"):
                until_answered(call(channel), "asking", f"localhost:{port}", 30.0)
        finally:
            running.stop(None).wait()
    assert not caplog.records


@pytest.mark.parametrize("address", ["localhost:1", "127.0.0.1:1", "[::1]:1", "unix:/no/such/socket"])
def test_that_nobody_listens_is_said_in_words(address: str) -> None:
    assert "otherwise" not in unreached.why(address, "otherwise")


@pytest.mark.parametrize("address", ["nonsense", "a:b"])
def test_what_is_no_address_is_not_tried(address: str) -> None:
    assert unreached.why(address, "otherwise") == "otherwise"


def test_a_name_that_leads_nowhere_and_a_machine_where_nobody_listens_are_told_apart(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    look_up, never = socket.getaddrinfo, threading.Event()

    def name_server(host: str, *arguments: Any, **more: Any) -> Any:
        if host == "nobody":
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        if host == "slow":
            never.wait()
        return look_up("127.0.0.1", *arguments, **more)

    monkeypatch.setattr(socket, "getaddrinfo", name_server)
    try:
        why = "the host's name leads nowhere (name or service not known)"
        assert unreached.why("nobody:1", "otherwise") == why
        assert unreached.why("machine:1", "otherwise") == "nobody listens there (connection refused)"
        assert unreached.why("slow:1", "otherwise") == "otherwise"
    finally:
        never.set()


def test_a_path_that_cannot_be_one(tmp_path: Path) -> None:
    assert unreached.why(f"unix:{tmp_path}/{'x' * 300}", "otherwise") == "otherwise"


def test_a_name_that_may_be_nobodys_is_told_with_it() -> None:
    """`.invalid` is kept for that (RFC 2606); an address or this machine's name needs no such words."""
    channel = grpc.insecure_channel("nobody.invalid:5040")
    with (
        channel,
        pytest.raises(errors.UnavailableError, match=r"0\.3 s: .*(name leads nowhere|is called 'nobody\.invalid')"),
    ):
        reaching.await_ready(channel, "nobody.invalid:5040", 0.3, "the coordinator", print)
