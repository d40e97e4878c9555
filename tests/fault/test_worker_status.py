"""`tfquiver status` names a tf.data worker that is gone, and until when."""

from __future__ import annotations

import concurrent.futures
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest

from tests.support.cluster import Cluster, wait_until
from tfquiver.cli.status_asked_watched_explained import status
from tfquiver.proto.tfquiver.v1 import coordinator_pb2_grpc
from tfquiver.service.dispatcher.worker_reports import WorkerReports
from tfquiver.tensorflow_dispatcher_and_worker_connections import proto_wire


@pytest.mark.long
def test_a_worker_that_is_killed_is_a_problem_until_it_is_back(tmp_path: Path) -> None:
    with Cluster(tmp_path / "cluster", workers=2) as cluster:
        assert cluster.dispatcher is not None

        def told() -> dict[str, Any]:
            return status.collect(cluster.coordinator.address)

        def workers() -> list[str]:
            return sorted(worker["address"] for one in told()["dispatchers"] for worker in one["workers"])

        both = sorted(worker.address for worker in cluster.workers)
        wait_until(lambda: workers() == both, "both are told of")
        assert [one["address"] for one in told()["dispatchers"]] == [cluster.dispatcher.address]
        assert told()["problems"] == []
        cluster.workers[0].kill()
        wait_until(lambda: told()["problems"] != [], "the lost worker is told of", 60.0)
        (problem,) = told()["problems"]
        lost, dispatcher = cluster.workers[0].address, cluster.dispatcher.address
        assert problem.startswith(f"worker {lost} of dispatcher {dispatcher} has not answered for ")
        cluster.dispatcher.kill()
        cluster.dispatcher.restart()
        cluster.coordinator.kill()
        cluster.coordinator.restart()
        wait_until(lambda: workers() == both, "a dispatcher does not forget, and a coordinator hears of it again")
        cluster.workers[0].restart()
        wait_until(lambda: told()["problems"] == [], "it is back", 60.0)
        assert workers() == both
        cluster.workers[1].kill()
        cluster.dispatcher.kill()
        shutil.rmtree(tmp_path / "cluster" / "dispatcher")
        cluster.dispatcher.restart()
        wait_until(lambda: workers() == [cluster.workers[0].address], "that is how it forgets", 60.0)
        cluster.dispatcher.stop()
        assert told()["dispatchers"] == told()["problems"] == [], "who leaves as it should is not missed"
        cluster.dispatcher.restart()
        wait_until(lambda: workers() == [cluster.workers[0].address], "it is back")
        cluster.dispatcher.kill()
        wait_until(lambda: told()["problems"] != [], "the lost dispatcher is told of", 60.0)
        (problem,) = told()["problems"]
        assert problem.startswith(f"dispatcher {dispatcher} has told nothing of itself for ")
        cluster.dispatcher.restart()
        wait_until(lambda: told()["problems"] == [], "it is back")


@pytest.fixture
def older_coordinator() -> Iterator[int]:
    """It knows no dispatchers; the same server stands for TensorFlow's dispatcher, with a worker that is gone."""
    reply = proto_wire.text(1, proto_wire.text(1, "localhost:1"))
    answer = grpc.unary_unary_rpc_method_handler(lambda request, context: reply)
    handlers = grpc.method_handlers_generic_handler("tensorflow.data.DispatcherService", {"GetWorkers": answer})
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        server = grpc.server(pool, handlers=[handlers])
        coordinator_pb2_grpc.add_CoordinatorServicer_to_server(coordinator_pb2_grpc.CoordinatorServicer(), server)
        port = server.add_insecure_port("localhost:0")
        server.start()
        yield port
        server.stop(None).wait()


def test_an_older_coordinator_is_told_in_vain_and_nothing_else(older_coordinator: int) -> None:
    reports = WorkerReports(older_coordinator, f"localhost:{older_coordinator}", "", list, list)
    try:
        for _ in range(2):
            reports.step()
    finally:
        reports.close()
