"""QuiverOnceDataset: each record once, whatever comes twice, comes late, or does not come."""

from __future__ import annotations

import gc
import itertools
import random
import threading
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from tensorflow.python.eager import cancellation

import tfquiver
from tests.ops.conftest import MakeNode, numbered
from tests.ops.test_service import distributed, service
from tests.support.op_once import once, tag, tagged, tags_of
from tests.support.op_source import flat
from tests.support.reader_wire import ERROR, frame

LENGTHS = [5, 1, 9, 3]
TAGS = tags_of(LENGTHS)
SHARDS = numbered(20, 50)
ALL = Counter(itertools.chain(*SHARDS))


def batches(rows: list[list[int]], session: str = "s") -> tf.data.Dataset:
    """Elements as workers send them: the tag stands for the record, in several types; then tags and session."""

    def elements() -> Iterator[Any]:
        for tags in rows:
            array = np.array(tags, np.int64)
            names = np.array([str(number).encode() for number in tags], object)
            pairs = np.stack([array, -array], 1).astype(np.int64)
            yield {"pairs": pairs, "names": names, "odd": array // 2 % 2 == 1}, array, session.encode()

    row = {
        "pairs": tf.TensorSpec([None, 2], tf.int64),
        "names": tf.TensorSpec([None], tf.string),
        "odd": tf.TensorSpec([None], tf.bool),
    }
    signature = (row, tf.TensorSpec([None], tf.int64), tf.TensorSpec([], tf.string))
    return tf.data.Dataset.from_generator(elements, output_signature=signature)


def seen(dataset: tf.data.Dataset) -> list[int]:
    """The tags of all rows; asserts that rows stayed whole."""
    found: list[int] = []
    for element in dataset.as_numpy_iterator():
        names = [int(name) for name in element["names"]]
        assert len(names) > 0
        np.testing.assert_array_equal(element["pairs"], np.array([[name, -name] for name in names]))
        np.testing.assert_array_equal(element["odd"], np.array([name // 2 % 2 == 1 for name in names]))
        found += names
    return found


def test_duplicates_are_dropped_row_by_row(make_node: MakeNode) -> None:
    make_node(SHARDS)
    before = tfquiver.delivery_stats()
    coming = [TAGS[:4], TAGS[2:8], TAGS[:8], TAGS[8:], TAGS[:1]]
    assert seen(once(len(TAGS), len(LENGTHS), batches(coming), batches([]))) == TAGS
    after = tfquiver.delivery_stats()
    assert (after.delivered - before.delivered, after.duplicates - before.duplicates) == (len(TAGS), 10)
    assert (after.epochs - before.epochs, after.mopped_up - before.mopped_up) == (1, 0)


def test_any_order_any_number_of_times(make_node: MakeNode, seed: int) -> None:
    make_node(SHARDS)
    rng = random.Random(seed)
    for _ in range(20):
        coming = [rng.choices(TAGS, k=rng.randint(1, 9)) for _ in range(rng.randint(0, 12))]
        found = seen(once(len(TAGS), len(LENGTHS), batches(coming), batches([rng.sample(TAGS, len(TAGS))])))
        assert sorted(found) == TAGS


def test_what_does_not_come_is_an_error(make_node: MakeNode) -> None:
    make_node(SHARDS)
    with pytest.raises(tf.errors.DataLossError, match="2 of 18 records came neither"):
        seen(once(len(TAGS), len(LENGTHS), batches([TAGS[:9]]), batches([TAGS[11:]])))


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        ([[tag(4, 0, True)]], "names no record"),
        ([[tag(0, 18, False)]], "names no record"),
        ([[-1]], "names no record"),
    ],
)
def test_tags_of_other_data_are_refused(make_node: MakeNode, rows: list[list[int]], said: str) -> None:
    make_node(SHARDS)
    with pytest.raises(tf.errors.InvalidArgumentError, match=said):
        seen(once(len(TAGS), len(LENGTHS), batches(rows), batches([])))


def test_a_transformation_that_changes_the_number_of_rows_is_refused(make_node: MakeNode) -> None:
    make_node(SHARDS)
    short = batches([TAGS]).map(lambda element, tags, session: (element["names"][1:], tags, session))
    with pytest.raises(tf.errors.InvalidArgumentError, match="keeps rows: a batch of 18 records became"):
        list(once(len(TAGS), len(LENGTHS), short, short))


def test_single_records(make_node: MakeNode) -> None:
    make_node(SHARDS)

    def single(tags: list[int]) -> tf.data.Dataset:
        whole = batches([[number] for number in tags])
        return whole.map(lambda element, tags, session: (element["names"][0], tags[0], session))

    both = once(len(TAGS), len(LENGTHS), single(TAGS[:7] + TAGS[3:9]), single(TAGS))
    assert [int(name) for name in both.as_numpy_iterator()] == TAGS


def test_what_was_delivered_is_told_once_and_to_its_session(make_node: MakeNode) -> None:
    node = make_node(SHARDS)
    other = batches([TAGS[3:12]], session="t")
    late = batches([TAGS[:8]]).concatenate(other).concatenate(batches([TAGS]))
    assert seen(once(len(TAGS), len(LENGTHS), late, batches([]))) == TAGS
    told: dict[str, set[int]] = {}

    def everything() -> bool:
        told.clear()
        for session, shards in node.delivered:
            told.setdefault(session, set()).update(shards)
        return told == {"s": {0, 1, 2, 3}, "t": {0, 1, 2, 3}}

    node.wait_for(everything)
    assert sum(role == 2 for role, _ in node.hellos) == 1


@pytest.mark.parametrize("cut", [0, 1, 2, 4])
def test_a_checkpoint_goes_on_with_what_was_not_delivered(make_node: MakeNode, tmp_path: Path, cut: int) -> None:
    make_node(SHARDS)
    coming = [TAGS[:4], TAGS[2:8], TAGS[:11], TAGS[8:]]

    def pipeline() -> tf.data.Dataset:
        return once(len(TAGS), len(LENGTHS), batches(coming), batches([])).map(lambda element: element["names"])

    iterator = iter(pipeline())
    found = [int(name) for _ in range(cut) for name in next(iterator).numpy()]
    path = tf.train.Checkpoint(iterator=iterator).write(str(tmp_path / "checkpoint"))
    another = iter(pipeline())
    tf.train.Checkpoint(iterator=another).read(path).assert_consumed()
    found += [int(name) for element in another for name in element.numpy()]
    assert found == TAGS


@pytest.mark.parametrize("options", [{}, {"batch_size": 8}, {"batch_size": 8, "shuffle_bytes": 0}], ids=str)
def test_the_mop_up_reads_what_is_missing_and_little_else(make_node: MakeNode, options: dict[str, Any]) -> None:
    """The tags of the op and of the ledger are the same; whole shards that were delivered are not read again."""
    node = make_node(SHARDS)
    whole = tagged(1000, **options)
    part = whole.take(60) if options else whole.take(480)
    before = tfquiver.delivery_stats()
    found = flat(once(1000, 20, part, whole).as_numpy_iterator())
    assert Counter(found) == ALL
    after = tfquiver.delivery_stats()
    assert after.mopped_up - before.mopped_up == 520
    state = node.opens[-1].done
    assert state is not None and node.opens[-1].session_id == ""
    missing = 20 - sum(byte.bit_count() for byte in state)
    assert after.duplicates - before.duplicates <= missing * 50 - 520  # it ends with the last one missing


def test_workers_do_not_acknowledge_and_their_trainer_does(make_node: MakeNode) -> None:
    node = make_node(SHARDS)
    with service(2) as target:
        whole = tagged(1000, batch_size=8)
        for _ in range(2):
            found = flat(once(1000, 20, distributed(target, whole), whole).as_numpy_iterator())
            assert Counter(found) == ALL
    assert len(node.sessions) == 2
    for name, session in node.sessions.items():
        assert not session.acked and not any(session.complete)
        node.wait_for(lambda name=name: {s for n, some in node.delivered if n == name for s in some} == set(range(20)))


def test_a_trainer_whose_workers_give_nothing_reads_by_itself(make_node: MakeNode) -> None:
    node = make_node(SHARDS)
    silent = threading.Event()

    def on_shard(connection: Any, _: int) -> bool:
        if connection.session_id.startswith("once"):  # a ticket's
            silent.set()
            return True
        return False

    node.on_shard = on_shard
    before = tfquiver.delivery_stats()
    with service(1) as target:
        whole = tagged(1000, batch_size=8)
        dataset = once(1000, 20, distributed(target, whole), whole, takeover_ms=700)
        began = time.monotonic()
        assert Counter(flat(dataset.as_numpy_iterator())) == ALL
        assert time.monotonic() - began >= 0.7
    after = tfquiver.delivery_stats()
    assert silent.is_set() and after.takeovers - before.takeovers == 1
    assert after.mopped_up - before.mopped_up == 1000


def orphaned(whole: tf.data.Dataset, takeover_ms: int, workers: int = 0) -> tf.data.Dataset:
    """`whole`, once, over a dispatcher that ended after the pipeline was made."""
    with service(workers) as target:
        return once(1000, 20, distributed(target, whole), whole, takeover_ms=takeover_ms)


def test_an_epoch_that_begins_without_a_dispatcher_is_read_here(make_node: MakeNode) -> None:
    make_node(SHARDS)
    dataset = orphaned(tagged(1000, batch_size=8), takeover_ms=300)
    before = tfquiver.delivery_stats()
    began = time.monotonic()
    for _ in range(2):
        assert Counter(flat(dataset.as_numpy_iterator())) == ALL
    assert time.monotonic() - began < 2 * (0.3 + 4)
    after = tfquiver.delivery_stats()
    assert after.takeovers - before.takeovers == 2 and after.mopped_up - before.mopped_up == 2000


def test_a_wait_for_a_dispatcher_ends_with_its_iterator(make_node: MakeNode) -> None:
    """Destroying a prefetch cancels what it waits for, and destroys it: TensorFlow's client would keep it for ever."""
    make_node(SHARDS)
    dataset = orphaned(tagged(1000, batch_size=8), takeover_ms=0).prefetch(1)
    options = tf.data.Options()
    options.experimental_warm_start = True  # it begins to wait when it is made
    iterator = iter(dataset.with_options(options))
    began = time.monotonic()
    del iterator
    gc.collect()
    assert time.monotonic() - began < 4


def test_what_waits_for_a_dispatcher_can_be_cancelled(make_node: MakeNode) -> None:
    make_node(SHARDS)
    dataset = orphaned(tagged(1000, batch_size=8), takeover_ms=0)
    manager = cancellation.CancellationManager()

    @tf.function
    def first() -> tf.Tensor:
        return next(iter(dataset))

    call = manager.get_cancelable_function(first.get_concrete_function())
    threading.Timer(0.5, manager.start_cancel).start()
    began = time.monotonic()
    with pytest.raises(tf.errors.CancelledError):
        call()
    assert 0.4 < time.monotonic() - began < 4


def test_workers_that_fail_are_stood_in_for(make_node: MakeNode) -> None:
    """As when a worker's own node has been away too long; the trainer's is there."""
    node = make_node(SHARDS)

    def on_open(connection: Any) -> bool:
        if not connection.session_id.startswith("once"):
            return False
        connection.send(frame(ERROR, b"\x0e\x00\x01" + b"\x04\x00gone"))
        return True

    node.on_open = on_open
    before = tfquiver.delivery_stats()
    with service(1) as target:
        whole = tagged(1000, batch_size=8, connect_ms=300)
        dataset = once(1000, 20, distributed(target, whole), whole, takeover_ms=60_000)
        assert Counter(flat(dataset.as_numpy_iterator())) == ALL
    after = tfquiver.delivery_stats()
    assert after.takeovers - before.takeovers == 1 and after.mopped_up - before.mopped_up == 1000


def test_an_error_of_the_transformation_is_told_at_once(make_node: MakeNode) -> None:
    make_node(SHARDS)

    def broken(records: tf.Tensor, tags: tf.Tensor, session: tf.Tensor) -> Any:
        with tf.control_dependencies([tf.debugging.assert_equal(tf.size(records), 3, "not three")]):
            return tf.identity(records), tags, session

    before = tfquiver.delivery_stats()
    with service(1) as target:
        whole = tagged(1000, batch_size=8).map(broken)
        with pytest.raises(tf.errors.InvalidArgumentError, match="not three"):
            flat(once(1000, 20, distributed(target, whole), whole, takeover_ms=60_000).as_numpy_iterator())
    assert tfquiver.delivery_stats().takeovers == before.takeovers
