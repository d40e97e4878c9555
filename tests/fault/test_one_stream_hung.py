"""The node of a stream hangs, or its disk: whoever follows ends with a typed error, or goes on where it was."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import tensorflow as tf

import tfquiver
from tests.support import numbered
from tests.support.daemons import daemons
from tfquiver import errors
from tfquiver.node_daemon_and_notes_in_directories import endpoints
from tfquiver.tensorflow_client.shared_batches import following, line

FILES, RECORDS, RECORD_BYTES = 3, 600, 2000
TOTAL = FILES * RECORDS
SILENT_S, AWAY_S = 1.0, 2.0
HELLO_S = 1.0
SOON_S = 15.0
paths = numbered.fixture(FILES, RECORDS, RECORD_BYTES)
Batches = Iterator[Any]


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (line, following):
        monkeypatch.setattr(module, "SILENT_S", SILENT_S)
        monkeypatch.setattr(module, "PING_S", SILENT_S / 4)
        monkeypatch.setattr(module, "HELLO_S", HELLO_S)


@pytest.fixture
def cache_dir(tmp_path: Path) -> Iterator[Path]:
    directory = tmp_path / "cache"
    yield directory
    for node in daemons(directory):
        node.resume()
        node.kill()
    endpoints.close_all()


def source(paths: list[Path], cache_dir: Path) -> tf.data.Dataset:
    return tfquiver.dataset(
        paths, cache_dir=cache_dir, order=tfquiver.Deterministic(7, shuffle_bytes=20_000),
        first_use=tfquiver.FirstUse(cut=tfquiver.CutPolicy(20_000, 50_000, 100_000)),
        reading=tfquiver.Reading(readahead_bytes=50_000),
        connection=tfquiver.Connection(reconnect_timeout_s=AWAY_S),
    )  # fmt: skip


def stop(cache_dir: Path) -> Any:
    (node,) = daemons(cache_dir)
    node.suspend()
    return node


def ended(batches: Batches, within_s: float = SOON_S) -> BaseException | None:
    """What it ended with; fails when it does not end."""
    raised: list[BaseException | None] = []

    def rest() -> None:
        try:
            for _ in batches:
                pass
            raised.append(None)
        except BaseException as error:  # noqa: BLE001
            raised.append(error)

    thread = threading.Thread(target=rest, daemon=True)
    thread.start()
    thread.join(within_s)
    assert raised, f"it waits still, after {within_s:g} s"
    return raised[0]


def test_who_waits_for_a_node_that_hangs_is_told_so(paths: list[Path], cache_dir: Path) -> None:
    batches = iter(source(paths, cache_dir).batch(16).apply(tfquiver.one_stream("s")))
    next(batches)
    stop(cache_dir)
    error = ended(batches)
    assert isinstance(error, errors.UnavailableError) and str(error).startswith("stream 's'"), error


def test_who_makes_its_own_batches_is_told_so(paths: list[Path], cache_dir: Path) -> None:
    """It has fallen behind, and its pipeline waits: for records, or, here, for whatever else."""
    stopped = threading.Event()
    slow = threading.Event()

    def held(number: Any) -> Any:
        if slow.is_set():
            stopped.wait()
        return number

    def parse(record: Any) -> Any:
        return tf.ensure_shape(tf.numpy_function(held, [tf.strings.length(record)], tf.int32), []), record

    tiny = tfquiver.one_stream("s", window_bytes=1 << 18, spill_bytes=0)
    data = source(paths, cache_dir).map(parse).batch(16)
    behind, ahead = iter(data.apply(tiny)), data.apply(tiny)
    next(behind)
    for _ in ahead:
        pass
    slow.set()
    ends = threading.Timer(SILENT_S, stop, [cache_dir])
    ends.start()
    try:
        error = ended(behind)
    finally:
        stopped.set()
        ends.join()
    assert isinstance(error, errors.UnavailableError) and "the node is away" in str(error), error


def test_a_node_that_hangs_for_a_while_costs_no_batch(paths: list[Path], cache_dir: Path) -> None:
    batches = iter(source(paths, cache_dir).batch(16).apply(tfquiver.one_stream("s")))
    first = next(batches)
    node = stop(cache_dir)
    goes_on = threading.Timer(SILENT_S + AWAY_S / 2, node.resume)
    goes_on.start()
    numbers = [int.from_bytes(record[:8], "little") for batch in [first, *batches] for record in batch.numpy()]
    goes_on.join()
    assert sorted(numbers) == list(range(TOTAL))


def test_a_disk_that_hangs_is_said(paths: list[Path], cache_dir: Path) -> None:
    """Whoever opens a named pipe that nobody writes waits, as for a disk that is gone."""
    batches = iter(source(paths, cache_dir).batch(16).apply(tfquiver.one_stream("s")))
    next(batches)
    entries = [path for path in (cache_dir / "objects").rglob("*") if path.is_file()]
    assert len(entries) > 20
    for path in entries:
        path.unlink()
        os.mkfifo(path)
    began = time.monotonic()
    error = ended(batches, 60.0)
    assert isinstance(error, errors.UnavailableError) and "waited for its disk" in str(error), error
    assert time.monotonic() - began < 30.0


def test_a_forked_child_does_not_keep_its_parents_place(paths: list[Path], cache_dir: Path) -> None:
    """The parent's connection would be there as long as the child: killed, it would be waited for."""
    batches = iter(source(paths, cache_dir).batch(16).apply(tfquiver.one_stream("s")))
    next(batches)
    sockets = [one._socket for one in list(line._open)] + [kept._connection for kept, _ in endpoints._kept.values()]
    inodes = {_inode(one.fileno()) for one in sockets}
    assert len(inodes) == 3, "it follows, makes, and keeps the node in use"
    readable, writable = os.pipe()
    if (child := os.fork()) == 0:
        has = [fd for fd in Path("/proc/self/fd").iterdir() if _inode(int(fd.name)) in inodes]
        os.write(writable, b"kept" if has else b"let go")
        os._exit(0)
    os.waitpid(child, 0)
    assert os.read(readable, 10) == b"let go"
    os.close(readable)
    os.close(writable)
    assert ended(batches) is None, "the parent's is as it was"


def _inode(fd: int) -> int:
    try:
        return os.fstat(fd).st_ino
    except OSError:
        return -1
