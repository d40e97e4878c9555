"""Every record once, whatever the shapes and sizes."""

from __future__ import annotations

import itertools
from collections import Counter

import pytest
import tensorflow as tf

from tests.ops.conftest import MakeNode, numbered
from tests.support.op_source import OpSource, drop_iterators, records_of

MANY = numbered(20, 50)
SHAPES = {
    "many": MANY,
    "one_a_shard": numbered(300, 1),
    "one_shard": numbered(1, 500),
    "zero_length": [[b""] * 10, [b"x", b"", b"y"], [b""]],
    "large": numbered(6, 4, size=70_000),
    "mixed": [[b"small"] * 50 + [bytes(200_000)], [b"", bytes(100_000)]],
    "one": [[b"alone"]],
}


def flat(shards: list[list[bytes]]) -> list[bytes]:
    return list(itertools.chain(*shards))


@pytest.mark.parametrize("sealed", [False, True], ids=["file", "memory"])
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("options", [{}, {"shuffle_bytes": 0}, {"batch_size": 7}, {"shuffle_bytes": 500}], ids=str)
def test_every_record_once(make_node: MakeNode, shape: str, options: dict[str, object], sealed: bool) -> None:
    node = make_node(SHAPES[shape], sealed=sealed)
    found = records_of(OpSource(**options))
    assert Counter(found) == Counter(flat(SHAPES[shape]))
    if options.get("shuffle_bytes") == 0:
        assert found == flat(SHAPES[shape])
    drop_iterators()
    node.wait_for(lambda: node.sessions["s0"].complete == [True])
    assert len(node.sessions["s0"].acked) == len(node.shards)


def test_records_stay_what_they_are_when_their_iterator_and_pool_are_gone(make_node: MakeNode) -> None:
    shards = numbered(30, 400, size=300)  # several blocks of memory a shard, which are used again
    make_node(shards)
    batches = list(OpSource(batch_size=64).repeat(2))  # more than the second epoch's pool can reuse
    singles = list(OpSource().batch(100))  # copies of strings that share memory
    drop_iterators()
    for held in (batches, singles):
        found = Counter(record for batch in held for record in batch.numpy())
        assert set(found) == set(flat(shards))
        assert set(found.values()) == {2 if held is batches else 1}


def test_shuffles_over_shards(make_node: MakeNode) -> None:
    make_node(MANY)
    found = records_of(OpSource())
    assert found != flat(MANY)
    first_half = Counter(record.split(b".")[0] for record in found[:500])
    assert len(first_half) == 20 and max(first_half.values()) < 45


def test_epochs_differ_and_each_is_whole(make_node: MakeNode) -> None:
    make_node(MANY)
    found = records_of(OpSource().repeat(2))
    assert Counter(found[:1000]) == Counter(found[1000:]) == Counter(flat(MANY))
    assert found[:1000] != found[1000:]


def test_empty_data_set(make_node: MakeNode) -> None:
    make_node([])
    assert records_of(OpSource(batch_size=4)) == []


def test_batches(make_node: MakeNode) -> None:
    make_node(MANY)
    dataset = OpSource(1000, batch_size=64)
    assert dataset.element_spec.shape.as_list() == [None]
    assert [len(batch) for batch in dataset.as_numpy_iterator()] == [64] * 15 + [40]
    dataset = OpSource(1000, batch_size=64, drop_remainder=True)
    assert [len(batch) for batch in dataset.as_numpy_iterator()] == [64] * 15


def test_a_batch_larger_than_all_credit(make_node: MakeNode) -> None:
    make_node(MANY)
    batches = list(OpSource(batch_size=5000, shuffle_bytes=300, readahead_bytes=100).as_numpy_iterator())
    assert len(batches) == 1 and Counter(batches[0].tolist()) == Counter(flat(MANY))


@pytest.mark.parametrize(("options", "expected"), [
    ({}, 1000), ({"batch_size": 64}, 16), ({"batch_size": 64, "drop_remainder": True}, 15), ({"batch_size": 1}, 1000),
])  # fmt: skip
def test_cardinality(options: dict[str, object], expected: int) -> None:
    assert OpSource(1000, **options).cardinality().numpy() == expected


@pytest.mark.long
def test_a_record_of_300_megabytes(make_node: MakeNode) -> None:
    record = bytes(1000) + b"x" * (300 << 20)
    make_node([[b"before"], [record, b"after"]])
    found = records_of(OpSource(shuffle_bytes=0))
    assert [len(r) for r in found] == [6, len(record), 5]
    assert found[1] == record


def test_hold_back_delays_acks_and_the_end_still_comes(make_node: MakeNode) -> None:
    node = make_node(numbered(10, 1))
    iterator = iter(OpSource(shuffle_bytes=0, hold_back=3))
    for _ in range(6):
        next(iterator)
    node.wait_for(lambda: len(node.sessions["s0"].acked) == 3)
    assert len(list(iterator)) == 4
    assert len(node.sessions["s0"].acked) == 7
    del iterator
    drop_iterators()
    node.wait_for(lambda: node.sessions["s0"].complete == [True])


def test_leaving_early_gives_shards_back(make_node: MakeNode) -> None:
    node = make_node(MANY)
    assert len(list(OpSource(shuffle_bytes=0).take(60))) == 60
    drop_iterators()
    node.wait_for(lambda: node.sessions["s0"].complete == [False])
    assert len(node.sessions["s0"].acked) == 1 and len(node.sessions["s0"].todo) == 19


def test_random_access_is_refused(make_node: MakeNode) -> None:
    make_node(MANY)
    with pytest.raises(tf.errors.FailedPreconditionError, match="does not support random access"):
        list(_globally_shuffled(OpSource(1000)))


def _globally_shuffled(dataset: tf.data.Dataset) -> tf.data.Dataset:
    from tensorflow.python.data.experimental.ops import global_shuffle_op

    return global_shuffle_op._global_shuffle(dataset)


@pytest.mark.parametrize(("options", "message"), [
    ({"sede": 1}, "unknown key sede"), ({"batch_size": -1}, "batch_size is -1"), ({"job": 7}, "job must be a string"),
])  # fmt: skip
def test_wrong_options_are_named(options: dict[str, object], message: str) -> None:
    with pytest.raises(tf.errors.InvalidArgumentError, match=message):
        OpSource(**options)


def test_wrong_digest_id() -> None:
    with pytest.raises(tf.errors.InvalidArgumentError, match="digest_id must be 32 bytes"):
        OpSource(digest_id=b"short")
