"""Whoever is killed in a sampled epoch: each draw comes at least once, again only what was not acknowledged (I-7)."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import tfquiver
from tests.support import numbered, sampled, warm
from tests.support.cluster import Cluster, wait_until
from tfquiver import CutPolicy
from tfquiver.users_arguments_checked.sampled import Sampled

pytestmark = pytest.mark.long

FILES, RECORDS_A_FILE, RECORD_BYTES = 4, 2000, 1000
TOTAL = FILES * RECORDS_A_FILE
paths = numbered.fixture(FILES, RECORDS_A_FILE, RECORD_BYTES)
CUT = CutPolicy(10_000, 20_000, 40_000)  # some 400 shards of 20 records
BATCH, HOLD_BACK, SAVE_EVERY = 20, 16, 10
READAHEAD, POOL = 100_000, 100_000
UNACKED_RECORDS = (READAHEAD + POOL) // RECORD_BYTES + BATCH * (HOLD_BACK + 2) + 400

CURRICULUM = tfquiver.Curriculum(
    tfquiver.Pacing(starting_part=0.2, growth=2.0, step_epochs=0.3), shuffle_bytes=POOL, seed=3
)
WEIGHTED = tfquiver.Weighted({"part-000*": 5.0, "*": 1.0}, shuffle_bytes=POOL, seed=4)
_WEIGHTS = np.where(np.arange(TOTAL) % 5 == 0, 4.0, 1.0)
RECORDS = tfquiver.Weighted(_WEIGHTS, copies=3, shuffle_bytes=POOL, seed=5)
WITHOUT = tfquiver.Weighted(_WEIGHTS, replacement=False, epoch_share=0.7, shuffle_bytes=POOL, seed=6)
ORDERS = {"CURRICULUM": CURRICULUM, "WEIGHTED": WEIGHTED, "RECORDS": RECORDS, "WITHOUT": WITHOUT}
orders = pytest.mark.parametrize("order", ORDERS.values(), ids=ORDERS.keys())


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    flags = {"dispatcher": ["--reap_interval_ms=200"]}
    with Cluster(tmp_path / "cluster", workers=2, flags=flags) as running:
        yield running


def data_set(paths: list[Any], order: Sampled, **arguments: Any) -> tf.data.Dataset:
    reading = tfquiver.Reading(readahead_bytes=READAHEAD, hold_back=HOLD_BACK)
    return tfquiver.dataset(
        paths, first_use=tfquiver.FirstUse(cut=CUT), batch_size=BATCH, reading=reading, order=order, **arguments
    )


def distributed(cluster: Cluster, paths: list[Path], order: Sampled) -> tf.data.Dataset:
    assert cluster.dispatcher is not None
    read = data_set(paths, order, service=cluster.coordinator.address)
    return read.apply(tfquiver.distribute(cluster.dispatcher.address, compression=None))


def drawn(cluster: Cluster, order: Sampled, epoch: int = 0) -> Any:
    return sampled.expected(sampled.only_digest(cluster.coordinator.address), order, epoch)


@orders
def test_a_worker_is_killed(cluster: Cluster, paths: list[Path], order: Sampled) -> None:
    shared = distributed(cluster, paths, order)
    wanted = drawn(cluster, order)
    reader = numbered.EpochReader(shared, step_s=0.004)
    reader.reached(TOTAL // 4)
    cluster.workers[0].kill()
    lost, again = sampled.lost_and_again(reader.result(), wanted)
    print(f"worker killed: {wanted.total()} drawn, {lost} lost, {again} again")
    assert lost == 0
    assert again <= UNACKED_RECORDS
    assert sampled.counted(numbered.EpochReader(shared).result()) == drawn(cluster, order, 1)


@orders
def test_the_coordinator_is_killed_twice(cluster: Cluster, paths: list[Path], order: Sampled) -> None:
    """It finds in its log what was drawn: a scheme is not asked again."""
    shared = distributed(cluster, paths, order)
    wanted, next_wanted = drawn(cluster, order), drawn(cluster, order, 1)
    reader = numbered.EpochReader(shared, step_s=0.004)
    for part in (4, 2):
        reader.reached(TOTAL // part)
        cluster.coordinator.kill()
        cluster.coordinator.restart()
    lost, again = sampled.lost_and_again(reader.result(), wanted)
    print(f"coordinator killed: {wanted.total()} drawn, {lost} lost, {again} again")
    assert (lost, again) == (0, 0)
    assert sampled.counted(numbered.EpochReader(shared).result()) == next_wanted


@orders
def test_the_node_is_killed(cluster: Cluster, paths: list[Path], order: Sampled) -> None:
    assert cluster.node is not None
    shared = distributed(cluster, paths, order)
    wanted = drawn(cluster, order)
    reader = numbered.EpochReader(shared, step_s=0.004)
    reader.reached(TOTAL // 3)
    cluster.node.kill()
    cluster.node.restart()
    lost, again = sampled.lost_and_again(reader.result(), wanted)
    print(f"node killed: {wanted.total()} drawn, {lost} lost, {again} again")
    assert lost == 0
    assert again <= 2 * UNACKED_RECORDS


_TRAINER = """
import sys, time
from pathlib import Path
import tensorflow as tf
from tests.fault import test_sampling_killed as test
from tests.support import numbered

out, name = Path(sys.argv[1]), sys.argv[2]
iterator = iter(test.data_set(sys.argv[5:], getattr(test, name), service=sys.argv[3], cache_dir=sys.argv[4]))
checkpoint = tf.train.Checkpoint(iterator=iterator)
with (out / "seen").open("wb", buffering=0) as seen:
    for step, batch in enumerate(iterator, start=1):
        seen.write(numbered.numbers(batch.numpy()).tobytes())
        if step % test.SAVE_EVERY == 0:
            checkpoint.write(str(out / f"step-{step}"))
            (out / "saving").write_text(str(step))
            (out / "saving").replace(out / "saved")
        time.sleep(0.005)
"""


@pytest.mark.parametrize("name", ORDERS)
def test_a_trainer_is_killed_and_goes_on_from_its_checkpoint_exactly(
    cluster: Cluster, paths: list[Path], tmp_path: Path, name: str
) -> None:
    order: Sampled = globals()[name]
    where = [cluster.coordinator.address, str(cluster.cache_dir)]
    command = [sys.executable, "-c", _TRAINER, str(tmp_path), name, *where, *map(str, paths)]
    trainer = warm.Popen(command, warm_kind="tensorflow")
    seen_file = tmp_path / "seen"
    try:
        wait_until(
            lambda: (seen_file.exists() and seen_file.stat().st_size >= 8 * TOTAL // 2) or trainer.poll() is not None,
            "half of the epoch",
            180,
        )
        assert trainer.poll() is None
    finally:
        trainer.kill()
        trainer.wait()
    saved = int((tmp_path / "saved").read_text())
    before = np.frombuffer(seen_file.read_bytes(), np.int64)[: saved * BATCH]
    iterator = iter(data_set(paths, order, service=where[0], cache_dir=where[1]))
    tf.train.Checkpoint(iterator=iterator).read(str(tmp_path / f"step-{saved}")).assert_consumed()
    after = numbered.read(batch.numpy() for batch in iterator)
    print(f"{name}: resumed from step {saved}: {len(before)} + {len(after)} records")
    assert sampled.counted(np.concatenate([before, after])) == drawn(cluster, order)
