"""The order of the files: one reader, record by record, however often it is read, saved, restored or interrupted."""

from __future__ import annotations

import itertools
import random
from pathlib import Path

import pytest
import tensorflow as tf

from tests.ops.conftest import MakeNode, numbered
from tests.ops.test_checkpoint import with_symbolic
from tests.ops.test_order import deterministic
from tests.ops.test_service import distributed, service
from tests.support.op_source import OpSource, records_of
from tests.support.scripted_node import Connection

SHARDS = numbered(40, 30, size=20)
STORED = list(itertools.chain(*SHARDS))
FILES = {"files": True, "shuffle_bytes": 0, "readahead_bytes": 4000}
IN_BLOCKS = {
    "files": FILES,
    "deterministic": {"deterministic": True, "seed": 77, "shuffle_bytes": 8000, "readahead_bytes": 4000},
}


@pytest.mark.parametrize("batch_size", [0, 1, 7, 5000])
def test_every_epoch_is_the_files(make_node: MakeNode, batch_size: int) -> None:
    node = make_node(SHARDS)
    deterministic(node)
    assert records_of(OpSource(batch_size=batch_size, **FILES).repeat(2)) == STORED + STORED
    assert (node.opens[0].order, node.opens[0].block_bytes) == (3, 0)


def test_take_and_skip_part_the_files(make_node: MakeNode) -> None:
    deterministic(make_node(SHARDS))
    read = OpSource(**FILES)
    assert records_of(read.take(500)) == STORED[:500]
    assert records_of(read.skip(500)) == STORED[500:]
    assert [records_of(read.shard(3, part)) for part in range(3)] == [STORED[part::3] for part in range(3)]


@pytest.mark.parametrize("symbolic", [False, True], ids=["plain", "symbolic"])
@pytest.mark.parametrize("options", IN_BLOCKS.values(), ids=IN_BLOCKS)
def test_what_is_restored_goes_on_in_its_order(
    make_node: MakeNode, tmp_path: Path, seed: int, options: dict[str, object], symbolic: bool
) -> None:
    """Also where a symbolic checkpoint keeps a place before what had been read."""
    deterministic(make_node(SHARDS))

    def pipeline() -> tf.data.Dataset:
        read = OpSource(batch_size=16, job="job", **options).repeat(2).unbatch().batch(50).unbatch()
        return with_symbolic(read, symbolic)

    whole = records_of(with_symbolic(OpSource(batch_size=16, job="whole", **options).repeat(2).unbatch(), symbolic))
    rng = random.Random(seed)
    iterator = iter(pipeline())
    found: list[bytes] = []
    for _ in range(4):
        found += [record.numpy() for record in itertools.islice(iterator, rng.randrange(1, 600))]
        prefix = tf.train.Checkpoint(iterator=iterator).write(str(tmp_path / "checkpoint"))
        list(itertools.islice(iterator, rng.randrange(200)))
        iterator = iter(pipeline())
        tf.train.Checkpoint(iterator=iterator).read(prefix).assert_consumed()
    assert found + [record.numpy() for record in iterator] == whole


@pytest.mark.parametrize("symbolic", [False, True], ids=["plain", "symbolic"])
def test_a_checkpoint_of_before_the_first_record_names_no_epoch(
    make_node: MakeNode, tmp_path: Path, symbolic: bool
) -> None:
    """Where it is restored the job's own count says which one comes: of a job that has not read any the first."""
    deterministic(make_node(SHARDS))
    options = IN_BLOCKS["deterministic"]

    def pipeline(job: str) -> tf.data.Dataset:
        return with_symbolic(OpSource(job=job, **options).repeat(2), symbolic)

    whole = records_of(pipeline("whole"))
    iterator = iter(pipeline("saved"))
    prefix = tf.train.Checkpoint(iterator=iterator).write(str(tmp_path / "checkpoint"))
    next(iterator)
    for job, expected in (("another", whole), ("saved", whole[len(STORED) :])):
        iterator = iter(pipeline(job))
        tf.train.Checkpoint(iterator=iterator).read(prefix).assert_consumed()
        assert [record.numpy() for record in iterator][: len(expected)] == expected


def test_a_checkpoint_of_a_shuffled_epoch_is_refused(make_node: MakeNode, tmp_path: Path) -> None:
    deterministic(make_node(SHARDS))
    iterator = iter(OpSource(**IN_BLOCKS["deterministic"]))
    next(iterator)
    prefix = tf.train.Checkpoint(iterator=iterator).write(str(tmp_path / "checkpoint"))
    with pytest.raises(tf.errors.InvalidArgumentError, match="of a shuffled epoch"):
        tf.train.Checkpoint(iterator=iter(OpSource(**FILES))).read(prefix).assert_consumed()


def test_a_node_that_was_away_changes_nothing(make_node: MakeNode) -> None:
    node = make_node(SHARDS)
    deterministic(node)
    iterator = OpSource(**FILES).as_numpy_iterator()
    found = list(itertools.islice(iterator, 500))
    node.hang_up()
    node.listen()
    assert found + list(iterator) == STORED


@pytest.mark.parametrize(
    "options", [FILES, {"deterministic": True, "seed": 77, "shuffle_bytes": 0, "readahead_bytes": 4000}], ids=IN_BLOCKS
)
def test_a_shard_that_came_damaged_comes_again_in_its_place(make_node: MakeNode, options: dict[str, object]) -> None:
    node = make_node(SHARDS)
    deterministic(node)
    whole = records_of(OpSource(job="whole", **options))
    damaged = {0, 1, 17, 39}

    def on_shard(connection: Connection, shard: int) -> bool:
        if shard not in damaged:
            return False
        damaged.remove(shard)
        connection.send_shard(shard, crc32c=1)
        return True

    node.on_shard = on_shard
    assert records_of(OpSource(job="damaged", **options)) == whole
    assert len(node.bad) == 4


def test_a_shard_without_a_place_is_refused(make_node: MakeNode) -> None:
    node = make_node(SHARDS)
    deterministic(node)

    def on_shard(connection: Connection, shard: int) -> bool:
        connection.send_shard(shard, block_records=0)
        return True

    node.on_shard = on_shard
    with pytest.raises(tf.errors.AbortedError, match="has no block"):
        records_of(OpSource(**FILES))


def test_workers_of_tfdata_service_are_refused(make_node: MakeNode) -> None:
    make_node(SHARDS)
    with service(2) as target, pytest.raises(tf.errors.InvalidArgumentError, match="Leave distribute"):
        records_of(distributed(target, OpSource(**FILES)))
