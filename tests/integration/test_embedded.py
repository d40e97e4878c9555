"""One machine: `tfquiver.dataset(..., cache_dir=...)` is an ordinary tf.data source over a daemon that all share."""

from __future__ import annotations

import functools
import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import tfquiver
from tests.support import embedded, numbered
from tests.support.log_lines import capture_log
from tfquiver import CutPolicy, errors
from tfquiver import keras as keras_backup
from tfquiver.data_sources_found_and_registered import registration
from tfquiver.node_daemon_and_notes_in_directories import daemon as local
from tfquiver.node_daemon_and_notes_in_directories import endpoints

FILES, RECORDS, RECORD_BYTES = 4, 500, 2000
TOTAL = FILES * RECORDS
CUT = CutPolicy(20_000, 50_000, 100_000)
SMALL_SHARDS = tfquiver.FirstUse(cut=CUT)
paths = numbered.fixture(FILES, RECORDS, RECORD_BYTES)


@pytest.fixture(scope="module")
def shared_dir(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    cache_dir = tmp_path_factory.mktemp("shared") / "cache"
    stays = functools.partial(local.find_or_start, cache_dir, 1 << 30, idle_exit_s=600)  # also where tests are slow
    endpoints.acquire("module", stays, embedded.NoOp())
    yield cache_dir
    embedded.end_daemon(cache_dir)


@pytest.fixture
def cache_dir(tmp_path: Path) -> Iterator[Path]:
    yield tmp_path / "cache"
    embedded.end_daemon(tmp_path / "cache")


@pytest.fixture
def source(paths: list[Path], shared_dir: Path) -> Any:
    def make(**arguments: Any) -> tf.data.Dataset:
        return tfquiver.dataset(paths, cache_dir=shared_dir, quota="1GiB", first_use=SMALL_SHARDS, **arguments)

    return make


def test_epochs(source: Any) -> None:
    read = source()
    assert read.element_spec == tf.TensorSpec([], tf.string)
    assert int(read.cardinality()) == TOTAL
    first, second = (numbered.read(read) for _ in range(2))
    numbered.assert_each_once(first, TOTAL)
    numbered.assert_each_once(second, TOTAL)
    assert not np.array_equal(first, second)
    assert not np.array_equal(first, np.sort(first))


def test_batches_in_the_source(source: Any) -> None:
    read = source(batch_size=64)
    assert read.element_spec == tf.TensorSpec([None], tf.string)
    assert int(read.cardinality()) == 32
    sizes = [len(batch) for batch in read.as_numpy_iterator()]
    assert sizes == [64] * 31 + [TOTAL - 31 * 64]
    numbered.assert_each_once(numbered.read(read), TOTAL)


def test_drop_remainder(source: Any) -> None:
    read = source(batch_size=64, drop_remainder=True)
    assert read.element_spec == tf.TensorSpec([64], tf.string)
    assert int(read.cardinality()) == 31
    seen = numbered.read(read)
    assert len(seen) == 31 * 64 == len(np.unique(seen))


def test_map_batch_prefetch(source: Any) -> None:
    read = source().map(lambda record: tf.strings.substr(record, 0, 8), num_parallel_calls=tf.data.AUTOTUNE)
    batches = list(read.batch(100).prefetch(2).as_numpy_iterator())
    numbered.assert_each_once(numbered.read(batches), TOTAL)


def test_repeat_and_take(source: Any) -> None:
    assert int(source().repeat(2).cardinality()) == 2 * TOTAL
    numbered.assert_each_once(numbered.read(source().repeat(2)), TOTAL, times=2)
    taken = numbered.read(source().take(10))
    assert len(taken) == 10 == len(np.unique(taken))


def test_zip_concatenate_interleave(source: Any) -> None:
    pairs = list(tf.data.Dataset.zip((source(), source())).as_numpy_iterator())
    for side in range(2):
        numbered.assert_each_once(numbered.read(pair[side] for pair in pairs), TOTAL)
    numbered.assert_each_once(numbered.read(source().concatenate(source())), TOTAL, times=2)
    read = source()
    interleaved = tf.data.Dataset.range(2).interleave(lambda _: read, cycle_length=2)
    numbered.assert_each_once(numbered.read(interleaved), TOTAL, times=2)


def test_model_fit(source: Any) -> None:
    def example(record: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        features = tf.cast(tf.io.decode_raw(tf.strings.substr(record, 8, 16), tf.uint8), tf.float32) / 255.0
        return features, tf.reduce_sum(features, keepdims=True)

    read = source().map(example).batch(100)
    model = tf.keras.Sequential([tf.keras.Input([16]), tf.keras.layers.Dense(1)])
    model.compile(optimizer=tf.keras.optimizers.SGD(0.01), loss="mse")
    history = model.fit(read, epochs=3, verbose=0, shuffle=False)
    assert history.history["loss"][-1] < history.history["loss"][0]


def test_inside_a_tf_function(source: Any) -> None:
    read = source()

    @tf.function
    def count() -> tf.Tensor:
        return read.reduce(tf.constant(0, tf.int64), lambda total, _: total + 1)

    assert int(count()) == TOTAL


def test_a_digest_file_is_a_source(source: Any, paths: list[Path], shared_dir: Path, tmp_path: Path) -> None:
    source()  # scanned
    (kept,) = (shared_dir / "digests").glob("*")
    path = tmp_path / "data.tfqd"
    path.write_bytes(kept.read_bytes())
    numbered.assert_each_once(numbered.read(tfquiver.dataset(path, cache_dir=shared_dir)), TOTAL)


def test_data_that_is_known_is_asked_for_without_grpc(
    paths: list[Path], shared_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make = functools.partial(tfquiver.dataset, paths, cache_dir=shared_dir, first_use=SMALL_SHARDS)
    make()
    monkeypatch.setattr(registration, "Registrar", None)
    numbered.assert_each_once(numbered.read(make()), TOTAL)


def test_a_damaged_digest_is_named(shared_dir: Path, tmp_path: Path, source: Any) -> None:
    source()
    (kept,) = (shared_dir / "digests").glob("*")
    path = tmp_path / "damaged.tfqd"
    path.write_bytes(kept.read_bytes()[:-1])
    with pytest.raises(errors.CorruptDigestError, match=r"damaged\.tfqd"):
        tfquiver.dataset(path, cache_dir=shared_dir)


def test_a_damaged_file_is_named(cache_dir: Path, tmp_path: Path) -> None:
    (path,) = numbered.write(tmp_path, 1, 20, 1000)
    with path.open("r+b") as file:
        file.seek(5 * 1016 + 500)
        file.write(b"\0\1\2\3")
    with pytest.raises(errors.DataLossError, match=r"part-000\.tfrecord.*5080"):
        tfquiver.dataset(path, cache_dir=cache_dir)


def test_an_empty_file_has_no_records(cache_dir: Path, tmp_path: Path) -> None:
    path = tmp_path / "empty.tfrecord"
    path.touch()
    read = tfquiver.dataset(path, cache_dir=cache_dir)
    assert int(read.cardinality()) == 0
    assert list(read.as_numpy_iterator()) == []


def test_a_changed_file_is_stale(cache_dir: Path, tmp_path: Path) -> None:
    (path,) = numbered.write(tmp_path, 1, 2000, 1000)
    read = tfquiver.dataset(path, cache_dir=cache_dir, first_use=SMALL_SHARDS, quota="300KiB")
    numbered.write(tmp_path, 1, 2001, 1000, seed=1)
    with pytest.raises(tf.errors.FailedPreconditionError, match=r"part-000\.tfrecord"):
        numbered.read(read)


def test_what_was_cached_stays_the_old_version_and_a_new_data_set_is_the_new_one(
    cache_dir: Path, tmp_path: Path
) -> None:
    (path,) = numbered.write(tmp_path, 1, 1000, 1000)
    old = tfquiver.dataset(path, cache_dir=cache_dir, first_use=SMALL_SHARDS, quota="1GiB")
    numbered.assert_each_once(numbered.read(old), 1000)
    numbered.write(tmp_path, 1, 1500, 1000, seed=1)
    new = tfquiver.dataset(path, cache_dir=cache_dir, first_use=SMALL_SHARDS)
    numbered.assert_each_once(numbered.read(new), 1500)
    numbered.assert_each_once(numbered.read(old), 1000)


def test_a_cache_dir_that_cannot_be_is_named(tmp_path: Path, paths: list[Path]) -> None:
    (tmp_path / "file").touch()
    for where in (tmp_path / "file", tmp_path / "file" / "below"):
        with pytest.raises(errors.TfquiverError, match=str(where)):
            tfquiver.dataset(paths, cache_dir=where)


def test_a_cluster_that_does_not_answer_is_named(paths: list[Path]) -> None:
    with pytest.raises(errors.UnavailableError, match="localhost:1"):
        tfquiver.dataset(paths, service="localhost:1", connection=tfquiver.Connection(connect_timeout_s=0.5))


def test_the_same_arguments_are_the_same_data_for_a_snapshot(source: Any, tmp_path: Path) -> None:
    for _ in range(2):
        kept = source(batch_size=100).snapshot(str(tmp_path / "kept"))
        numbered.assert_each_once(numbered.read(kept), TOTAL)
    assert len([path for path in (tmp_path / "kept").iterdir() if path.is_dir()]) == 1
    other = source(batch_size=50).snapshot(str(tmp_path / "kept"))
    numbered.assert_each_once(numbered.read(other), TOTAL)
    assert len([path for path in (tmp_path / "kept").iterdir() if path.is_dir()]) == 2


def test_autograph_leaves_our_code_alone() -> None:
    from tensorflow.python.autograph.impl import api

    for public in (tfquiver.dataset, tfquiver.distribute):
        assert api.is_autograph_artifact(public)


def test_a_tensor_as_source_is_told_what_to_do(cache_dir: Path, paths: list[Path]) -> None:
    names = tf.data.Dataset.from_tensor_slices([str(path) for path in paths])
    with pytest.raises(errors.InvalidArgumentError, match=r"In place of interleave\(\)"):
        names.interleave(lambda name: tfquiver.dataset(name, cache_dir=cache_dir))


def test_names_that_can_be_gone_through_once_or_in_no_order_are_all_read(shared_dir: Path, paths: list[Path]) -> None:
    """A first file was missing, and nothing said so."""
    named = tfquiver.FirstUse(name="once", cut=CUT)
    for names in ((f"file://{path}" for path in paths), paths[0].parent.glob("*"), set(paths), np.array(paths, str)):
        read = tfquiver.dataset(names, cache_dir=shared_dir, first_use=named)  # type: ignore[arg-type]
        assert int(read.cardinality()) == TOTAL, type(names)
    assert int(tfquiver.dataset(iter(paths), cache_dir=shared_dir, first_use=SMALL_SHARDS).cardinality()) == TOTAL  # type: ignore[call-overload]


def test_what_a_running_daemon_cannot_do_is_said(source: Any, paths: list[Path], shared_dir: Path) -> None:
    source()
    with capture_log() as said:
        tfquiver.dataset(
            paths, cache_dir=shared_dir, quota="2GiB", first_use=tfquiver.FirstUse(name="another", cut=CUT)
        )
    assert any("runs already, with 1.1 GB" in line for line in said)
    assert any("name='another': the data set has been known as 'part" in line for line in said)


@pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning")  # Keras, with TensorFlow's variables
def test_a_backup_of_named_data_leaves_other_data_alone(source: Any, tmp_path: Path) -> None:
    import keras

    train, validation = (source(batch_size=100, job=job, resume=True) for job in ("backup-train", "backup-valid"))
    model = keras.Sequential([keras.Input((1,)), keras.layers.Dense(1)])
    model.compile(loss="mse")

    def fed(data: tf.data.Dataset) -> tf.data.Dataset:
        zeros = data.map(lambda batch: (tf.zeros([tf.shape(batch)[0], 1]), tf.zeros([tf.shape(batch)[0], 1])))
        return keras_backup.known_length(zeros, TOTAL // 100)

    def kept(data: Any) -> set[str]:
        backup = keras_backup.BackupAndRestore(tmp_path / "backup", delete_checkpoint=False, data=data)
        model.fit(fed(train), validation_data=fed(validation), epochs=1, verbose=0, shuffle=False, callbacks=[backup])
        state = json.loads((tmp_path / "backup" / "state.json").read_text())
        shutil.rmtree(tmp_path / "backup")
        return {name.split("/")[0] for name in state["positions"]}

    assert kept(train.prefetch(1)) == {"backup-train"}
    assert kept([validation.prefetch(1), train.take(3)]) == {"backup-train", "backup-valid"}
    assert kept(None) == {"backup-train", "backup-valid"}
    for nothing in (tf.data.Dataset.range(3), [], source(batch_size=100)):
        with pytest.raises(errors.InvalidArgumentError, match="resume=True"):
            keras_backup.BackupAndRestore(tmp_path / "backup", data=nothing)
