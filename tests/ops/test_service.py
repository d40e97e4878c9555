"""The op in TensorFlow's own dispatcher and workers, with a scripted node: tickets, and one session for all workers."""

from __future__ import annotations

import contextlib
import itertools
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import tensorflow as tf
from tensorflow.python.eager import cancellation

from tests.ops.conftest import MakeNode, numbered
from tests.support import tf_service, warm
from tests.support.op_source import OpSource, records_of
from tests.support.reader_wire import ERROR, frame
from tests.support.scripted_node import await_ends_told
from tfquiver.ops.compiling_and_loading import loader

SHARDS = numbered(20, 50)
ALL = Counter(itertools.chain(*SHARDS))
_protocol = "grpc"


@pytest.fixture(params=tf_service.PROTOCOLS)
def protocol(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """By which elements leave workers."""
    monkeypatch.setattr(sys.modules[__name__], "_protocol", request.param)


by_each_protocol = pytest.mark.usefixtures("protocol")


@contextmanager
def service(workers: int, **dispatcher: object) -> Iterator[str]:
    config = tf.data.experimental.service.DispatcherConfig(**dispatcher)
    head = tf.data.experimental.service.DispatchServer(config)
    address = head.target.split("://")[1]
    hands = [tf_service.worker(address, _protocol) for _ in range(workers)]
    try:
        yield head.target
    finally:
        loader.load().stop_all()
        await_ends_told(2.0)
        tf_service.stop(*hands)
        head._stop()
        loader.load().resume_all()


def distributed(target: str, dataset: tf.data.Dataset) -> tf.data.Dataset:
    dynamic = tf.data.experimental.service.ShardingPolicy.DYNAMIC
    return tf_service.distributed(dataset, dynamic, target, _protocol)


@by_each_protocol
@pytest.mark.parametrize("options", [{}, {"batch_size": 8}, {"hold_back": 4}], ids=str)
def test_workers_share_an_epoch(make_node: MakeNode, options: dict[str, object]) -> None:
    node = make_node(SHARDS)
    with service(2) as target:
        dataset = distributed(target, OpSource(1000, **options))
        for _ in range(2):
            assert Counter(records_of(dataset)) == ALL
    assert len(node.sessions) == 2
    assert {ticket[0] for ticket in node.tickets} == {"key"}
    assert not any(ticket[3] for ticket in node.tickets)
    assert len({opened.reader_id for opened in node.opens}) == len(node.opens)


@by_each_protocol
def test_repeat_before_distribute_is_one_session_an_epoch(make_node: MakeNode) -> None:
    node = make_node(SHARDS)
    with service(1) as target:
        found = records_of(distributed(target, OpSource().repeat(2)))
    assert Counter(found) == Counter(dict.fromkeys(ALL, 2))
    assert {ticket[2] for ticket in node.tickets} >= {0, 1}


@by_each_protocol
def test_a_provider_that_gets_no_answer_is_asked_again(make_node: MakeNode) -> None:
    node = make_node(SHARDS)
    refusals = [b"\x0e\x00\x00" + b"\x05\x00later"] * 3

    def ticket(*_: object) -> bytes | None:
        return frame(ERROR, refusals.pop()) if refusals else None

    node.ticket = ticket
    with service(1) as target:
        assert Counter(records_of(distributed(target, OpSource()))) == ALL
    assert not refusals


@by_each_protocol
def test_zip_has_two_providers(make_node: MakeNode) -> None:
    make_node(SHARDS)
    with service(1) as target:
        pairs = tf.data.Dataset.zip((OpSource(key="a"), OpSource(key="b")))
        left, right = zip(*distributed(target, pairs).as_numpy_iterator(), strict=True)
    assert Counter(left) == Counter(right) == ALL


@by_each_protocol
def test_a_node_error_that_is_final_reaches_the_trainer(make_node: MakeNode) -> None:
    """tf.data service's client repeats UNAVAILABLE for ever: a final one must come as something else."""
    node = make_node(SHARDS)

    def on_open(connection: object) -> bool:
        connection.send(frame(ERROR, b"\x0e\x00\x01" + b"\x04\x00gone"))  # type: ignore[attr-defined]
        return True

    node.on_open = on_open
    with service(1) as target, pytest.raises(tf.errors.FailedPreconditionError, match="gone"):
        records_of(distributed(target, OpSource(connect_ms=300)))


@by_each_protocol
def test_restored_providers_say_so(make_node: MakeNode, tmp_path: object) -> None:
    node = make_node(SHARDS)
    work_dir = {"port": 0, "work_dir": str(tmp_path), "fault_tolerant_mode": True}
    library = loader.load()
    config = tf.data.experimental.service.DispatcherConfig(**work_dir)
    head = tf.data.experimental.service.DispatchServer(config)
    address = head.target.split("://")[1]
    worker = tf_service.worker(address, _protocol)
    try:
        found = records_of(distributed(head.target, OpSource()))
        head._stop()
        library.set_restoring(True)
        port = int(address.split(":")[1])
        config = tf.data.experimental.service.DispatcherConfig(**(work_dir | {"port": port}))
        head = tf.data.experimental.service.DispatchServer(config)
        library.set_restoring(False)
        found += records_of(distributed(head.target, OpSource()))
    finally:
        library.set_restoring(False)
        library.stop_all()
        tf_service.stop(worker)
        head._stop()
        library.resume_all()
    assert Counter(found) == Counter(dict.fromkeys(ALL, 2))
    assert len(node.sessions) == 2


IN_ONE_PROCESS = """
import sys
import tensorflow as tf
import tfquiver
from tests.ops.test_service import distributed
from tests.support.op_source import OpSource
from tfquiver.ops.compiling_and_loading import loader

loader.load().set_endpoint("", sys.argv[1])
head = tf.data.experimental.service.DispatchServer()
config = tf.data.experimental.service.WorkerConfig(dispatcher_address=head.target.split("://")[1])
worker = tf.data.experimental.service.WorkerServer(config)
iterator = iter(distributed(head.target, OpSource(1000)))
next(iterator)
if sys.argv[2] == "stopped":
    with tfquiver.iterators_stopped():
        worker._stop()
"""


@pytest.mark.parametrize("end", ["stopped", "at_exit"])
def test_servers_in_a_trainers_process_end_in_mid_epoch(make_node: MakeNode, end: str) -> None:
    """Stopping TensorFlow's worker holds the interpreter's lock and waits for iterators: here for ever."""
    node = make_node(numbered(20, 1))
    node.on_shard = lambda connection, shard: shard > 0
    command = [sys.executable, "-c", IN_ONE_PROCESS, str(node.path), end]
    root = Path(__file__).resolve().parents[2]
    done = warm.run(command, warm_kind="tensorflow", cwd=root, timeout=90)
    assert done.returncode == 0


@by_each_protocol
def test_a_worker_with_a_waiting_iterator_stops(make_node: MakeNode) -> None:
    """TensorFlow's worker joins, without cancelling, threads that wait in the op."""
    node = make_node(SHARDS)
    node.serving = False
    cancellations = cancellation.CancellationManager()

    def read(target: str) -> None:
        iterator = iter(distributed(target, OpSource()))
        take = cancellations.get_cancelable_function(tf.function(lambda: next(iterator)).get_concrete_function())
        with contextlib.suppress(tf.errors.OpError):
            take()

    with service(1) as target:
        trainer = threading.Thread(target=read, args=(target,))
        trainer.start()
        node.wait_for(lambda: bool(node.opens))
        began = time.monotonic()
    assert time.monotonic() - began < 20
    cancellations.start_cancel()
    trainer.join(20)
    assert not trainer.is_alive()
