"""A worker that is killed after its trainer was given the end of a task, and before the dispatcher was told.

TensorFlow's worker tells both at once. Here the dispatcher is away meanwhile, so that the worker surely dies between.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import grpc
import numpy as np
import pytest

import tfquiver
from tests.support import numbered
from tests.support.cluster import Cluster, wait_until
from tests.support.worker_forks import Worker, WorkerForks
from tfquiver import CutPolicy
from tfquiver.proto.tfquiver.v1 import coordinator_pb2, coordinator_pb2_grpc
from tfquiver.service.dispatcher import journal_reader

FILES, RECORDS_A_FILE, RECORD_BYTES = 2, 500, 500
TOTAL = FILES * RECORDS_A_FILE
UNREAD_S = 1.5
GIVES_THE_END = "Reached end_of_sequence for task"


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    with Cluster(tmp_path / "cluster", workers=0) as running:
        yield running


@pytest.fixture
def service(cluster: Cluster, tmp_path: Path) -> Iterator[Callable[[int], list[Worker]]]:
    """Makes a dispatcher and so many workers, whose logs say what they answer."""
    made: list[Worker] = []
    with WorkerForks(tmp_path / "forks.log", {"TF_CPP_MIN_LOG_LEVEL": "0", "TF_CPP_VMODULE": "worker_impl=3"}) as forks:

        def make(workers: int) -> list[Worker]:
            node_dir = f"--node_dir={cluster.cache_dir}"
            flags = [f"--work_dir={tmp_path / 'dispatcher'}", "--worker_timeout_ms=500", "--reap_interval_ms=200"]
            flags.append(f"--unread_task_timeout_ms={int(1000 * UNREAD_S)}")
            made.append(forks.dispatcher([*flags, node_dir], tmp_path / "dispatcher.log").launch().await_ready())
            for number in range(workers):
                way = [f"--dispatcher={made[0].address}", node_dir, "--heartbeat_interval_ms=200"]
                made.append(forks.worker(way, tmp_path / f"worker-{number}.log").launch().await_ready())
            return made

        yield make
        for server in made:
            server.kill()


def source(cluster: Cluster, tmp_path: Path) -> Any:
    return tfquiver.dataset(
        numbered.write(tmp_path / "data", FILES, RECORDS_A_FILE, RECORD_BYTES),
        service=cluster.coordinator.address,
        first_use=tfquiver.FirstUse(cut=CutPolicy(5_000, 10_000, 20_000)),
        batch_size=20,
        reading=tfquiver.Reading(readahead_bytes=50_000),
        order=tfquiver.Shuffled(shuffle_bytes=50_000),
    )


def shared_by(service: list[Worker], cluster: Cluster, tmp_path: Path) -> Any:
    return source(cluster, tmp_path).apply(tfquiver.distribute(service[0].address, compression=None))


def sessions(cluster: Cluster) -> list[coordinator_pb2.SessionInfo]:
    with grpc.insecure_channel(cluster.coordinator.address) as channel:
        stub = coordinator_pb2_grpc.CoordinatorStub(channel)
        return list(stub.ListSessions(coordinator_pb2.ListSessionsRequest(), timeout=10).sessions)


def session_ended(cluster: Cluster) -> bool:
    return any(session.ended for session in sessions(cluster))


@pytest.mark.parametrize("workers", [1, 2])
def test_the_epoch_ends_all_the_same(
    cluster: Cluster, service: Callable[[int], list[Worker]], tmp_path: Path, workers: int
) -> None:
    dispatcher, *others = service(workers)
    journal = journal_reader.JournalFollower(tmp_path / "dispatcher" / journal_reader.JOURNAL_DIR)
    reader = numbered.EpochReader(shared_by([dispatcher], cluster, tmp_path), step_s=0.02)

    def dispatcher_knows() -> bool:
        return any(isinstance(update, journal_reader.SplitProduced) and update.end for update in journal.poll())

    wait_until(dispatcher_knows, "the end of the source")
    dispatcher.kill()
    assert reader.reached(1) < TOTAL, "the trainer is behind its workers"
    logs = [tmp_path / f"worker-{number}.log" for number in range(workers)]
    at_end: list[int] = []

    def one_gave_the_end() -> bool:
        at_end[:] = [number for number, log in enumerate(logs) if GIVES_THE_END in log.read_text()]
        return bool(at_end)

    wait_until(one_gave_the_end, "the end of a task")
    worker = others[at_end[0]]
    worker.kill()
    back = [dispatcher, worker] if workers > 1 else [worker, dispatcher]
    for server in back:
        server.launch()
    for server in back:
        server.await_ready()
    lost, _ = numbered.lost_and_duplicates(reader.result(), TOTAL)
    assert lost == 0


def test_a_trainer_that_pauses_loses_nothing(
    cluster: Cluster, service: Callable[[int], list[Worker]], tmp_path: Path
) -> None:
    """For longer than a task may be left unread, with its last elements in the workers."""
    elements = iter(shared_by(service(2), cluster, tmp_path))
    seen = [numbered.numbers(next(elements))]
    while not session_ended(cluster):
        seen.append(numbered.numbers(next(elements)))
    time.sleep(3 * UNREAD_S)
    rest = [numbered.numbers(element) for element in elements]
    assert rest, "the trainer was behind its workers"
    numbered.assert_each_once(np.concatenate(seen + rest), TOTAL)


def test_a_trainer_that_pauses_loses_nothing_of_what_stands_behind_the_source(
    cluster: Cluster, service: Callable[[int], list[Worker]], tmp_path: Path
) -> None:
    """`batch` destroys the source at its end: nobody reads from the session any more, but the workers have elements."""
    read = source(cluster, tmp_path).unbatch().batch(20).prefetch(100)
    elements = iter(read.apply(tfquiver.distribute(service(2)[0].address, compression=None)))
    seen = [numbered.numbers(next(elements))]

    def nobody_reads() -> bool:
        return all(session.ended and not session.readers for session in sessions(cluster))

    wait_until(nobody_reads, "the end of the session, and of all of its readers")
    time.sleep(3 * UNREAD_S)
    rest = [numbered.numbers(element) for element in elements]
    assert rest, "the trainer was behind its workers"
    numbered.assert_each_once(np.concatenate(seen + rest), TOTAL)
