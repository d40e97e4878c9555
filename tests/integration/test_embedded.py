"""One machine: `tfquiver.dataset(..., cache_dir=...)` is an ordinary tf.data source over a daemon that all share."""

from __future__ import annotations

import functools
import gc
import json
import os
import shutil
import signal
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc
import numpy as np
import psutil
import pytest
import tensorflow as tf

import tfquiver
from tests.support import numbered, warm
from tests.support.cluster import wait_until
from tests.support.log_lines import capture_log
from tfquiver import CutPolicy, errors
from tfquiver import keras as keras_backup
from tfquiver.data_sources_found_and_registered import registration
from tfquiver.node_daemon_and_cache_directory import daemon as local
from tfquiver.node_daemon_and_cache_directory import endpoints
from tfquiver.proto.tfquiver.v1 import node_pb2, node_pb2_grpc

FILES, RECORDS, RECORD_BYTES = 4, 500, 2000
TOTAL = FILES * RECORDS
CUT = CutPolicy(20_000, 50_000, 100_000)
SMALL_SHARDS = tfquiver.FirstUse(cut=CUT)
paths = numbered.fixture(FILES, RECORDS, RECORD_BYTES)


class _NoOp:
    def set_endpoint(self, name: str, socket_path: str) -> None: ...


def _pid(cache_dir: Path) -> int:
    return int(json.loads((cache_dir / "node.json").read_text())["pid"])


def _end_daemon(cache_dir: Path) -> None:
    endpoints.close_all()
    if (cache_dir / "node.json").exists() and psutil.pid_exists(pid := _pid(cache_dir)):
        daemon = psutil.Process(pid)
        daemon.terminate()
        daemon.wait(60)


@pytest.fixture(scope="module")
def shared_dir(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    cache_dir = tmp_path_factory.mktemp("shared") / "cache"
    stays = functools.partial(local.find_or_start, cache_dir, 1 << 30, idle_exit_s=600)  # also where tests are slow
    endpoints.acquire("module", stays, _NoOp())
    yield cache_dir
    _end_daemon(cache_dir)


@pytest.fixture
def cache_dir(tmp_path: Path) -> Iterator[Path]:
    yield tmp_path / "cache"
    _end_daemon(tmp_path / "cache")


def status(cache_dir: Path) -> node_pb2.StatusReply:
    endpoint = local.find(cache_dir)
    assert endpoint is not None
    with grpc.insecure_channel(endpoint.control) as channel:
        return node_pb2_grpc.NodeStub(channel).Status(node_pb2.StatusRequest(), timeout=10)


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


_READER = """
import sys
import tfquiver
from tests.support import numbered
read = tfquiver.dataset(sys.argv[2], cache_dir=sys.argv[1])
for _ in range(2):
    numbered.assert_each_once(numbered.read(read), int(sys.argv[3]))
print("each once")
"""


def test_two_processes_share_one_daemon_and_each_byte_is_read_once(cache_dir: Path, tmp_path: Path) -> None:
    paths = numbered.write(tmp_path / "data", 4, 1000, 4000)
    pattern = str(tmp_path / "data" / "part-*")
    command = [sys.executable, "-c", _READER, str(cache_dir), pattern, "4000"]
    readers = [warm.Popen(command, warm_kind="tensorflow", stdout=subprocess.PIPE, text=True) for _ in range(2)]
    try:
        said = [reader.communicate(timeout=90)[0] for reader in readers]
    finally:
        for reader in readers:
            reader.kill()
            reader.wait()
    assert said == ["each once\n"] * 2
    size = sum(path.stat().st_size for path in paths)
    reply = status(cache_dir)
    assert reply.store_bytes <= 1.02 * size, (reply.store_bytes, size)
    assert reply.served_bytes >= 4 * size


def test_a_killed_daemon_is_started_again(cache_dir: Path, paths: list[Path]) -> None:
    read = tfquiver.dataset(paths, cache_dir=cache_dir, first_use=SMALL_SHARDS)
    numbered.assert_each_once(numbered.read(read), TOTAL)
    first = _pid(cache_dir)
    os.kill(first, signal.SIGKILL)
    # An epoch that begins at once waits for the new daemon; nothing in the graph changed.
    numbered.assert_each_once(numbered.read(read), TOTAL)
    assert _pid(cache_dir) != first


def test_a_daemon_killed_in_an_epoch_loses_nothing(cache_dir: Path, paths: list[Path]) -> None:
    read = tfquiver.dataset(
        paths,
        cache_dir=cache_dir,
        first_use=SMALL_SHARDS,
        order=tfquiver.Shuffled(shuffle_bytes=0),
        reading=tfquiver.Reading(readahead_bytes="64KiB", hold_back=0),
    )
    reader = numbered.EpochReader(read.batch(20), step_s=0.01)
    reader.reached(200)
    os.kill(_pid(cache_dir), signal.SIGKILL)
    lost, duplicates = numbered.lost_and_duplicates(reader.result(), TOTAL)
    assert lost == 0
    assert duplicates <= 200


def test_a_kept_daemon_stays_and_a_released_one_leaves(cache_dir: Path) -> None:
    def locate() -> local.NodeEndpoint:
        return local.find_or_start(cache_dir, 1 << 20, idle_exit_s=1)

    endpoints.acquire("kept", locate, _NoOp())
    daemon = psutil.Process(_pid(cache_dir))
    with pytest.raises(psutil.TimeoutExpired):
        daemon.wait(3)
    endpoints.acquire("kept", locate, _NoOp())
    endpoints.release("kept")
    assert daemon.is_running()
    endpoints.release("kept")
    daemon.wait(60)


def test_a_data_set_keeps_its_daemon_until_it_is_forgotten(cache_dir: Path, paths: list[Path]) -> None:
    name = endpoints.name_of(cache_dir)
    derived = tfquiver.dataset(paths, cache_dir=cache_dir, first_use=SMALL_SHARDS).map(lambda record: record).batch(2)
    assert name in endpoints._kept
    iterator = iter(derived)
    del derived
    assert name in endpoints._kept
    del iterator
    wait_until(lambda: name not in endpoints._kept, "the release of the daemon")


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


def test_a_data_set_made_in_a_tf_function_keeps_its_daemon(cache_dir: Path, paths: list[Path]) -> None:
    @tf.function
    def count() -> tf.Tensor:
        read = tfquiver.dataset(paths, cache_dir=cache_dir, first_use=SMALL_SHARDS, batch_size=100)
        return read.reduce(tf.constant(0, tf.int64), lambda total, _: total + 1)

    assert int(count()) == TOTAL // 100
    gc.collect()
    assert endpoints.name_of(cache_dir) in endpoints._kept
    assert int(count()) == TOTAL // 100
    del count
    gc.collect()
    wait_until(lambda: endpoints.name_of(cache_dir) not in endpoints._kept, "the release of the daemon")


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


def test_a_cache_dir_is_made_for_its_user_alone_and_one_that_exists_is_kept_as_it_is(tmp_path: Path) -> None:
    mine = tmp_path / "above" / "mine"
    try:
        local.find_or_start(mine, 1 << 20, idle_exit_s=1)
        assert stat.S_IMODE(mine.stat().st_mode) == 0o700
    finally:
        _end_daemon(mine)


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
