"""One machine: the daemon of a cache directory, shared by all who read there; killed, kept, let go."""

from __future__ import annotations

import gc
import os
import signal
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
import tensorflow as tf

import tfquiver
from tests.support import embedded, numbered, warm
from tests.support.cluster import wait_until
from tfquiver import CutPolicy
from tfquiver.node_daemon_and_notes_in_directories import daemon as local
from tfquiver.node_daemon_and_notes_in_directories import endpoints

FILES, RECORDS, RECORD_BYTES = 4, 500, 2000
TOTAL = FILES * RECORDS
SMALL_SHARDS = tfquiver.FirstUse(cut=CutPolicy(20_000, 50_000, 100_000))
paths = numbered.fixture(FILES, RECORDS, RECORD_BYTES)


@pytest.fixture
def cache_dir(tmp_path: Path) -> Iterator[Path]:
    yield tmp_path / "cache"
    embedded.end_daemon(tmp_path / "cache")


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
    reply = embedded.status(cache_dir)
    assert reply.store_bytes <= 1.02 * size, (reply.store_bytes, size)
    assert reply.served_bytes >= 4 * size


def test_a_killed_daemon_is_started_again(cache_dir: Path, paths: list[Path]) -> None:
    read = tfquiver.dataset(paths, cache_dir=cache_dir, first_use=SMALL_SHARDS)
    numbered.assert_each_once(numbered.read(read), TOTAL)
    first = embedded.pid(cache_dir)
    os.kill(first, signal.SIGKILL)
    # An epoch that begins at once waits for the new daemon; nothing in the graph changed.
    numbered.assert_each_once(numbered.read(read), TOTAL)
    assert embedded.pid(cache_dir) != first


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
    os.kill(embedded.pid(cache_dir), signal.SIGKILL)
    lost, duplicates = numbered.lost_and_duplicates(reader.result(), TOTAL)
    assert lost == 0
    assert duplicates <= 200


def test_a_data_set_whose_cache_dir_was_deleted_says_how_it_is_made_known_again(
    cache_dir: Path, paths: list[Path]
) -> None:
    read = tfquiver.dataset(paths, cache_dir=cache_dir, first_use=SMALL_SHARDS)
    numbered.assert_each_once(numbered.read(read), TOTAL)
    cache_dir.rename(cache_dir.with_name("gone"))  # at once, under the node, which leaves when it sees that
    says = r"is registered; where .* tfquiver\.dataset\(\.\.\.\) makes it known"
    with pytest.raises(tf.errors.NotFoundError, match=says):
        numbered.read(read)
    again = tfquiver.dataset(paths, cache_dir=cache_dir, first_use=SMALL_SHARDS)
    numbered.assert_each_once(numbered.read(again), TOTAL)


def test_a_kept_daemon_stays_and_a_released_one_leaves(cache_dir: Path) -> None:
    def locate() -> local.NodeEndpoint:
        return local.find_or_start(cache_dir, 1 << 20, idle_exit_s=1)

    endpoints.acquire("kept", locate, embedded.NoOp())
    daemon = psutil.Process(embedded.pid(cache_dir))
    with pytest.raises(psutil.TimeoutExpired):
        daemon.wait(3)
    endpoints.acquire("kept", locate, embedded.NoOp())
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


def test_a_cache_dir_is_made_for_its_user_alone_and_one_that_exists_is_kept_as_it_is(tmp_path: Path) -> None:
    mine = tmp_path / "above" / "mine"
    try:
        local.find_or_start(mine, 1 << 20, idle_exit_s=1)
        assert stat.S_IMODE(mine.stat().st_mode) == 0o700
    finally:
        embedded.end_daemon(mine)
