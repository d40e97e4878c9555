"""Iterator checkpoints: what is read after a restore is exactly what had not been read."""

from __future__ import annotations

import itertools
import random
from collections import Counter
from pathlib import Path

import pytest
import tensorflow as tf

from tests.ops.conftest import MakeNode, numbered
from tests.support.op_source import OpSource, flat

SHARDS = numbered(20, 50)
ALL = Counter(itertools.chain(*SHARDS))


def with_symbolic(dataset: tf.data.Dataset, symbolic: bool) -> tf.data.Dataset:
    options = tf.data.Options()
    options.experimental_symbolic_checkpoint = symbolic
    return dataset.with_options(options)


def size_of(prefix: str) -> int:
    path = Path(prefix)
    return sum(part.stat().st_size for part in path.parent.glob(path.name + "*"))


@pytest.mark.parametrize("symbolic", [False, True], ids=["plain", "symbolic"])
@pytest.mark.parametrize("options", [{}, {"shuffle_bytes": 0}, {"batch_size": 7}, {"shuffle_bytes": 3000}], ids=str)
@pytest.mark.parametrize("behind", ["nothing", "map_prefetch", "batch"])
def test_the_rest_is_the_complement(
    make_node: MakeNode, tmp_path: Path, seed: int, behind: str, options: dict[str, object], symbolic: bool
) -> None:
    make_node(SHARDS)
    rng = random.Random(seed)

    def pipeline() -> tf.data.Dataset:
        dataset = OpSource(1000, **options)
        if behind == "map_prefetch":
            dataset = dataset.map(lambda record: record, num_parallel_calls=2).prefetch(3)
        if behind == "batch" and not options.get("batch_size"):
            dataset = dataset.batch(8)
        return with_symbolic(dataset, symbolic)

    iterator = iter(pipeline())
    found: list[bytes] = []
    for _ in range(3):  # save, go on in another iterator, and again
        for element in itertools.islice(iterator, rng.randrange(40)):
            found += flat([element.numpy()])
        prefix = tf.train.Checkpoint(iterator=iterator).write(str(tmp_path / "checkpoint"))
        next(iterator, None)  # read after the checkpoint: not part of it
        iterator = iter(pipeline())
        tf.train.Checkpoint(iterator=iterator).read(prefix).assert_consumed()
    for element in iterator:
        found += flat([element.numpy()])
    assert Counter(found) == ALL


@pytest.mark.parametrize("position", [0, 999, 1000])
def test_at_the_ends(make_node: MakeNode, tmp_path: Path, position: int) -> None:
    make_node(SHARDS)
    iterator = iter(OpSource())
    found = flat(element.numpy() for element in itertools.islice(iterator, position))
    prefix = tf.train.Checkpoint(iterator=iterator).write(str(tmp_path / "checkpoint"))
    iterator = iter(OpSource())
    tf.train.Checkpoint(iterator=iterator).read(prefix).assert_consumed()
    assert Counter(found + flat(element.numpy() for element in iterator)) == ALL


@pytest.mark.parametrize("symbolic", [False, True], ids=["plain", "symbolic"])
@pytest.mark.parametrize("position", [0, 20, 142, 1000], ids=str)
@pytest.mark.parametrize("ahead", [0, 4])
def test_a_remainder_that_was_dropped_is_no_obstacle(
    make_node: MakeNode, tmp_path: Path, ahead: int, position: int, symbolic: bool
) -> None:
    """142 batches of 7 and six records; `prefetch` reaches the end before the trainer does."""
    make_node(SHARDS)

    def pipeline() -> tf.data.Dataset:
        dataset = OpSource(1000, batch_size=7, drop_remainder=True)
        return with_symbolic(dataset.prefetch(ahead) if ahead else dataset, symbolic)

    iterator = iter(pipeline())
    found = flat(element.numpy() for element in itertools.islice(iterator, position))
    prefix = tf.train.Checkpoint(iterator=iterator).write(str(tmp_path / "checkpoint"))
    iterator = iter(pipeline())
    tf.train.Checkpoint(iterator=iterator).read(prefix).assert_consumed()
    found += flat(element.numpy() for element in iterator)
    assert len(found) == len(set(found)) == 994


def test_an_end_stays_an_end(make_node: MakeNode, tmp_path: Path) -> None:
    node = make_node(SHARDS)
    iterator = iter(OpSource())
    list(iterator)
    prefix = tf.train.Checkpoint(iterator=iterator).write(str(tmp_path / "checkpoint"))
    opened = len(node.opens)
    iterator = iter(OpSource())
    tf.train.Checkpoint(iterator=iterator).read(prefix).assert_consumed()
    assert list(iterator) == []
    assert len(node.opens) == opened


def test_repeat_goes_on_in_its_epoch(make_node: MakeNode, tmp_path: Path) -> None:
    make_node(SHARDS)
    iterator = iter(OpSource().repeat(3))
    found = flat(element.numpy() for element in itertools.islice(iterator, 1300))
    prefix = tf.train.Checkpoint(iterator=iterator).write(str(tmp_path / "checkpoint"))
    iterator = iter(OpSource().repeat(3))
    tf.train.Checkpoint(iterator=iterator).read(prefix).assert_consumed()
    found += flat(element.numpy() for element in iterator)
    assert Counter(found) == Counter(dict.fromkeys(ALL, 3))
    assert Counter(found[1000:2000]) == ALL


def test_shards_done_are_not_sent_again(make_node: MakeNode, tmp_path: Path) -> None:
    node = make_node(SHARDS)
    iterator = iter(OpSource(shuffle_bytes=0))
    list(itertools.islice(iterator, 525))
    prefix = tf.train.Checkpoint(iterator=iterator).write(str(tmp_path / "checkpoint"))
    iterator = iter(OpSource(shuffle_bytes=0))
    tf.train.Checkpoint(iterator=iterator).read(prefix).assert_consumed()
    assert next(iterator).numpy() == SHARDS[10][25]
    assert node.opens[-1].session_id == ""
    assert node.opens[-1].done == bytes([0xFF, 0b11, 0])


def test_of_another_data_set(make_node: MakeNode, tmp_path: Path) -> None:
    make_node(SHARDS)
    iterator = iter(OpSource())
    next(iterator)
    prefix = tf.train.Checkpoint(iterator=iterator).write(str(tmp_path / "checkpoint"))
    iterator = iter(OpSource(digest_id=bytes(32)))
    with pytest.raises(tf.errors.InvalidArgumentError, match="of another data set"):
        tf.train.Checkpoint(iterator=iterator).read(prefix)


def test_ten_thousand_shards_stay_below_64_kib(make_node: MakeNode, tmp_path: Path) -> None:
    make_node(numbered(10_000, 3))
    iterator = iter(OpSource(batch_size=5000))
    for _ in range(3):
        next(iterator)
    prefix = tf.train.Checkpoint(iterator=iterator).write(str(tmp_path / "checkpoint"))
    assert size_of(prefix) < 64 << 10
