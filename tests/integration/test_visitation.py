"""I-6 through the stock tf.data service client: every record exactly once an epoch, for every trainer."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import tfquiver
from tests.support import fixed_ports, numbered, warm
from tests.support.cluster import Cluster, wait_until
from tfquiver import CutPolicy
from tfquiver.cli.status_asked_watched_explained import status

pytestmark = pytest.mark.long

SERVICE = tf.data.experimental.service
WHOLE_FILE = CutPolicy(1, 1 << 62, 1 << 62)
ONE_RECORD = CutPolicy(1, 1, 1)
EPOCHS, TRAINERS = 5, 3


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with Cluster(tmp_path_factory.mktemp("cluster"), workers=2) as running:
        yield running


def source(cluster: Cluster, files: list[Path], cut: CutPolicy | None = None, **arguments: Any) -> tf.data.Dataset:
    return tfquiver.dataset(
        files, service=cluster.coordinator.address, first_use=tfquiver.FirstUse(cut=cut), **arguments
    )


def stock(cluster: Cluster, policy: Any = SERVICE.ShardingPolicy.DYNAMIC, **arguments: Any) -> Any:
    assert cluster.dispatcher is not None
    return SERVICE.distribute(policy, f"grpc://{cluster.dispatcher.address}", **arguments)


@pytest.mark.parametrize(
    ("cut", "files", "records", "record_bytes"),
    [
        pytest.param(ONE_RECORD, 3, 100, 100, id="shards of one record"),
        pytest.param(CutPolicy(2 << 20, 2 << 20, 2 << 20), 3, 1500, 4096, id="shards of 2 MiB"),
        pytest.param(WHOLE_FILE, 7, 400, 1000, id="shards of a whole file"),
    ],
)
def test_every_record_once_an_epoch_and_trainer(
    cluster: Cluster, tmp_path: Path, cut: CutPolicy, files: int, records: int, record_bytes: int
) -> None:
    paths = numbered.write(tmp_path, files, records, record_bytes)

    def train(trainer: int) -> None:
        read = source(cluster, paths, cut=cut, batch_size=32, job=f"trainer-{trainer}")
        shared = read.apply(stock(cluster))
        orders = [numbered.read(shared) for _ in range(EPOCHS)]
        for seen in orders:
            numbered.assert_each_once(seen, files * records)
        assert any(not np.array_equal(orders[0], order) for order in orders[1:])

    with ThreadPoolExecutor(TRAINERS) as pool:
        for trained in [pool.submit(train, trainer) for trainer in range(TRAINERS)]:
            trained.result(timeout=100)


_TRAINER = """
import json, sys
import tfquiver
from tests.support import numbered
told = json.loads(sys.argv[1])
read = tfquiver.dataset(told["files"], service=told["coordinator"])
read = read.map(lambda record: record, num_parallel_calls=4).batch(50)
shared = read.apply(tfquiver.distribute(told["dispatcher"]))
for _ in range(told["epochs"]):
    numbered.assert_each_once(numbered.read(shared), told["records"])
print("each once")
"""


def test_trainers_in_processes_of_their_own(cluster: Cluster, tmp_path: Path) -> None:
    paths = numbered.write(tmp_path, 4, 1000, 2000)
    assert cluster.dispatcher is not None
    told = {
        "files": [str(path) for path in paths],
        "coordinator": cluster.coordinator.address,
        "dispatcher": cluster.dispatcher.address,
        "epochs": EPOCHS,
        "records": 4000,
    }
    trainers = [
        warm.Popen(
            [sys.executable, "-c", _TRAINER, json.dumps(told)],
            warm_kind="tensorflow",
            stdout=subprocess.PIPE,
            text=True,
        )
        for _ in range(TRAINERS)
    ]
    try:
        said = [trainer.communicate(timeout=110)[0] for trainer in trainers]
    finally:
        for trainer in trainers:
            trainer.kill()
            trainer.wait()
    assert said == ["each once\n"] * TRAINERS


def test_repeat_before_distribute(cluster: Cluster, tmp_path: Path) -> None:
    paths = numbered.write(tmp_path, 2, 300, 500)
    repeated = source(cluster, paths, cut=ONE_RECORD).repeat(3).apply(stock(cluster))
    numbered.assert_each_once(numbered.read(repeated), 600, times=3)


def test_repeat_after_distribute(cluster: Cluster, tmp_path: Path) -> None:
    paths = numbered.write(tmp_path, 2, 100, 500)
    repeated = source(cluster, paths, cut=ONE_RECORD).apply(stock(cluster)).repeat(3)
    seen = numbered.read(repeated)
    for epoch in range(3):
        numbered.assert_each_once(seen[epoch * 200 : epoch * 200 + 200], 200)


def test_zip_of_two(cluster: Cluster, tmp_path: Path) -> None:
    left = source(cluster, numbered.write(tmp_path / "left", 2, 150, 500), cut=ONE_RECORD)
    right = source(cluster, numbered.write(tmp_path / "right", 3, 100, 700), cut=ONE_RECORD)
    zipped = tf.data.Dataset.zip((left, right)).apply(stock(cluster))
    pairs = list(zipped.as_numpy_iterator())
    # Each worker zips what it leases of either, more of the left or more of the right. Where one side ends first,
    # tf.data's zip has taken one record of the other side already, and drops it.
    for side in range(2):
        seen = np.concatenate([numbered.numbers(pair[side]) for pair in pairs])
        lost, duplicates = numbered.lost_and_duplicates(seen, 300)
        assert duplicates == 0
        assert lost <= 2, "one for each worker at most"


def test_zip_after_distribute(cluster: Cluster, tmp_path: Path) -> None:
    left = source(cluster, numbered.write(tmp_path / "left", 2, 150, 500), cut=ONE_RECORD).apply(stock(cluster))
    right = source(cluster, numbered.write(tmp_path / "right", 3, 100, 700), cut=ONE_RECORD).apply(stock(cluster))
    pairs = list(tf.data.Dataset.zip((left, right)).as_numpy_iterator())
    for side in range(2):
        numbered.assert_each_once(np.concatenate([numbered.numbers(pair[side]) for pair in pairs]), 300)


def test_a_mixture_of_two(cluster: Cluster, tmp_path: Path) -> None:
    paths = [numbered.write(tmp_path / name, 2, 150, 500) for name in ("left", "right")]
    parts = [source(cluster, part, cut=ONE_RECORD).map(lambda record: record) for part in paths]
    mixed = tf.data.Dataset.sample_from_datasets(parts, seed=1).apply(stock(cluster))
    numbered.assert_each_once(numbered.read(mixed), 300, times=2)


def test_two_trainers_share_a_job(cluster: Cluster, tmp_path: Path) -> None:
    paths = numbered.write(tmp_path, 4, 500, 1000)
    read = source(cluster, paths, cut=ONE_RECORD, batch_size=10)
    shared = [read.apply(stock(cluster, job_name="both")) for _ in range(2)]
    with ThreadPoolExecutor(2) as pool:
        halves = list(pool.map(lambda mine: numbered.read(mine), shared, timeout=60))
    numbered.assert_each_once(np.concatenate(halves), 2000)


_SYNCHRONOUS_TRAINER = """
import json, sys
import tensorflow as tf
import tfquiver
from tests.support import numbered

told = json.loads(sys.argv[1])
strategy = tf.distribute.MultiWorkerMirroredStrategy()
data = tfquiver.dataset(told["files"], service=told["coordinator"], batch_size=20)
data = data.apply(tfquiver.distribute(told["dispatcher"], job_name="run-17")).prefetch(2)

@tf.function
def step(records):
    def everywhere(records):  # as a training step, which waits for all workers
        return tf.distribute.get_replica_context().all_reduce("SUM", tf.size(records))
    return strategy.run(everywhere, args=(records,))

mine, together = [], []
for records in strategy.distribute_datasets_from_function(lambda _: data):
    together.append(int(step(records)))
    for here in strategy.experimental_local_results(records):
        mine += numbered.read([here.numpy()]).tolist()
print(json.dumps({"mine": mine, "together": together}))
"""


_STEPPING_TRAINER = """
import json, sys
import tensorflow as tf
import tfquiver

told = json.loads(sys.argv[1])
strategy = tf.distribute.MultiWorkerMirroredStrategy()
data = tfquiver.dataset(told["files"], service=told["coordinator"], job="in step", batch_size=20).repeat()
data = data.apply(tfquiver.distribute(told["dispatcher"], job_name="in step")).prefetch(2)

@tf.function
def train(records):
    def everywhere(records):
        return tf.distribute.get_replica_context().all_reduce("SUM", tf.size(records))
    return strategy.run(everywhere, args=(records,))

with strategy.scope():
    for records in strategy.distribute_datasets_from_function(lambda _: data):
        with tfquiver.step("in step", records=20):
            train(records)
"""


@contextlib.contextmanager
def two_workers(cluster: Cluster, paths: list[Path], program: str) -> Iterator[list[subprocess.Popen[str]]]:
    """Of one MultiWorkerMirroredStrategy, until the block ends."""
    assert cluster.dispatcher is not None
    told = {
        "files": [str(path) for path in paths],
        "coordinator": cluster.coordinator.address,
        "dispatcher": cluster.dispatcher.address,
    }
    workers = {"worker": [f"localhost:{fixed_ports.free_port()}" for _ in range(2)]}
    trainers = []
    try:
        for index in range(2):
            config = {"cluster": workers, "task": {"type": "worker", "index": index}}
            env = {**os.environ, "TF_CONFIG": json.dumps(config), "CUDA_VISIBLE_DEVICES": ""}
            command = [sys.executable, "-c", program, json.dumps(told)]
            trainers.append(warm.Popen(command, warm_kind="tensorflow", stdout=subprocess.PIPE, text=True, env=env))
        yield trainers
    finally:
        for trainer in trainers:
            trainer.kill()
            trainer.wait()
            assert trainer.stdout is not None
            trainer.stdout.close()


def test_workers_of_a_multi_worker_strategy_share_an_epoch(cluster: Cluster, tmp_path: Path) -> None:
    """In step: each takes part in every step, until nobody has anything left."""
    paths = numbered.write(tmp_path, 4, 500, 1000)
    with two_workers(cluster, paths, _SYNCHRONOUS_TRAINER) as trainers:
        told_by = [trainer.communicate(timeout=90)[0] for trainer in trainers]
    seen = [json.loads(text) for text in told_by]
    numbered.assert_each_once(np.array(seen[0]["mine"] + seen[1]["mine"]), 2000)
    assert seen[0]["mine"] and seen[1]["mine"]
    assert seen[0]["together"] == seen[1]["together"]
    assert sum(seen[0]["together"]) == 2000


def test_steps_of_a_multi_worker_strategy_are_those_of_one_job(cluster: Cluster, tmp_path: Path) -> None:
    """In a loop of one's own: the mini-batch is that of both together, and so are the accelerators."""
    paths = numbered.write(tmp_path, 4, 500, 1000)

    seen: list[dict[str, Any]] = []

    def both_told() -> bool:
        """Kept when seen: between two epochs no session is open, and nobody's steps are told."""
        told = status.collect(cluster.coordinator.address)["sessions"]
        seen.extend(one for one in told if one["job"] == "in step" and {"step_ms", "between_ms"} <= one.keys())
        return any(one["accelerators"] == 2 for one in seen)

    with two_workers(cluster, paths, _STEPPING_TRAINER) as trainers:
        wait_until(both_told, "both have told of their steps", 90.0)
        assert [trainer.poll() for trainer in trainers] == [None, None]
    assert seen[-1]["step_ms"] > 0 and seen[-1]["between_ms"] > 0


def test_the_order_of_files_is_not_for_workers(cluster: Cluster, tmp_path: Path) -> None:
    paths = numbered.write(tmp_path, 1, 100, 100)
    read = source(cluster, paths, order="files", cache_dir=cluster.cache_dir)
    assert numbered.read(read).tolist() == list(range(100))
    assert cluster.dispatcher is not None
    with pytest.raises(tf.errors.InvalidArgumentError, match="Leave distribute"):
        read.map(tf.identity).apply(tfquiver.distribute(cluster.dispatcher.address))
    with pytest.raises(tf.errors.InvalidArgumentError, match="Leave distribute"):
        list(read.apply(stock(cluster)))
    with pytest.raises(tfquiver.errors.InvalidArgumentError, match="needs cache_dir="):
        source(cluster, paths, order="files")


def test_sharding_off_gives_every_worker_everything(cluster: Cluster, tmp_path: Path) -> None:
    paths = numbered.write(tmp_path, 2, 200, 1000)
    everything = source(cluster, paths, cut=ONE_RECORD).apply(stock(cluster, SERVICE.ShardingPolicy.OFF))
    numbered.assert_each_once(numbered.read(everything), 400, times=2)


def test_an_abandoned_epoch_does_not_spoil_the_next(cluster: Cluster, tmp_path: Path) -> None:
    paths = numbered.write(tmp_path, 4, 500, 1000)
    shared = source(cluster, paths, batch_size=10, cut=ONE_RECORD).apply(stock(cluster))
    for _ in range(2):
        assert len(numbered.read(shared.take(3))) == 30
        numbered.assert_each_once(numbered.read(shared), 2000)


def test_this_process_without_a_node_says_what_is_missing(cluster: Cluster, tmp_path: Path) -> None:
    paths = numbered.write(tmp_path, 1, 10, 100)
    with pytest.raises(tf.errors.OpError, match="node"):
        numbered.read(source(cluster, paths, connection=tfquiver.Connection(reconnect_timeout_s=1.0)))
