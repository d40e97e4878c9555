"""The limit that connections of others to some servers are given, on real sockets."""

from __future__ import annotations

import select
import socket
import threading
from contextlib import ExitStack
from typing import Any

import pytest

from tfquiver.tensorflow_dispatcher_and_worker_connections import silent_machines
from tfquiver.tensorflow_dispatcher_and_worker_connections.silent_machines import SilentMachines

SILENCE_S = 12.0


def limit_ms(sock: socket.socket) -> int:
    return sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT)


@pytest.mark.parametrize("host", ["127.0.0.1", "::1", "::ffff:127.0.0.1"])
def test_connections_to_these_servers_and_no_others_are_limited_once(host: str) -> None:
    """gRPC connects to IPv4 addresses by sockets of either family."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    own = "::1" if host == "::1" else "127.0.0.1"
    with (
        socket.create_server((own, 0), family=socket.AF_INET6 if own == "::1" else socket.AF_INET) as ours,
        socket.create_server(("127.0.0.1", 0)) as others,
        socket.socket(family) as before,
        socket.socket() as elsewhere,
        socket.socket(family) as later,
    ):
        port = ours.getsockname()[1]
        machines = SilentMachines(SILENCE_S)
        server = f"[{own}]:{port}" if ":" in own else f"{own}:{port}"
        before.connect((host, port))
        elsewhere.connect(others.getsockname())
        assert machines.look([server, "nowhere.invalid:1", "unix:/none", "nonsense"]) == 1
        assert machines.look([server]) == 0, "that one is limited"
        later.connect((host, port))
        assert machines.look([server]) == 1
        assert limit_ms(before) == limit_ms(later) == 1000 * SILENCE_S
        assert before.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE) == 1, "one that waits for an answer asks"
        assert limit_ms(elsewhere) == 0
        assert machines.look([]) == 0


def test_one_that_is_still_being_made_is_limited_shorter_until_it_is_made() -> None:
    with socket.create_server(("127.0.0.1", 0), backlog=0) as full, ExitStack() as opened:
        address = full.getsockname()
        machines, server = SilentMachines(SILENCE_S), f"127.0.0.1:{address[1]}"
        opened.enter_context(socket.create_connection(address))  # all that is taken before somebody accepts
        assert machines.look([server]) == 1
        waits = opened.enter_context(socket.socket())
        waits.setblocking(False)
        with pytest.raises(BlockingIOError):
            waits.connect(address)
        assert machines.look([server]) == 1
        assert limit_ms(waits) == 1000 * silent_machines.CONNECT_S < 1000 * SILENCE_S
        assert machines.look([server]) == 0
        opened.enter_context(full.accept()[0])
        selectors = select.select([], [waits], [], 20)  # the kernel asks again
        assert selectors[1] == [waits]
        assert machines.look([server]) == 1
        assert limit_ms(waits) == 1000 * SILENCE_S
        assert SilentMachines(1.0).look([server]) == 2
        assert limit_ms(waits) == 1000


def test_a_connection_stays_as_it_was_used() -> None:
    """Python makes sockets non-blocking where it has been given a default time limit: the owner's would be, too."""
    with socket.create_server(("127.0.0.1", 0)) as server, socket.create_connection(server.getsockname()) as own:
        accepted, _ = server.accept()
        socket.setdefaulttimeout(5.0)
        try:
            assert SilentMachines(SILENCE_S).look([f"127.0.0.1:{server.getsockname()[1]}"]) == 1
        finally:
            socket.setdefaulttimeout(None)
        answering = threading.Timer(0.2, lambda: accepted.sendall(b"x"))
        answering.start()
        with accepted:
            assert own.recv(1) == b"x", "it waits"
            answering.join()


def test_names_that_nobody_wants_any_more_hold_up_no_others(monkeypatch: pytest.MonkeyPatch) -> None:
    answers, asked, known = [threading.Event() for _ in range(3)], list[str](), socket.getaddrinfo

    def ask(host: str, *rest: Any, **more: Any) -> Any:
        if not host.endswith(".example"):
            return known(host, *rest, **more)
        asked.append(host)
        answers[len(asked) - 1].wait(60)
        return known("127.0.0.1", *rest, **more)

    with socket.create_server(("127.0.0.1", 0)) as server, socket.create_connection(server.getsockname()) as first:
        port, machines = server.getsockname()[1], SilentMachines(SILENCE_S)
        monkeypatch.setattr(socket, "getaddrinfo", ask)
        try:
            assert machines.look(f"gone-{number}.example:{port}" for number in range(50)) == 0
            assert machines.look([f"new.example:{port}"]) == 0
            answers[0].set()
            answers[1].set()
            while machines.look([f"new.example:{port}"]) == 0:
                assert len(asked) <= 2, "after the one that was being asked for"
            assert asked == ["gone-0.example", "new.example"]
            assert limit_ms(first) == 1000 * SILENCE_S
        finally:
            for answer in answers:
                answer.set()


def test_a_name_server_that_is_silent_holds_nobody_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of machines that are gone there may be thousands, each of which takes it ten seconds."""
    answers, asked, known = threading.Event(), list[str](), socket.getaddrinfo

    def ask(host: str, *rest: Any, **more: Any) -> Any:
        if not host.endswith(".example"):
            return known(host, *rest, **more)
        asked.append(host)
        answers.wait()
        return known("127.0.0.1", *rest, **more)

    with socket.create_server(("127.0.0.1", 0)) as server, socket.create_connection(server.getsockname()) as first:
        port = server.getsockname()[1]
        machines, named = SilentMachines(SILENCE_S), [f"worker-{number}.example:{port}" for number in range(100)]
        monkeypatch.setattr(socket, "getaddrinfo", ask)
        try:
            assert machines.look(named) == 0
            assert asked == ["worker-0.example"], "one after the other, and no more than one at a time"
            assert machines.look([*named, f"127.0.0.1:{port}"]) == 1, "what needs no look-up is known at once"
            assert limit_ms(first) == 1000 * SILENCE_S
        finally:
            answers.set()
        with socket.create_connection(server.getsockname()) as later:
            while machines.look(named) == 0:
                assert len(asked) <= len(named)
            assert limit_ms(later) == 1000 * SILENCE_S
