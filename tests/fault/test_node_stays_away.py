"""A worker whose node never comes back: the worker ends, others read its part, the trainer does not notice."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

import tfquiver
from tests.support import numbered
from tests.support.cluster import Cluster, wait_until
from tfquiver import CutPolicy

FILES, RECORDS_A_FILE, RECORD_BYTES = 4, 2000, 1000
TOTAL = FILES * RECORDS_A_FILE


@pytest.mark.long
def test_a_node_that_is_lost_for_good_ends_its_worker_and_not_the_training(tmp_path: Path) -> None:
    paths = numbered.write(tmp_path / "data", FILES, RECORDS_A_FILE, RECORD_BYTES)
    with Cluster(tmp_path / "cluster", workers=1) as cluster:
        assert cluster.dispatcher
        other = tmp_path / "other"
        coordinator = f"--coordinator={cluster.coordinator.address}"
        node = cluster.add("node", f"--cache_dir={other}", coordinator, name="other").start()
        dispatcher = f"--dispatcher={cluster.dispatcher.address}"
        away = ["--node_away_s=4"]
        worker = cluster.add("worker", dispatcher, f"--node_dir={other}", *away, name="others-worker").start()
        read = tfquiver.dataset(
            paths,
            service=cluster.coordinator.address,
            first_use=tfquiver.FirstUse(cut=CutPolicy(10_000, 20_000, 40_000)),
            batch_size=20,
            reading=tfquiver.Reading(readahead_bytes=100_000),
            order=tfquiver.Shuffled(shuffle_bytes=100_000),
        )
        shared = read.apply(tfquiver.distribute(cluster.dispatcher.address, compression=None))
        reader = numbered.EpochReader(shared, step_s=0.004)
        reader.reached(TOTAL // 4)
        node.kill()
        lost, _ = numbered.lost_and_duplicates(reader.result(), TOTAL)
        assert lost == 0
        wait_until(lambda: not worker.running, "the worker has ended")
        assert worker.process.returncode == 1
        assert f"no node has answered at {other}" in worker.log_tail()
        numbered.assert_each_once(numbered.EpochReader(shared).result(), TOTAL)


def test_a_worker_waits_for_its_node_and_takes_one_of_its_own_that_hangs_with_it(tmp_path: Path) -> None:
    """Each start that failed counted, until `tfquiver up` gave up; a node that hung kept the directory for ever."""
    with Cluster(tmp_path / "cluster", workers=0, dispatcher=True) as cluster:
        assert cluster.dispatcher
        dispatcher, coordinator = (f"--{server.module.split('.')[-2]}={server.address}"
                                   for server in (cluster.dispatcher, cluster.coordinator))  # fmt: skip
        late, own = tmp_path / "late", tmp_path / "own"
        waiting = cluster.add("worker", dispatcher, f"--node_dir={late}", name="waiting").launch()
        hung = cluster.add(
            "worker", dispatcher, f"--cache_dir={own}", coordinator, "--node_away_s=2", name="hung"
        ).start()
        pid = int((own / "node.lock").read_text())
        os.kill(pid, signal.SIGSTOP)
        wait_until(lambda: "no tfquiver-node answers" in waiting.log_tail(), "it waits")
        cluster.add("node", f"--cache_dir={late}", coordinator, name="late").start()
        waiting.await_ready()
        wait_until(lambda: not hung.running, "the worker has ended")
        assert hung.process.returncode == 1
        wait_until(lambda: not Path(f"/proc/{pid}").exists(), "its node has ended")
