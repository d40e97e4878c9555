"""kill -9 when the source has come to its end, and the workers have not delivered all that it has emitted (I-8)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest

import tfquiver
from tests.support import numbered
from tests.support.cluster import Cluster, Server, wait_until
from tests.support.worker_forks import Worker, WorkerForks
from tfquiver import CutPolicy
from tfquiver.proto.tfquiver.v1 import coordinator_pb2, coordinator_pb2_grpc

FILES, RECORDS_A_FILE, RECORD_BYTES = 4, 500, 500
TOTAL = FILES * RECORDS_A_FILE


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    with Cluster(tmp_path / "cluster", workers=0) as running:
        yield running


@pytest.fixture
def service(cluster: Cluster, tmp_path: Path) -> Iterator[list[Worker]]:
    """A dispatcher and two workers."""
    with WorkerForks(tmp_path / "forks.log") as forks:
        node_dir = f"--node_dir={cluster.cache_dir}"
        flags = [f"--work_dir={tmp_path / 'dispatcher'}", "--worker_timeout_ms=500", "--reap_interval_ms=200"]
        dispatcher = forks.dispatcher([*flags, node_dir], tmp_path / "dispatcher.log")
        made = [dispatcher.launch().await_ready()]
        for number in range(2):
            way = [f"--dispatcher={dispatcher.address}", node_dir, "--heartbeat_interval_ms=200"]
            made.append(forks.worker(way, tmp_path / f"worker-{number}.log").launch())
        for worker in made[1:]:
            worker.await_ready()
        yield made
        for worker in made:
            worker.kill()


def session(cluster: Cluster, epoch: int) -> coordinator_pb2.SessionInfo | None:
    with grpc.insecure_channel(cluster.coordinator.address) as channel:
        stub = coordinator_pb2_grpc.CoordinatorStub(channel)
        sessions = stub.ListSessions(coordinator_pb2.ListSessionsRequest(), timeout=10).sessions
    return next((info for info in sessions if info.epoch == epoch), None)


def ended(cluster: Cluster, epoch: int) -> bool:
    info = session(cluster, epoch)
    return info is not None and info.ended


def settled(cluster: Cluster, epoch: int) -> bool:
    info = session(cluster, epoch)
    return info is not None and info.ended and info.acked == info.shards


def shared_by(dispatcher: Worker, cluster: Cluster, tmp_path: Path) -> Any:
    read = tfquiver.dataset(
        numbered.write(tmp_path / "data", FILES, RECORDS_A_FILE, RECORD_BYTES),
        service=cluster.coordinator.address,
        first_use=tfquiver.FirstUse(cut=CutPolicy(5_000, 10_000, 20_000)),
        batch_size=20,
        reading=tfquiver.Reading(readahead_bytes=100_000),
        order=tfquiver.Shuffled(shuffle_bytes=100_000),
    )
    return read.apply(tfquiver.distribute(dispatcher.address, compression=None))


def test_workers_that_come_back_read_again_what_they_were_lost_with(
    cluster: Cluster, service: list[Worker], tmp_path: Path
) -> None:
    """Later than others are waited for; alone, and with everybody who could know what is missing."""
    assert cluster.node is not None
    dispatcher, *workers = service
    shared = shared_by(dispatcher, cluster, tmp_path)
    also: list[list[Worker | Server]] = [[], [cluster.coordinator, cluster.node, dispatcher]]
    for epoch, others in enumerate(also):
        reader = numbered.EpochReader(shared, step_s=0.02)
        wait_until(lambda at=epoch: ended(cluster, at), "the end of the session")  # type: ignore[misc]
        assert reader.reached(1) < TOTAL, "the trainer is behind its workers"
        for server in [*workers, *others]:
            server.kill()
        for server in others:
            server.launch_again() if isinstance(server, Server) else server.launch()
            server.await_ready()
        with pytest.raises(TimeoutError):  # longer than --worker_timeout_ms
            reader.result(deadline_s=3)
        for worker in workers:
            worker.launch()
        for worker in workers:
            worker.await_ready()
        lost, duplicates = numbered.lost_and_duplicates(reader.result(), TOTAL)
        assert lost == 0
        assert duplicates > 0, "what was held back is read again, delivered or not"
        wait_until(lambda at=epoch: settled(cluster, at), "the end of what was read again")  # type: ignore[misc]
    numbered.assert_each_once(numbered.EpochReader(shared).result(), TOTAL)


def test_nobody_to_ask_is_no_end(cluster: Cluster, service: list[Worker], tmp_path: Path) -> None:
    """The coordinator comes back later than a late reader asks without an error (15 s)."""
    dispatcher, *workers = service
    reader = numbered.EpochReader(shared_by(dispatcher, cluster, tmp_path), step_s=0.02)
    wait_until(lambda: ended(cluster, 0), "the end of the session")
    assert reader.reached(1) < TOTAL, "the trainer is behind its workers"
    for server in (*workers, cluster.coordinator):
        server.kill()
    for worker in workers:
        worker.launch().await_ready()
    with pytest.raises(TimeoutError):
        reader.result(deadline_s=20)
    cluster.coordinator.launch_again().await_ready()
    lost, duplicates = numbered.lost_and_duplicates(reader.result(), TOTAL)
    assert lost == 0
    assert duplicates > 0, "what was held back is read again, delivered or not"
