"""kill -9 of every server of a tf.data service cluster in mid-epoch (I-7): the client finishes, nothing is lost."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc
import numpy as np
import pytest
import tensorflow as tf
from tensorflow.python.data.experimental.ops import testing

import tfquiver
from tests.support import numbered
from tests.support.cluster import Cluster, Server, wait_until
from tfquiver import CutPolicy
from tfquiver.cli.status_asked_watched_explained import status
from tfquiver.proto.tfquiver.v1 import coordinator_pb2, coordinator_pb2_grpc, node_pb2, node_pb2_grpc

pytestmark = pytest.mark.long

FILES, RECORDS_A_FILE, RECORD_BYTES = 4, 2000, 1000
TOTAL = FILES * RECORDS_A_FILE
CUT = CutPolicy(10_000, 20_000, 40_000)  # some 400 shards of 20 records
BATCH, HOLD_BACK = 20, 16
# What one worker may have been given and not acknowledged: read-ahead, pool, held back, and the shards these lie in.
READAHEAD, POOL = 100_000, 100_000
UNACKED_RECORDS = (READAHEAD + POOL) // RECORD_BYTES + BATCH * (HOLD_BACK + 2) + 400


@pytest.fixture
def cluster(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Cluster]:
    """The test's parameter: more flags of the dispatcher."""
    flags = ["--reap_interval_ms=200", *getattr(request, "param", [])]
    with Cluster(tmp_path / "cluster", workers=2, flags={"dispatcher": flags}) as running:
        yield running


@pytest.fixture
def paths(tmp_path: Path) -> list[Path]:
    return numbered.write(tmp_path / "data", FILES, RECORDS_A_FILE, RECORD_BYTES)


def distributed(cluster: Cluster, paths: list[Path], pool: int = POOL, **arguments: Any) -> tf.data.Dataset:
    """A FIFO pipeline on the workers: batches made in the source, nothing reordered behind it."""
    assert cluster.dispatcher is not None
    read = tfquiver.dataset(
        paths,
        service=cluster.coordinator.address,
        first_use=tfquiver.FirstUse(cut=CUT),
        batch_size=BATCH,
        reading=tfquiver.Reading(readahead_bytes=READAHEAD, hold_back=HOLD_BACK),
        order=tfquiver.Shuffled(shuffle_bytes=pool),
        **arguments,
    )
    return read.apply(tfquiver.distribute(cluster.dispatcher.address, compression=None))


def sessions(cluster: Cluster) -> list[coordinator_pb2.SessionInfo]:
    with grpc.insecure_channel(cluster.coordinator.address) as channel:
        stub = coordinator_pb2_grpc.CoordinatorStub(channel)
        return list(stub.ListSessions(coordinator_pb2.ListSessionsRequest(), timeout=10).sessions)


def node_status(node: Server) -> node_pb2.StatusReply:
    with grpc.insecure_channel(node.address) as channel:
        return node_pb2_grpc.NodeStub(channel).Status(node_pb2.StatusRequest(), timeout=10)


def assert_nothing_lost(seen: numbered.Numbers, most_duplicates: int, what: str) -> None:
    lost, duplicates = numbered.lost_and_duplicates(seen, TOTAL)
    print(f"{what}: {len(seen)} records seen of {TOTAL}, {lost} lost, {duplicates} duplicates")
    assert lost == 0
    assert duplicates <= most_duplicates


def test_a_worker_that_does_not_return(cluster: Cluster, paths: list[Path]) -> None:
    shared = distributed(cluster, paths)
    reader = numbered.EpochReader(shared, step_s=0.004)
    reader.reached(TOTAL // 4)
    cluster.workers[0].kill()
    assert_nothing_lost(reader.result(), UNACKED_RECORDS, "worker killed for good")
    wait_until(lambda: "handed out again of data set" in cluster.coordinator.log_tail(), "the log says why")
    # The dispatcher still counts on the dead worker: the next epoch has a task for it as well.
    numbered.assert_each_once(numbered.EpochReader(shared).result(), TOTAL)
    assert all(session.ended for session in sessions(cluster))


def test_a_worker_that_does_not_return_is_waited_for_in_one_epoch_not_in_each(
    cluster: Cluster, paths: list[Path]
) -> None:
    assert cluster.dispatcher is not None
    lost = cluster.workers[0].address

    def idle_s() -> float:
        (dispatcher,) = status.collect(cluster.coordinator.address)["dispatchers"]
        (worker,) = (one for one in dispatcher["workers"] if one["address"] == lost)
        return float(worker["idle_ms"] / 1000)

    shared = distributed(cluster, paths)
    numbered.assert_each_once(numbered.EpochReader(shared).result(), TOTAL)
    cluster.workers[0].kill()
    for _ in range(2):
        numbered.assert_each_once(numbered.EpochReader(shared).result(), TOTAL)
        wait_until(lambda: idle_s() > 2, "the dispatcher has seen that it has no tasks between the epochs")
    log = cluster.dispatcher.log.read_text()
    assert log.count(f"worker {lost} is lost") == 1
    assert log.count("its epoch is at its end: finished its tasks") == 2


@pytest.mark.parametrize("cluster", [["--worker_timeout_ms=120000"]], indirect=True)
def test_a_worker_where_nobody_listens_any_more_is_not_waited_for_as_a_silent_one(
    cluster: Cluster, paths: list[Path]
) -> None:
    shared = distributed(cluster, paths)
    numbered.assert_each_once(numbered.EpochReader(shared).result(), TOTAL)
    cluster.workers[0].kill()
    numbered.assert_each_once(numbered.EpochReader(shared).result(60.0), TOTAL)


def test_a_worker_whose_prefetch_has_grown_in_the_pauses_of_its_trainer(cluster: Cluster, paths: list[Path]) -> None:
    """Defaults hold back what `prefetch(AUTOTUNE)` has grown to: behind maps that cost more than the way here."""
    assert cluster.dispatcher is not None
    read = tfquiver.dataset(
        paths[:1],
        service=cluster.coordinator.address,
        first_use=tfquiver.FirstUse(cut=CutPolicy(2_000, 4_000, 8_000)),
        batch_size=1,
        order=tfquiver.Shuffled(shuffle_bytes=10_000),
        reading=tfquiver.Reading(readahead_bytes=10_000),
    )
    costly = read.map(tf.identity, num_parallel_calls=tf.data.AUTOTUNE).apply(testing.sleep(1_000))
    distribute = tfquiver.distribute(cluster.dispatcher.address, compression=None)
    elements = iter(costly.prefetch(tf.data.AUTOTUNE).apply(distribute).as_numpy_iterator())
    seen = []
    for _ in range(8):
        seen += [numbered.numbers(next(elements)) for _ in range(100)]
        time.sleep(0.3)  # an evaluation: prefetch fills up, and grows when the next burst has found it too short
    cluster.workers[0].kill()
    seen += [numbered.numbers(element) for element in elements]
    lost, _ = numbered.lost_and_duplicates(np.concatenate(seen), RECORDS_A_FILE)
    assert lost == 0


def test_a_worker_that_returns(cluster: Cluster, paths: list[Path]) -> None:
    shared = distributed(cluster, paths)
    reader = numbered.EpochReader(shared, step_s=0.01)
    reader.reached(TOTAL // 4)
    cluster.workers[0].kill()
    cluster.workers[0].restart()
    assert_nothing_lost(reader.result(), UNACKED_RECORDS, "worker killed and back")
    numbered.assert_each_once(numbered.EpochReader(shared).result(), TOTAL)


def test_no_epoch_ends_short_when_every_worker_is_lost(cluster: Cluster, paths: list[Path]) -> None:
    reader = numbered.EpochReader(distributed(cluster, paths), step_s=0.004)
    reader.reached(TOTAL // 4)
    cluster.kill_workers()
    with pytest.raises(TimeoutError):  # longer than --worker_timeout_ms: nobody may call the tasks finished
        reader.result(deadline_s=6)
    cluster.add_worker().start()
    assert_nothing_lost(reader.result(), 2 * UNACKED_RECORDS, "both workers killed, another joined")


def test_a_trainer_that_reads_in_bursts_has_no_more_buffered_than_it_counted(
    cluster: Cluster, paths: list[Path]
) -> None:
    reader = numbered.EpochReader(distributed(cluster, paths, pool=0), allowed=40)  # shards leave whole
    for burst in range(1, 6):  # each empties what was read ahead in the pause: TensorFlow's own prefetch would double
        reader.reached(burst * 40 * BATCH)
        time.sleep(1.0)
        reader.allow(40)
    reader.reached(6 * 40 * BATCH)
    time.sleep(1.0)
    cluster.kill_workers()
    cluster.add_worker().start()
    reader.allow()
    assert_nothing_lost(reader.result(), 2 * UNACKED_RECORDS, "both workers killed in a pause")


def test_the_coordinator(cluster: Cluster, paths: list[Path]) -> None:
    shared = distributed(cluster, paths)
    reader = numbered.EpochReader(shared, step_s=0.004)
    reader.reached(TOTAL // 4)
    cluster.coordinator.kill()
    cluster.coordinator.restart()
    assert_nothing_lost(reader.result(), 0, "coordinator killed and back")
    numbered.assert_each_once(numbered.EpochReader(shared).result(), TOTAL)


@pytest.mark.parametrize("torn_bytes", [1, 5, 13])
def test_the_dispatcher_with_a_torn_journal(
    cluster: Cluster, paths: list[Path], tmp_path: Path, torn_bytes: int
) -> None:
    assert cluster.dispatcher is not None
    shared = distributed(cluster, paths)
    reader = numbered.EpochReader(shared, step_s=0.004)
    reader.reached(TOTAL // 4)
    cluster.dispatcher.kill()
    journal = tmp_path / "cluster" / "dispatcher" / "tf_data_dispatcher_journal" / "journal_0"
    # A record that was never finished: nobody has been told of it.
    whole = journal.read_bytes()
    journal.write_bytes(whole + whole[:torn_bytes])
    cluster.dispatcher.restart()
    assert journal.read_bytes() == whole
    assert_nothing_lost(reader.result(), 0, "dispatcher killed and back")
    numbered.assert_each_once(numbered.EpochReader(shared).result(), TOTAL)


def test_a_worker_joins_while_the_dispatcher_is_new(cluster: Cluster, paths: list[Path]) -> None:
    assert cluster.dispatcher is not None
    reader = numbered.EpochReader(distributed(cluster, paths), step_s=0.01)
    reader.reached(TOTAL // 4)
    cluster.dispatcher.kill()
    cluster.dispatcher.restart()
    cluster.add_worker().start()
    assert_nothing_lost(reader.result(), 0, "dispatcher killed, worker joined")


def test_the_node_beside_the_workers(cluster: Cluster, paths: list[Path]) -> None:
    assert cluster.node is not None
    shared = distributed(cluster, paths)
    numbered.assert_each_once(numbered.EpochReader(shared).result(), TOTAL)
    reader = numbered.EpochReader(shared, step_s=0.004)
    reader.reached(TOTAL // 4)
    cluster.node.kill()
    cluster.node.restart()
    assert_nothing_lost(reader.result(), 2 * UNACKED_RECORDS, "node killed and back")
    numbered.assert_each_once(numbered.EpochReader(shared).result(), TOTAL)
    assert node_status(cluster.node).store_bytes == 0, "the cache was warm: nothing is read from the store again"


def test_every_server_stops_on_sigterm_and_the_epoch_goes_on(cluster: Cluster, paths: list[Path]) -> None:
    assert cluster.dispatcher is not None and cluster.node is not None
    reader = numbered.EpochReader(distributed(cluster, paths), step_s=0.01)
    reader.reached(TOTAL // 8)
    servers = (*cluster.workers, cluster.dispatcher, cluster.node, cluster.coordinator)
    for server in servers:
        assert server.stop(deadline_s=5.0) == 0, server.module
    # All of them come back, and the epoch goes on where it was.
    for server in reversed(servers):
        server.restart()
    assert_nothing_lost(reader.result(), 2 * UNACKED_RECORDS, "every server stopped and back")


@pytest.mark.parametrize("cluster", [["--unread_task_timeout_ms=2000"]], indirect=True)
def test_a_worker_stops_that_cannot_tell_a_dead_dispatcher_what_it_finished(
    cluster: Cluster, paths: list[Path]
) -> None:
    assert cluster.dispatcher is not None
    reader = numbered.EpochReader(distributed(cluster, paths), step_s=0.002)
    reader.reached(TOTAL // 4)
    cluster.dispatcher.kill()
    reader.reached(TOTAL)
    for worker in cluster.workers:
        assert worker.stop(deadline_s=3.0) == 0
    with pytest.raises(TimeoutError):  # as long as nobody says so, the epoch has not ended
        reader.result(deadline_s=0.1)
    # The trainer would wait for the dispatcher until its deadline: let it hear the end from new servers.
    cluster.dispatcher.restart()
    for worker in cluster.workers:
        worker.restart()
    # The workers cannot have known that all was delivered: what they held back comes again. Of one that has given its
    # end already nobody asks for it: then the epoch ends after --unread_task_timeout_ms.
    assert_nothing_lost(reader.result(), 2 * UNACKED_RECORDS, "dispatcher killed, workers stopped, all back")
