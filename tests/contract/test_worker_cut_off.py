"""The dispatcher's questions to a worker whose machine was cut off from the network, and is back; and to one that is no
more."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from concurrent import futures
from contextlib import contextmanager, suppress
from typing import Any

import grpc
import pytest

from tfquiver.service.dispatcher.lost_workers_and_leftover_tasks import service_rpc
from tfquiver.service.dispatcher.lost_workers_and_leftover_tasks.service_rpc import GrpcServiceRpc


@contextmanager
def worker() -> Iterator[int]:
    """Has no tasks."""
    server = grpc.server(futures.ThreadPoolExecutor(2))
    answer: Any = grpc.unary_unary_rpc_method_handler(lambda request, context: b"")
    service = grpc.method_handlers_generic_handler("tensorflow.data.WorkerService", {"GetWorkerTasks": answer})
    server.add_generic_rpc_handlers((service,))
    port = server.add_insecure_port("localhost:0")
    server.start()
    try:
        yield port
    finally:
        server.stop(None).wait()


class Network:
    """Carries connections to a port. Those of before `cut` carry nothing ever after: in truth TCP sends again what it
    has not been answered, but ever later."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._listener = socket.create_server(("localhost", 0))
        self._cut: set[socket.socket] = set()
        self._open: set[socket.socket] = set()
        threading.Thread(target=self._accept, daemon=True).start()

    @property
    def address(self) -> str:
        return f"localhost:{self._listener.getsockname()[1]}"

    def cut(self) -> None:
        self._cut |= self._open

    def close(self) -> None:
        for one in (self._listener, *self._open):
            with suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
            one.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                asking, _ = self._listener.accept()
                asked = socket.create_connection(("localhost", self._port))
                self._open |= {asking, asked}
                for way in ((asking, asked), (asked, asking)):
                    threading.Thread(target=self._carry, args=way, daemon=True).start()

    def _carry(self, source: socket.socket, to: socket.socket) -> None:
        with suppress(OSError):
            while data := source.recv(1 << 16):
                if source not in self._cut:
                    to.sendall(data)


def test_a_worker_that_is_back_answers_the_next_question_but_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """It was called silent, on the connection of before, for as long again as it had been away."""
    monkeypatch.setattr(service_rpc, "_CALL_S", 5.0)
    with worker() as port:
        network, asks = Network(port), GrpcServiceRpc()
        try:
            assert network.address in asks.tasks([network.address])
            network.cut()
            monkeypatch.setattr(service_rpc, "_CALL_S", 0.5)
            assert not asks.tasks([network.address])
            monkeypatch.setattr(service_rpc, "_CALL_S", 20.0)
            assert network.address in asks.tasks([network.address])
        finally:
            asks.close()
            network.close()


def test_who_listens_no_more_refuses_and_who_hangs_or_is_unknown_does_not(monkeypatch: pytest.MonkeyPatch) -> None:
    asks = GrpcServiceRpc()
    try:
        with worker() as port, socket.create_server(("localhost", 0)) as hangs, socket.socket() as bound:
            bound.bind(("localhost", 0))  # as a worker that is starting: it listens later
            lives = f"localhost:{port}"
            others = [f"localhost:{one.getsockname()[1]}" for one in (hangs, bound)]
            monkeypatch.setattr(service_rpc, "_CALL_S", 20.0)
            assert lives in asks.tasks([lives])
            monkeypatch.setattr(service_rpc, "_CALL_S", 1.0)
            assert set(asks.tasks([lives, *others, "no-such-host.invalid:1"])) == {lives}
            assert asks.refusing == {others[1]}
        assert not asks.tasks([lives])  # its connection broke, perhaps
        assert not asks.tasks([lives])
        assert asks.refusing == {lives}
        assert not asks.tasks([])
        assert asks.refusing == set()
    finally:
        asks.close()


def test_what_a_worker_answers_of_others_that_refuse_is_no_refusal_of_its_own() -> None:
    def fails(request: bytes, context: Any) -> bytes:
        said = "failed to connect to all addresses; last error: Connection refused"
        context.abort(grpc.StatusCode.INTERNAL, said)
        return b""

    server = grpc.server(futures.ThreadPoolExecutor(2))
    answer: Any = grpc.unary_unary_rpc_method_handler(fails)
    service = grpc.method_handlers_generic_handler("tensorflow.data.WorkerService", {"GetWorkerTasks": answer})
    server.add_generic_rpc_handlers((service,))
    address = f"localhost:{server.add_insecure_port('localhost:0')}"
    server.start()
    asks = GrpcServiceRpc()
    try:
        assert not asks.tasks([address])
        assert asks.refusing == set()
    finally:
        asks.close()
        server.stop(None).wait()
