"""A worker refuses a dispatcher of another cluster than its node's: it would end every trainer's epoch."""

from __future__ import annotations

import asyncio
import concurrent.futures
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import grpc
import pytest

from tests.support.aio import on_loop
from tests.support.coordinator_served import served
from tfquiver import errors
from tfquiver.grpc_plumbing import rpc
from tfquiver.proto.tfquiver.v1 import coordinator_pb2 as pb
from tfquiver.proto.tfquiver.v1 import coordinator_pb2_grpc
from tfquiver.service.worker import same_cluster
from tfquiver.tensorflow_dispatcher_and_worker_connections import proto_wire


@dataclass
class Dispatcher:
    """What TensorFlow's answers to GetWorkers."""

    port: int = 0
    workers: list[str] = field(default_factory=list)

    @property
    def address(self) -> str:
        return f"localhost:{self.port}"

    def reply(self, request: bytes, context: grpc.ServicerContext) -> bytes:
        return b"".join(proto_wire.text(1, proto_wire.text(1, worker)) for worker in self.workers)


@pytest.fixture
def dispatcher() -> Iterator[Dispatcher]:
    made = Dispatcher()
    answer: grpc.RpcMethodHandler[bytes, bytes] = grpc.unary_unary_rpc_method_handler(made.reply)
    handlers = grpc.method_handlers_generic_handler("tensorflow.data.DispatcherService", {"GetWorkers": answer})
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        server = grpc.server(pool, handlers=[handlers])
        made.port = server.add_insecure_port("localhost:0")
        server.start()
        yield made
        server.stop(None).wait()


def report(coordinator: str, address: str, *workers: str) -> None:
    info = pb.DispatcherInfo(address=address, workers=[pb.ServiceWorker(address=worker) for worker in workers])
    with rpc.channel(coordinator) as channel:
        request = pb.ReportDispatcherRequest(dispatcher=info)
        coordinator_pb2_grpc.CoordinatorStub(channel).ReportDispatcher(request, timeout=10)


@on_loop
async def test_a_dispatcher_of_which_the_coordinator_has_not_heard_is_refused(
    tmp_path: Path, dispatcher: Dispatcher
) -> None:
    async with served(tmp_path) as (server, _):
        coordinator = f"localhost:{server.bound_port}"
        await same_cluster.check(dispatcher.address, coordinator, "", 0.0)  # it has no workers, of whom to hear
        dispatcher.workers.append("10.0.0.1:5051")
        await asyncio.to_thread(report, coordinator, "10.9.9.9:5050", "10.9.9.8:5051")
        with pytest.raises(errors.InvalidArgumentError) as refused:
            await same_cluster.check(dispatcher.address, coordinator, "", 0.0)
        for said in (f"--dispatcher={dispatcher.address}", coordinator, "of two clusters", "it knows 10.9.9.9:5050"):
            assert said in str(refused.value)


@on_loop
async def test_it_is_known_by_its_address(tmp_path: Path, dispatcher: Dispatcher) -> None:
    dispatcher.workers.append("10.0.0.1:5051")
    async with served(tmp_path) as (server, _):
        coordinator = f"localhost:{server.bound_port}"
        await asyncio.to_thread(report, coordinator, f"127.0.0.1:{dispatcher.port}")
        await same_cluster.check(dispatcher.address, coordinator, "", 0.0)


@on_loop
async def test_it_is_known_by_its_workers_where_it_has_another_address_and_as_soon_as_it_has_told(
    tmp_path: Path, dispatcher: Dispatcher
) -> None:
    dispatcher.workers += ["10.0.0.1:5051", "10.0.0.2:5051"]
    async with served(tmp_path) as (server, _):
        coordinator = f"localhost:{server.bound_port}"
        checking = asyncio.create_task(same_cluster.check(dispatcher.address, coordinator, "", 60.0))
        await asyncio.to_thread(report, coordinator, "10.9.9.9:5050", "10.0.0.2:5051")
        await asyncio.wait_for(checking, 30)


@on_loop
async def test_where_nobody_can_tell_nothing_is_refused(dispatcher: Dispatcher) -> None:
    dispatcher.workers.append("10.0.0.1:5051")
    # That is no coordinator.
    await same_cluster.check(dispatcher.address, dispatcher.address, "", 0.0)
