"""Records by weight, end to end: what comes is just what was drawn, whoever reads it and wherever it goes on."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import tfquiver
from tests.support import numbered, sampled
from tests.support.cluster import Cluster
from tfquiver import CutPolicy, errors
from tfquiver.messages_and_binary_formats.record_weights import record_weights

FILES, RECORDS_A_FILE, RECORD_BYTES = 4, 1000, 500
TOTAL = FILES * RECORDS_A_FILE
CUT = CutPolicy(5_000, 10_000, 20_000)  # some 200 shards
WEIGHTS = np.array([0.0 if record % 10 == 9 else (1.0, 3.0, 10.0)[record % 3] for record in range(TOTAL)], np.float32)
ORDERS = {
    "replacement": tfquiver.Weighted(WEIGHTS),
    "copies": tfquiver.Weighted(WEIGHTS, copies=7, epoch_share=2.0, seed=3),
    "without": tfquiver.Weighted(WEIGHTS, replacement=False, epoch_share=0.4),
}
orders = pytest.mark.parametrize("order", ORDERS.values(), ids=ORDERS.keys())


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with Cluster(tmp_path_factory.mktemp("cluster"), workers=2) as running:
        yield running


paths = numbered.fixture(FILES, RECORDS_A_FILE, RECORD_BYTES)


def read(cluster: Cluster, paths: list[Path], order: Any, **arguments: Any) -> tf.data.Dataset:
    return tfquiver.dataset(
        paths, service=cluster.coordinator.address, cache_dir=cluster.cache_dir, first_use=tfquiver.FirstUse(cut=CUT),
        order=order, **arguments,
    )  # fmt: skip


@orders
def test_an_epoch_is_what_was_drawn(cluster: Cluster, paths: list[Path], order: Any) -> None:
    made = read(cluster, paths, order, batch_size=64)
    digest = sampled.only_digest(cluster.coordinator.address)
    for epoch in range(3):
        wanted = sampled.expected(digest, order, epoch)
        assert sampled.counted(numbered.read(made)) == wanted
        assert max(wanted.values()) > 1 or not order.replacement
        assert not any(WEIGHTS[record] == 0 for record in wanted)
    if not order.replacement:
        assert wanted.total() == 0.4 * TOTAL


@orders
def test_a_checkpoint_goes_on_with_the_rest_of_what_was_drawn(
    cluster: Cluster, paths: list[Path], tmp_path: Path, order: Any
) -> None:
    iterator = iter(read(cluster, paths, order))
    before = numbered.read(next(iterator).numpy() for _ in range(700))
    saved = tf.train.Checkpoint(iterator=iterator).write(str(tmp_path / "saved"))
    del iterator
    again = iter(read(cluster, paths, order))
    tf.train.Checkpoint(iterator=again).read(saved).assert_consumed()
    after = numbered.read(record.numpy() for record in again)
    digest = sampled.only_digest(cluster.coordinator.address)
    assert sampled.counted(np.concatenate([before, after])) == sampled.expected(digest, order)


@orders
def test_workers_of_tf_data_service_share_an_epoch(cluster: Cluster, paths: list[Path], order: Any) -> None:
    assert cluster.dispatcher is not None
    made = tfquiver.dataset(
        paths, service=cluster.coordinator.address, first_use=tfquiver.FirstUse(cut=CUT), order=order, batch_size=32
    ).apply(tfquiver.distribute(cluster.dispatcher.address))
    digest = sampled.only_digest(cluster.coordinator.address)
    assert sampled.counted(numbered.read(made)) == sampled.expected(digest, order)


def test_weights_of_files_are_those_of_the_array(cluster: Cluster, paths: list[Path], tmp_path: Path) -> None:
    np.save(tmp_path / "w.npy", WEIGHTS.astype(np.float64))
    WEIGHTS.tofile(tmp_path / "w.f32")
    read(cluster, paths, "files")
    digest = sampled.only_digest(cluster.coordinator.address)
    (tmp_path / "w.tfqw").write_bytes(record_weights(digest.content_root, WEIGHTS).to_bytes())
    wanted = sampled.expected(digest, ORDERS["replacement"])
    for name in ("w.npy", "w.f32", "w.tfqw"):
        made = read(cluster, paths, tfquiver.Weighted(str(tmp_path / name)), batch_size=64)
        assert sampled.counted(numbered.read(made)) == wanted, name


def test_wrong_weights_are_told_when_the_data_set_is_made(cluster: Cluster, paths: list[Path], tmp_path: Path) -> None:
    read(cluster, paths, "files")
    (tmp_path / "of_others.tfqw").write_bytes(record_weights(b"r" * 32, WEIGHTS).to_bytes())
    for order, what in (
        (tfquiver.Weighted(WEIGHTS[1:]), f"weights: {TOTAL - 1} weights; data set .* has {TOTAL} records"),
        (tfquiver.Weighted(tmp_path / "of_others.tfqw"), "of_others.tfqw.: weights of other data than data set"),
        (
            tfquiver.Weighted(WEIGHTS, replacement=False),
            f"epoch_share=1: {TOTAL} records without replacement; {TOTAL * 9 // 10} have weights above 0",
        ),
    ):
        with pytest.raises(errors.InvalidArgumentError, match=what):
            read(cluster, paths, order)


def test_picks_that_do_not_fit_one_frame_come_in_parts(cluster: Cluster, tmp_path: Path) -> None:
    small = numbered.write(tmp_path / "small", 1, 100_000, 8)
    order = tfquiver.Weighted(0.5 + np.arange(100_000) % 2 / 2, copies=8)
    made = tfquiver.dataset(
        small, service=cluster.coordinator.address, cache_dir=cluster.cache_dir, order=order, batch_size=1000
    )
    digest = sampled.only_digest(cluster.coordinator.address, 100_000)
    assert digest.records.max() > 60_000  # so many bytes of picks, too; a frame takes no more
    assert sampled.counted(numbered.read(made)) == sampled.expected(digest, order)


def test_who_reads_far_more_than_comes_out_is_told(
    cluster: Cluster, paths: list[Path], caplog: pytest.LogCaptureFixture
) -> None:
    one_in_many = np.where(np.arange(TOTAL) % 15 == 0, 100.0, 1.0)
    read(cluster, paths, tfquiver.Weighted(one_in_many))
    assert re.search(r"an epoch reads 1\d records for each that it gives.*copies= reads fewer", caplog.text)
    caplog.clear()
    read(cluster, paths, tfquiver.Weighted(one_in_many, copies=16))
    assert "an epoch reads" not in caplog.text
