"""order="files" as users write it: labels of one pass and predictions of another belong together, as with TensorFlow's
own TFRecordDataset."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

import tfquiver
from tests.support import numbered, rotating
from tests.support.cluster import wait_until
from tests.support.daemons import end_daemons
from tests.support.op_source import drop_iterators
from tfquiver.node_daemon_and_notes_in_directories import daemon, endpoints

FILES, RECORDS, RECORD_BYTES = 4, 500, 2000
TOTAL = FILES * RECORDS
SMALL_SHARDS = tfquiver.FirstUse(cut=tfquiver.CutPolicy(5_000, 10_000, 20_000))
STORED = list(range(TOTAL))
CLASSES, FEATURES, BATCH = 3, 8, 64
paths = numbered.fixture(FILES, RECORDS, RECORD_BYTES)


@pytest.fixture
def cache_dir(tmp_path: Path) -> Iterator[Path]:
    yield tmp_path / "cache"
    drop_iterators()
    endpoints.close_all()
    end_daemons(tmp_path / "cache")


def numbers(dataset: tf.data.Dataset) -> list[int]:
    found: list[int] = numbered.read(dataset).tolist()
    drop_iterators()
    return found


def example(label: int, features: tf.Tensor) -> bytes:
    feature = {
        "label": tf.train.Feature(int64_list=tf.train.Int64List(value=[label])),
        "features": tf.train.Feature(float_list=tf.train.FloatList(value=features)),
    }
    made: bytes = tf.train.Example(features=tf.train.Features(feature=feature)).SerializeToString()
    return made


def parse(records: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    spec = {"label": tf.io.FixedLenFeature([], tf.int64), "features": tf.io.FixedLenFeature([FEATURES], tf.float32)}
    parsed = tf.io.parse_example(records, spec)
    return parsed["features"], parsed["label"]


def test_labels_and_predictions_agree_with_tensorflows_own_to_the_last_digit(tmp_path: Path, cache_dir: Path) -> None:
    rng = np.random.default_rng(4)
    centres = rng.normal(size=(CLASSES, FEATURES))
    (tmp_path / "data").mkdir()
    for part in range(3):
        with tf.io.TFRecordWriter(str(tmp_path / "data" / f"val-{part}")) as out:
            for _ in range(333):
                label = int(rng.integers(CLASSES))
                out.write(example(label, centres[label] + rng.normal(size=FEATURES)))
    files = str(tmp_path / "data" / "val-*")
    train = tfquiver.dataset(files, cache_dir=cache_dir, batch_size=BATCH).map(parse)
    ours = tfquiver.dataset(files, cache_dir=cache_dir, batch_size=BATCH, order="files").map(parse)
    stock = tf.data.TFRecordDataset(sorted(tf.io.gfile.glob(files))).batch(BATCH).map(parse)
    stock = stock.apply(
        tf.data.experimental.assert_cardinality(int(ours.cardinality()))
    )  # Keras warns where it has none

    tf.keras.utils.set_random_seed(1)
    model = tf.keras.Sequential([tf.keras.Input([FEATURES]), tf.keras.layers.Dense(CLASSES)])
    loss = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(optimizer=tf.keras.optimizers.SGD(0.1), loss=loss, metrics=["accuracy"])
    model.fit(train, epochs=3, verbose=0, shuffle=False)

    labels = np.concatenate([labels for _, labels in ours.as_numpy_iterator()])
    np.testing.assert_array_equal(labels, np.concatenate([labels for _, labels in stock.as_numpy_iterator()]))
    predicted = model.predict(ours, verbose=0)
    np.testing.assert_array_equal(predicted, model.predict(stock, verbose=0))
    assert model.evaluate(ours, verbose=0) == model.evaluate(stock, verbose=0)
    accuracy = np.mean(predicted.argmax(1) == labels)
    assert accuracy == pytest.approx(model.evaluate(stock, verbose=0)[1], abs=1e-6)
    assert accuracy > 0.6


def test_every_epoch_take_skip_and_shard_are_of_the_files(paths: list[Path], cache_dir: Path) -> None:
    read = tfquiver.dataset(paths, cache_dir=cache_dir, first_use=SMALL_SHARDS, order="files")
    assert int(read.cardinality()) == TOTAL
    assert numbers(read.repeat(2)) == STORED * 2
    assert numbers(read.take(700)) + numbers(read.skip(700)) == STORED
    assert [numbers(read.shard(2, part)) for part in range(2)] == [STORED[::2], STORED[1::2]]
    batches = tfquiver.dataset(
        paths, cache_dir=cache_dir, first_use=SMALL_SHARDS, order="files", batch_size=64, drop_remainder=True
    )
    assert numbers(batches) == STORED[: TOTAL // 64 * 64]


@pytest.mark.parametrize("cooperative", [False, True], ids=["what came first is kept", "cooperative"])
def test_a_data_set_larger_than_the_cache(paths: list[Path], cache_dir: Path, cooperative: bool) -> None:
    where = {"cache_dir": cache_dir, "quota": "1MB", "first_use": SMALL_SHARDS}  # of 4 MB
    shuffled = tfquiver.dataset(paths, **where)
    read = tfquiver.dataset(paths, **where, order="files")
    if cooperative:
        node = daemon.find(cache_dir)
        assert node is not None
        rotating.set_cache(node.coordinator, read._tfquiver_origin.registered, "cooperative")
    for _ in range(2):
        other = numbered.EpochReader(shuffled)  # draws from the chunks that are there, and moves them on
        assert numbers(read) == STORED
        numbered.assert_each_once(other.result(), TOTAL)


def test_a_run_that_stopped_goes_on_at_a_shard_that_it_had_not_delivered(paths: list[Path], cache_dir: Path) -> None:
    def made() -> tf.data.Dataset:
        return tfquiver.dataset(
            paths, cache_dir=cache_dir, first_use=SMALL_SHARDS, order="files", job="validating", resume=True,
            reading=tfquiver.Reading(readahead_bytes=50_000, hold_back=0),
        )  # fmt: skip

    stopped = made()
    assert numbers(stopped.take(700)) == STORED[:700]
    wait_until(lambda: bool(stopped._tfquiver_resumable.now().done_bitmap), "the news of what was delivered")
    rest = numbers(made())
    assert rest == STORED[-len(rest) :]
    assert TOTAL - 700 <= len(rest) < TOTAL
    assert numbers(made()) == STORED
