"""Damage, loss, garbage and silence on the reader socket: a typed error or a repair, never a hang or wrong data."""

from __future__ import annotations

import contextlib
import itertools
import resource
import socket
import struct
import threading
import time
from collections import Counter
from pathlib import Path

import pytest
import tensorflow as tf
from tensorflow.python.eager import cancellation

from tests.ops.conftest import MakeNode, numbered
from tests.support.op_source import OpSource, drop_iterators, records_of
from tests.support.reader_wire import ERROR, OPENED, SHARD, frame, text
from tests.support.scripted_node import Connection, ScriptedNode
from tfquiver.ops.compiling_and_loading import loader

SHARDS = numbered(20, 50)
ALL = Counter(itertools.chain(*SHARDS))


def error(code: int, fatal: bool, message: str) -> bytes:
    return frame(ERROR, struct.pack("<HB", code, fatal) + text(message))


@pytest.mark.parametrize("change", [{"crc32c": 1}, {"records": 49}, {"length": 100}, {"offset": 1 << 40}], ids=str)
def test_a_damaged_shard_is_asked_for_again(make_node: MakeNode, change: dict[str, int]) -> None:
    node = make_node(SHARDS)
    damaged = {3, 11}

    def on_shard(connection: Connection, shard: int) -> bool:
        if shard not in damaged:
            return False
        damaged.remove(shard)
        connection.send_shard(shard, **change)
        return True

    node.on_shard = on_shard
    assert Counter(records_of(OpSource())) == ALL
    assert sorted(node.bad) == [3, 11]


def test_a_shard_without_descriptor_is_asked_for_again(make_node: MakeNode) -> None:
    node = make_node(SHARDS)
    first = [True]

    def on_shard(connection: Connection, shard: int) -> bool:
        if shard != 5 or not first:
            return False
        first.pop()
        connection.send(frame(SHARD, struct.pack("<IBQQII24x", 5, 0, 0, 10, 0, 1)))
        return True

    node.on_shard = on_shard
    assert Counter(records_of(OpSource())) == ALL
    assert node.bad == [5]


def test_a_shard_that_stays_damaged_is_an_error_that_names_it(make_node: MakeNode) -> None:
    node = make_node(SHARDS)

    def on_shard(connection: Connection, shard: int) -> bool:
        if shard == 7:
            connection.send_shard(shard, crc32c=1)
        return shard == 7

    node.on_shard = on_shard
    with pytest.raises(tf.errors.DataLossError, match=r"shard 7 .*checksum is wrong"):
        records_of(OpSource())


@pytest.mark.parametrize("garbage", [
    b"x", bytes(8), bytes(60_000), frame(99), frame(SHARD, b"short"), frame(SHARD, bytes(29) + b"long"),
    frame(OPENED, text("s") + bytes(24)), struct.pack("<HBBI", 0x5154, 2, 10, 0),
    frame(SHARD, struct.pack("<IBQQII24x", 20, 0, 0, 10, 0, 1)),
], ids=range(9))  # fmt: skip
def test_garbage_ends_the_iterator_and_nothing_else(make_node: MakeNode, garbage: bytes) -> None:
    node = make_node(SHARDS)

    def on_shard(connection: Connection, shard: int) -> bool:
        if shard == 2:
            connection.send(garbage)
        return shard == 2

    node.on_shard = on_shard
    with pytest.raises(tf.errors.AbortedError, match="tfquiver"):
        records_of(OpSource())
    node.on_shard = None
    assert Counter(records_of(OpSource())) == ALL


@pytest.mark.parametrize("place", [
    {}, {"block_records": 50, "block_shards": 0}, {"block_records": 0xFFFFFFFF, "block_shards": 1},
    {"block_records": 50, "block_shards": 1, "position": 1 << 40}, {"block_records": 49, "block_shards": 1},
], ids=str)  # fmt: skip
def test_a_block_that_cannot_be_ends_the_iterator(make_node: MakeNode, place: dict[str, int]) -> None:
    """A session that is deterministic has blocks throughout, and none is larger than what it is of."""
    node = make_node(SHARDS)
    whole = {"block_records": 50, "block_shards": 1}
    node.place = lambda _, shard: whole | {"position": 50 * shard} if shard == 0 else place
    with pytest.raises(tf.errors.AbortedError, match="broke the protocol: shard 1 "):
        records_of(OpSource(deterministic=True, seed=1))


@pytest.mark.parametrize("options", [{}, {"homogeneous": True}], ids=str)
def test_a_block_in_a_session_without_blocks_ends_the_iterator(make_node: MakeNode, options: dict[str, object]) -> None:
    node = make_node(SHARDS)
    node.place = lambda _, shard: {"block_records": 50, "block_shards": 1}
    with pytest.raises(tf.errors.AbortedError, match="in a session that has none"):
        records_of(OpSource(**options))


def test_a_length_that_nobody_has_memory_for_is_an_error(make_node: MakeNode, tmp_path: Path) -> None:
    node = make_node(SHARDS)
    sparse = (tmp_path / "sparse").open("w+b")
    sparse.truncate(1 << 43)

    def on_shard(connection: Connection, shard: int) -> bool:
        if shard == 2:
            connection.send(frame(SHARD, struct.pack("<IBQQII24x", 2, 0, 0, 1 << 42, 0, 50)), [sparse.fileno()])
        return shard == 2

    node.on_shard = on_shard
    with sparse, pytest.raises(tf.errors.AbortedError, match="shard 2 has 4398046511104 bytes"):
        records_of(OpSource())


@pytest.mark.parametrize(("code", "kind"), [
    (9, tf.errors.FailedPreconditionError), (15, tf.errors.DataLossError), (5, tf.errors.NotFoundError),
    (7, tf.errors.PermissionDeniedError), (999, tf.errors.UnknownError),
])  # fmt: skip
def test_a_fatal_error_ends_the_iterator_with_its_type(make_node: MakeNode, code: int, kind: type[Exception]) -> None:
    node = make_node(SHARDS)

    def on_shard(connection: Connection, shard: int) -> bool:
        if shard == 4:
            connection.send(error(code, True, "gs://bucket/name is not what it was"))
        return shard == 4

    node.on_shard = on_shard
    with pytest.raises(kind, match="gs://bucket/name is not what it was"):
        records_of(OpSource())


def test_trouble_that_is_not_fatal_is_logged(make_node: MakeNode, capfd: pytest.CaptureFixture[str]) -> None:
    node = make_node(SHARDS)

    def on_shard(connection: Connection, shard: int) -> bool:
        if shard == 4:
            connection.send(error(14, False, "the store is slow today"))
        return False

    node.on_shard = on_shard
    assert Counter(records_of(OpSource())) == ALL
    assert "the store is slow today" in capfd.readouterr().err


@pytest.mark.parametrize("hold_back", [0, 5])
@pytest.mark.parametrize("batch_size", [0, 7])
def test_a_node_that_goes_away_and_comes_back(make_node: MakeNode, batch_size: int, hold_back: int) -> None:
    """As a kill -9 and a restart: no record lost, none twice, and the shards in hand are not sent again."""
    node = make_node(SHARDS)
    iterator = OpSource(batch_size=batch_size, hold_back=hold_back, shuffle_bytes=6000).as_numpy_iterator()
    found: list[bytes] = []

    def read(elements: int) -> None:
        for element in itertools.islice(iterator, elements):
            found.extend([element] if isinstance(element, bytes) else element)

    for _ in range(3):
        read(30)
        before = len(node.opens)
        node.hang_up()
        read(3)  # from the pool
        node.listen()
        node.wait_for(lambda before=before: len(node.opens) > before)
    read(1000)
    assert Counter(found) == ALL
    assert len({opened.reader_id for opened in node.opens}) == 1
    assert {opened.session_id for opened in node.opens[1:]} == {"s0"}
    assert node.opens[1].held


def test_shards_that_the_session_gave_away_are_not_emitted(make_node: MakeNode) -> None:
    node = make_node(numbered(4, 50))
    node.serving = True
    iterator = OpSource(shuffle_bytes=0).as_numpy_iterator()
    found = [next(iterator)]
    node.wait_for(lambda: len(node.sessions["s0"].leased) == 4)
    node.hang_up()
    session = node.sessions["s0"]
    with node.changed:
        session.leased = {0: session.leased[0]}
        session.acked = {1, 2, 3}
    node.listen()
    node.wait_for(lambda: len(node.opens) == 2)
    found += itertools.islice(iterator, 49)
    assert {record.split(b".")[0] for record in found} == {b"0"}
    node.wait_for(lambda: 0 in session.acked)  # acks are sent after what the node answered has been read
    found += list(iterator)
    assert Counter(found)[b"0.0"] == 1 and len(found) <= 100  # at most the shard being emitted was still given


def test_a_node_that_stays_away_is_unavailable_in_time(make_node: MakeNode) -> None:
    node = make_node(SHARDS)
    node.serving = False
    iterator = OpSource(reconnect_ms=300).as_numpy_iterator()
    threading.Thread(target=lambda: (node.wait_for(lambda: bool(node.opens)), node.hang_up())).start()
    began = time.monotonic()
    with pytest.raises(tf.errors.UnavailableError, match=str(node.path)):
        next(iterator)
    assert time.monotonic() - began < 10


def test_errors_that_are_passed_over_do_not_go_on_for_ever(make_node: MakeNode) -> None:
    """What failed stays failed, and `ignore_errors` asks again after every error but CANCELLED."""
    node = make_node(SHARDS)

    def on_shard(connection: Connection, shard: int) -> bool:
        if shard == 4:
            connection.send(error(9, True, "gs://bucket/name is not what it was"))
        return shard == 4

    node.on_shard = on_shard
    with pytest.raises(tf.errors.CancelledError, match="gs://bucket/name is not what it was"):
        records_of(OpSource().ignore_errors().prefetch(2))
    drop_iterators()


def test_an_iterator_that_passes_errors_over_can_be_destroyed(make_node: MakeNode) -> None:
    node = make_node(SHARDS)
    iterator = blocked_iterator(node, OpSource(reconnect_ms=100).ignore_errors().prefetch(2))
    node.hang_up()
    node.wait_for(lambda: all(c.gone for c in node.connections))
    began = time.monotonic()
    del iterator
    drop_iterators()
    assert time.monotonic() - began < 10


def test_without_descriptors_there_is_an_error_and_nobody_who_cannot_be_woken(make_node: MakeNode) -> None:
    make_node(SHARDS)
    iterator = OpSource().as_numpy_iterator()
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (0, hard))
    try:
        with pytest.raises(tf.errors.ResourceExhaustedError, match="no event descriptor"):
            next(iterator)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_nobody_there(tmp_path: Path) -> None:
    loader.load().set_endpoint("", str(tmp_path / "nobody"))
    with pytest.raises(tf.errors.UnavailableError, match=r"nobody: No such file.*is tfquiver-node running"):
        records_of(OpSource(connect_ms=200))


def test_a_workers_reader_waits_for_a_node_that_is_starting_again(make_node: MakeNode, tmp_path: Path) -> None:
    """As long as for one that goes away later: the worker itself ends when it stays away."""
    library = loader.load()
    library.set_endpoint("", str(tmp_path / "socket"))
    library.set_label("worker:1")
    starting = threading.Timer(1.0, make_node, [SHARDS])
    starting.start()
    try:
        assert Counter(records_of(OpSource(connect_ms=100, reconnect_ms=20_000))) == ALL
    finally:
        starting.join()
        library.set_label("")


def test_a_node_that_accepts_and_says_nothing(make_node: MakeNode) -> None:
    node = make_node(SHARDS)
    node.on_open = lambda connection: True
    with pytest.raises(tf.errors.UnavailableError, match="does not answer in time"):
        records_of(OpSource(connect_ms=300, reconnect_ms=300))


def test_named_endpoints(make_node: MakeNode, tmp_path: Path) -> None:
    node = make_node(SHARDS)
    loader.load().set_endpoint("here", str(node.path))
    loader.load().set_endpoint("", str(tmp_path / "nobody"))
    assert Counter(records_of(OpSource(endpoint="here"))) == ALL
    loader.load().set_endpoint("", str(node.path))
    assert Counter(records_of(OpSource(endpoint="elsewhere"))) == ALL


def test_a_node_is_read_while_the_connection_to_it_is_kept_or_when_none_is(make_node: MakeNode) -> None:
    """What listens where a node was may be another one, which this process has told nothing."""
    node, library = make_node(SHARDS), loader.load()
    kept, its_end = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with kept:
        library.set_endpoint("kept", str(node.path), kept.fileno())
        assert Counter(records_of(OpSource(endpoint="kept"))) == ALL
        its_end.close()
        with pytest.raises(tf.errors.UnavailableError, match="was started again, and this process has not told it yet"):
            records_of(OpSource(endpoint="kept", connect_ms=200, reconnect_ms=300))
        telling = threading.Timer(0.5, library.set_endpoint, ["kept", str(node.path)])
        telling.start()
        assert Counter(records_of(OpSource(endpoint="kept"))) == ALL
        telling.join()


def blocked_iterator(node: ScriptedNode, dataset: tf.data.Dataset) -> object:
    """An iterator whose background thread waits in the op for a node that sends nothing."""
    node.serving = False
    options = tf.data.Options()
    options.experimental_warm_start = True
    iterator = iter(dataset.with_options(options))
    node.wait_for(lambda: bool(node.opens))
    return iterator


@pytest.mark.parametrize("transformation", ["prefetch", "map", "interleave"])
def test_deleting_an_iterator_that_waits(make_node: MakeNode, transformation: str) -> None:
    node = make_node(SHARDS)
    dataset = OpSource()
    if transformation == "map":
        dataset = dataset.map(lambda record: record, num_parallel_calls=2)
    if transformation == "interleave":
        source = dataset
        dataset = tf.data.Dataset.range(2).interleave(lambda _: source, cycle_length=2, num_parallel_calls=2)
    iterator = blocked_iterator(node, dataset.prefetch(2))
    began = time.monotonic()
    del iterator
    drop_iterators()
    assert time.monotonic() - began < 10
    node.wait_for(lambda: all(c.gone for c in node.connections))


def test_cancelling_a_function_that_waits(make_node: MakeNode) -> None:
    node = make_node(SHARDS)
    node.serving = False
    iterator = iter(OpSource())
    manager = cancellation.CancellationManager()
    take = manager.get_cancelable_function(tf.function(lambda: next(iterator)).get_concrete_function())
    canceller = threading.Thread(target=lambda: (node.wait_for(lambda: bool(node.opens)), manager.start_cancel()))
    canceller.start()
    with pytest.raises(tf.errors.CancelledError):
        take()
    canceller.join()


def test_stop_all_ends_waits_and_resume_all_undoes_it(make_node: MakeNode) -> None:
    node = make_node(SHARDS)
    node.serving = False
    iterator = OpSource().as_numpy_iterator()
    library = loader.load()
    stopper = threading.Thread(target=lambda: (node.wait_for(lambda: bool(node.opens)), library.stop_all()))
    stopper.start()
    try:
        with pytest.raises(tf.errors.CancelledError, match="stopped"):
            next(iterator)
        with pytest.raises(tf.errors.CancelledError, match="stopped"):
            records_of(OpSource())
    finally:
        stopper.join()
        library.resume_all()
    node.serving = True
    assert Counter(records_of(OpSource())) == ALL


def test_descriptors_are_closed(make_node: MakeNode) -> None:
    node = make_node(SHARDS, sealed=True)
    records_of(OpSource())
    records_of(OpSource().take(3))
    drop_iterators()
    node.wait_for(lambda: all(c.gone for c in node.connections))
    maps = Path("/proc/self/maps").read_text()
    assert "memfd:shard" not in maps
    for descriptor in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):
            assert "memfd:shard" not in str(descriptor.readlink())


def test_label_reaches_the_node(make_node: MakeNode) -> None:
    node = make_node(SHARDS)
    loader.load().set_label("worker:1")
    try:
        records_of(OpSource(job="j", seed=5, shuffle_bytes=100, readahead_bytes=50))
    finally:
        loader.load().set_label("")
    assert node.hellos == [(0, "worker:1")]
    assert (node.opens[0].job, node.opens[0].seed, node.opens[0].credit_bytes) == ("j", 5, 150)
    assert node.opens[0].session_key == "key" and node.opens[0].session_id == ""
