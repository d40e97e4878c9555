"""A training whose dispatcher or coordinator goes away hears of it; and nothing watches for ever."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
import tensorflow as tf

import tfquiver
from tests.support import numbered
from tests.support.cluster import Cluster, wait_until
from tfquiver import CutPolicy

RECORDS = 2000


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    with Cluster(tmp_path / "cluster", workers=1) as running:
        yield running


@pytest.fixture
def paths(tmp_path: Path) -> list[Path]:
    return numbered.write(tmp_path / "data", 2, RECORDS // 2, 1000)


def distributed(cluster: Cluster, paths: list[Path]) -> tf.data.Dataset:
    assert cluster.dispatcher is not None
    read = tfquiver.dataset(
        paths, service=cluster.coordinator.address, first_use=tfquiver.FirstUse(cut=CutPolicy(10_000, 20_000, 40_000)),
        batch_size=20,
    )  # fmt: skip
    return read.apply(tfquiver.distribute(cluster.dispatcher.address))


def names(cluster: Cluster) -> list[str]:
    assert cluster.dispatcher is not None
    return sorted(f"tfquiver watches {at.address}" for at in (cluster.dispatcher, cluster.coordinator))


def watching(cluster: Cluster) -> list[str]:
    """Threads that watch its servers. A test that failed before keeps its data sets, and who watches for them."""
    return sorted({thread.name for thread in threading.enumerate()} & {*names(cluster)})


def told(caplog: pytest.LogCaptureFixture, *parts: str) -> str:
    """The line in which all of these stand, when it has come."""
    found: list[str] = []

    def look() -> bool:
        found[:] = [line for line in caplog.messages if all(part in line for part in parts)]
        return bool(found)

    wait_until(look, f"it is told: {parts}")
    return found[0]


@pytest.mark.long
def test_a_dispatcher_and_a_coordinator_that_go_away_in_mid_epoch(
    cluster: Cluster, paths: list[Path], caplog: pytest.LogCaptureFixture
) -> None:
    assert cluster.dispatcher is not None
    reader = numbered.EpochReader(distributed(cluster, paths), step_s=0.01)
    reader.reached(RECORDS // 4)
    cluster.dispatcher.kill()
    where = f"the tf.data service dispatcher at {cluster.dispatcher.address}"
    line = told(caplog, where, "has not answered for", "nobody listens there")
    assert "TensorFlow asks it again without end" in line and f"`kill {os.getpid()}`" in line
    cluster.dispatcher.restart()
    told(caplog, where, "answers again")
    stopped = psutil.Process(cluster.coordinator.process.pid)
    stopped.suspend()  # it keeps its port
    try:
        told(caplog, f"the coordinator at {cluster.coordinator.address} has not answered for", "--work_dir")
    finally:
        stopped.resume()
    told(caplog, f"the coordinator at {cluster.coordinator.address} answers again")
    numbered.assert_each_once(reader.result(), RECORDS)


def test_one_thread_watches_for_all_and_ends_with_the_last(cluster: Cluster, paths: list[Path]) -> None:
    made = [distributed(cluster, paths).map(tf.identity).prefetch(2) for _ in range(5)]
    assert watching(cluster) == names(cluster)
    iterator = iter(made.pop())
    made.clear()
    next(iterator)
    assert watching(cluster) == names(cluster), "an iterator is enough"
    del iterator
    wait_until(lambda: not watching(cluster), "nobody watches")


def test_a_forked_child_watches_nothing(cluster: Cluster, paths: list[Path]) -> None:
    data = distributed(cluster, paths)
    if (pid := os.fork()) == 0:
        os._exit(len(watching(cluster)))
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    assert len(watching(cluster)) == 2
    del data
