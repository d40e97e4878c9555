"""kill -9 of tf.data service workers under `exactly_once`: the trainer sees every record of an epoch once."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc
import psutil
import pytest
import tensorflow as tf

import tfquiver
from tests.support import numbered, warm
from tests.support.cluster import Cluster, wait_until
from tests.support.worker_forks import Worker, WorkerForks
from tfquiver import CutPolicy
from tfquiver.proto.tfquiver.v1 import coordinator_pb2, coordinator_pb2_grpc

pytestmark = pytest.mark.long
FILES, RECORDS_A_FILE, RECORD_BYTES = 4, 1500, 500
TOTAL = FILES * RECORDS_A_FILE
BATCH = 20
TAKEOVER_S = 1.5


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    flags = {"dispatcher": ["--reap_interval_ms=200"]}
    with Cluster(tmp_path / "cluster", workers=0, dispatcher=True, flags=flags) as running:
        yield running


@pytest.fixture
def workers(cluster: Cluster, tmp_path: Path) -> Iterator[list[Worker]]:
    assert cluster.dispatcher is not None
    way = [f"--dispatcher={cluster.dispatcher.address}", f"--node_dir={cluster.cache_dir}"]
    with WorkerForks() as forks:
        made = [forks.worker([*way, "--heartbeat_interval_ms=200"], tmp_path / f"worker-{n}.log") for n in range(2)]
        start(made)
        yield made


@pytest.fixture
def paths(tmp_path: Path) -> list[Path]:
    return numbered.write(tmp_path / "data", FILES, RECORDS_A_FILE, RECORD_BYTES)


def delivered(cluster: Cluster, paths: list[Path], **arguments: Any) -> tf.data.Dataset:
    assert cluster.dispatcher is not None
    read = tfquiver.dataset(
        paths,
        service=cluster.coordinator.address,
        cache_dir=cluster.cache_dir,
        first_use=tfquiver.FirstUse(cut=CutPolicy(5_000, 10_000, 20_000)),
        batch_size=BATCH,
        reading=tfquiver.Reading(readahead_bytes=100_000),
        order=tfquiver.Shuffled(shuffle_bytes=100_000),
    )
    once = tfquiver.distribute(
        cluster.dispatcher.address,
        compression=None,
        guarantee="exactly_once",
        takeover_timeout_s=TAKEOVER_S,
        **arguments,
    )
    return read.apply(once)


def sessions(cluster: Cluster) -> list[coordinator_pb2.SessionInfo]:
    with grpc.insecure_channel(cluster.coordinator.address) as channel:
        stub = coordinator_pb2_grpc.CoordinatorStub(channel)
        return list(stub.ListSessions(coordinator_pb2.ListSessionsRequest(), timeout=10).sessions)


def shared_session(cluster: Cluster) -> coordinator_pb2.SessionInfo:
    """The newest that the workers share; what the trainer reads in their stead has a key of its own."""
    keyed = (session for session in sessions(cluster) if session.session_key)
    return next(session for session in keyed if not session.session_key.endswith(":mop-up"))


def once_each(reader: numbered.EpochReader, deadline_s: float = 60.0) -> None:
    numbered.assert_each_once(reader.result(deadline_s), TOTAL)


def test_kills_at_random_times(cluster: Cluster, workers: list[Worker], paths: list[Path], seed: int) -> None:
    """After END; one worker of two; between two epochs, with nobody left; and those come back to their address."""
    shared = delivered(cluster, paths, max_outstanding_requests=1)
    after_the_end(cluster, workers, shared)
    start(workers)
    before = tfquiver.delivery_stats()
    reader = numbered.EpochReader(shared, step_s=0.002)
    reader.reached(random.Random(seed).randrange(TOTAL))
    workers[0].kill()
    once_each(reader)
    workers[1].kill()
    once_each(numbered.EpochReader(shared))
    start(workers)
    once_each(numbered.EpochReader(shared))
    after = tfquiver.delivery_stats()
    assert after.epochs - before.epochs == 3
    assert after.mopped_up - before.mopped_up >= TOTAL, "there was no worker in the second epoch"


def after_the_end(cluster: Cluster, workers: list[Worker], shared: tf.data.Dataset) -> None:
    """What workers had emitted and not delivered when END came is beyond the source's sight (I-8)."""
    reader = numbered.EpochReader(shared, step_s=0.05)
    reader.reached(1)
    wait_until(lambda: shared_session(cluster).ended, "the end of the session")
    assert reader.reached(1) < TOTAL, "the trainer is behind its workers"
    for worker in workers:
        worker.kill()
    wait_until(lambda: not shared_session(cluster).readers, "the workers' readers are gone")
    assert shared_session(cluster).shortfall > 0
    once_each(reader)
    wait_until(lambda: shared_session(cluster).shortfall == 0, "the trainer has told of all that it was delivered")


# Told where it is handled, not where it is caught: it may be raised in code that C code has called, and be dropped.
_WAITING = """
import os
import signal
import sys
import tfquiver

def interrupt(*_):
    os.write(1, b"interrupted\\n")  # print may be at work already
    raise KeyboardInterrupt

signal.signal(signal.SIGINT, interrupt)
cache_dir, service, dispatcher, pattern = sys.argv[1:]
read = tfquiver.dataset(pattern, service=service, cache_dir=cache_dir, batch_size=20)
once = tfquiver.distribute(dispatcher, guarantee="exactly_once", takeover_timeout_s=3)
data = iter(read.apply(once).prefetch(1))
try:
    print("waiting", flush=True)
    next(data)
    sys.stdin.read()
except KeyboardInterrupt:
    pass
"""


def test_an_epoch_that_begins_with_nobody_there(cluster: Cluster, workers: list[Worker], paths: list[Path]) -> None:
    """Stopped processes keep their ports open and say nothing: the worst that a client can meet."""
    assert cluster.dispatcher is not None
    shared = delivered(cluster, paths)
    before = tfquiver.delivery_stats()
    stopped = psutil.Process(cluster.dispatcher.process.pid)
    for worker in workers:
        worker.kill()
    stopped.suspend()
    try:
        began = time.monotonic()
        once_each(numbered.EpochReader(shared))
        assert time.monotonic() - began < TAKEOVER_S + 8
        with pytest.raises(tfquiver.errors.UnavailableError, match="does not answer within"):
            tfquiver.distribute(cluster.dispatcher.address, connect_timeout_s=0.5)
    finally:
        stopped.resume()
    cluster.dispatcher.kill()
    began = time.monotonic()
    once_each(numbered.EpochReader(shared))
    assert time.monotonic() - began < TAKEOVER_S + 8
    cluster.dispatcher.restart()
    start(workers)
    once_each(numbered.EpochReader(shared))
    after = tfquiver.delivery_stats()
    assert after.epochs - before.epochs == 3
    assert after.takeovers - before.takeovers == 2
    assert after.mopped_up - before.mopped_up < 3 * TOTAL, "workers read again"


def test_ctrl_c_ends_a_trainer_that_waits_for_its_dispatcher(cluster: Cluster, paths: list[Path]) -> None:
    assert cluster.dispatcher is not None
    stopped = psutil.Process(cluster.dispatcher.process.pid)
    where = [str(cluster.cache_dir), cluster.coordinator.address, cluster.dispatcher.address]
    command = [sys.executable, "-c", _WAITING, *where, str(paths[0].parent / "part-*")]
    trainer = warm.Popen(command, warm_kind="tensorflow", stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        assert trainer.stdout is not None
        assert trainer.stdout.readline() == "waiting\n"
        stopped.suspend()
        trainer.send_signal(signal.SIGINT)
        assert trainer.communicate(timeout=60)[0] == "interrupted\n", "TensorFlow alone would wait for ever"
    finally:
        stopped.resume()
        trainer.kill()
        trainer.wait()


def start(workers: list[Worker]) -> None:
    for worker in workers:
        worker.launch()
    for worker in workers:
        worker.await_ready()


def test_transformed_records_come_in_full_batches_and_what_cannot_be_kept_is_refused(
    cluster: Cluster, workers: list[Worker], paths: list[Path]
) -> None:
    """Of single records, too; and what the trainer mops up has gone through the same transformation."""
    assert cluster.dispatcher is not None
    check_refusals(cluster, paths)
    read = tfquiver.dataset(paths, service=cluster.coordinator.address, cache_dir=cluster.cache_dir)
    shared = read.apply(
        tfquiver.distribute(
            cluster.dispatcher.address,
            guarantee="exactly_once",
            transform=lambda record: {"number": tf.io.decode_raw(tf.strings.substr(record, 0, 8), tf.int64)[0]},
            batch_size=64,
            takeover_timeout_s=TAKEOVER_S,
        )
    )
    assert int(shared.cardinality()) == -(-TOTAL // 64)
    assert shared.element_spec == {"number": tf.TensorSpec([None], tf.int64)}
    iterator = shared.as_numpy_iterator()
    seen = [next(iterator)["number"] for _ in range(5)]
    for worker in workers:
        worker.kill()
    seen += [element["number"] for element in iterator]
    assert [len(part) for part in seen] == [64] * (TOTAL // 64) + [TOTAL % 64]
    assert sorted(number for part in seen for number in part) == list(range(TOTAL))


def check_refusals(cluster: Cluster, paths: list[Path]) -> None:
    assert cluster.dispatcher is not None
    target = cluster.dispatcher.address
    where: dict[str, Any] = {"service": cluster.coordinator.address, "cache_dir": cluster.cache_dir}
    read = tfquiver.dataset(paths, **where, batch_size=BATCH)
    blind = tfquiver.dataset(paths, service=cluster.coordinator.address, batch_size=BATCH)

    def refused(said: str, dataset: tf.data.Dataset = read, **arguments: Any) -> None:
        with pytest.raises(tfquiver.errors.InvalidArgumentError, match=said):
            dataset.apply(tfquiver.distribute(target, guarantee="exactly_once", **arguments))

    refused("nothing in between", read.map(lambda records: records))
    refused("nothing in between", tf.data.Dataset.range(3))
    refused("add cache_dir=", blind)
    refused("batch_size= is given", batch_size=3)
    refused("job_name=.* share an epoch", job_name="shared")
    refused("ragged", transform=lambda records: tf.strings.split(records))
    refused("a row for each record", transform=lambda records: tf.size(records))
    refused("a row for each record", transform=lambda records: tf.ensure_shape(records, [BATCH]))
    for order in (tfquiver.Deterministic(1), tfquiver.Shuffled(homogeneous=True)):
        refused("which records come, not", tfquiver.dataset(paths, **where, order=order))
    refused("a data set", transform=lambda records: tf.data.Dataset.from_tensors(records))
    with pytest.raises(tfquiver.errors.InvalidArgumentError, match="guarantee='always'"):
        tfquiver.distribute(target, guarantee="always")
    changed = read.apply(tfquiver.distribute(target, guarantee="exactly_once", transform=lambda records: records[::2]))
    with pytest.raises(tf.errors.InvalidArgumentError, match="keeps rows"):
        numbered.read(changed)


def test_a_node_of_another_coordinator_is_refused(cluster: Cluster, paths: list[Path], tmp_path: Path) -> None:
    other = cluster.add("coordinator", f"--work_dir={tmp_path / 'other'}", name="other").start()
    with pytest.raises(tfquiver.errors.InvalidArgumentError, match="belongs to another coordinator"):
        tfquiver.dataset(
            paths,
            service=other.address,
            cache_dir=cluster.cache_dir,
            connection=tfquiver.Connection(connect_timeout_s=0.5),
        )
