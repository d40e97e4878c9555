"""Workers that TensorFlow's dispatcher never forgets, and that were taken away on purpose."""

from __future__ import annotations

import time
from collections.abc import Iterator
from concurrent import futures
from contextlib import ExitStack, contextmanager
from typing import Any

import grpc
import pytest

from tfquiver.proto.tfquiver.v1 import coordinator_pb2 as pb
from tfquiver.proto.tfquiver.v1 import coordinator_pb2_grpc
from tfquiver.service.dispatcher.lost_workers_and_leftover_tasks.held_up import Held
from tfquiver.service.dispatcher.worker_reports import WorkerReports
from tfquiver.tensorflow_dispatcher_and_worker_connections import proto_wire


class Coordinator(coordinator_pb2_grpc.CoordinatorServicer):
    def __init__(self) -> None:
        self.told: list[str] = []
        self.unread: list[tuple[int, int]] = []

    def ReportDispatcher(self, request: pb.ReportDispatcherRequest, context: object) -> pb.ReportDispatcherReply:
        self.told = sorted(worker.address for worker in request.dispatcher.workers)
        self.unread = [(worker.unread_ms, worker.unread_left_ms) for worker in request.dispatcher.workers]
        return pb.ReportDispatcherReply()


@contextmanager
def serving(service: str, method: str, reply: bytes, port: int = 0, coordinator: Any = None) -> Iterator[int]:
    with futures.ThreadPoolExecutor(2) as pool:
        answer: Any = grpc.unary_unary_rpc_method_handler(lambda request, context: reply)
        handler = grpc.method_handlers_generic_handler(f"tensorflow.data.{service}", {method: answer})
        server = grpc.server(pool, handlers=[handler])
        if coordinator is not None:
            coordinator_pb2_grpc.add_CoordinatorServicer_to_server(coordinator, server)
        port = server.add_insecure_port(f"localhost:{port}")
        server.start()
        try:
            yield port
        finally:
            server.stop(None).wait()


@pytest.fixture
def gone() -> int:
    """The port of a worker that is no more."""
    with serving("WorkerService", "GetWorkerTasks", b"") as port:
        return port


def test_they_are_not_told_of_until_they_answer_and_from_then_on_are_workers_as_ever(gone: int) -> None:
    former = f"localhost:{gone}"
    with ExitStack() as stack:
        lives = f"localhost:{stack.enter_context(serving('WorkerService', 'GetWorkerTasks', b''))}"
        journal = b"".join(proto_wire.text(1, proto_wire.text(1, one)) for one in (lives, former))
        coordinator = Coordinator()
        port = stack.enter_context(serving("DispatcherService", "GetWorkers", journal, coordinator=coordinator))
        reports = WorkerReports(port, f"localhost:{port}", "", list, list, former=[former, "localhost:1"])
        stack.callback(reports.close)
        reports.step()
        assert coordinator.told == [lives]
        with serving("WorkerService", "GetWorkerTasks", b"", gone):
            give_up_at = time.monotonic() + 20
            while coordinator.told == [lives] and time.monotonic() < give_up_at:  # it was refused, and is tried again
                reports.step()
            assert coordinator.told == sorted([lives, former])
        reports.step()
        assert coordinator.told == sorted([lives, former]), "it was there"


def test_a_worker_whose_part_nobody_asks_for_is_told_of() -> None:
    with ExitStack() as stack:
        lives = f"localhost:{stack.enter_context(serving('WorkerService', 'GetWorkerTasks', b''))}"
        journal, coordinator = proto_wire.text(1, proto_wire.text(1, lives)), Coordinator()
        port = stack.enter_context(serving("DispatcherService", "GetWorkers", journal, coordinator=coordinator))
        held = {"other:1": Held(1.0, 2.0, True)}
        reports = WorkerReports(port, f"localhost:{port}", "", list, list, lambda: held)
        stack.callback(reports.close)
        reports.step()
        assert coordinator.unread == [(0, 0)]
        held[lives] = Held(3.5, 4.25, False)
        reports.step()
        assert coordinator.unread == [(3500, 4250)]
