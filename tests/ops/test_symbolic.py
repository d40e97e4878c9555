"""Symbolic checkpoints: a saved position fixes what comes next, for transformations that read an element again."""

from __future__ import annotations

import itertools
import random
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
import tensorflow as tf

from tests.ops.conftest import MakeNode, numbered
from tests.ops.test_checkpoint import with_symbolic
from tests.support.op_source import OpSource
from tests.support.scripted_node import Connection, ScriptedNode

SHARDS = numbered(20, 50)
ALL = Counter(itertools.chain(*SHARDS))
AUTO = tf.data.AUTOTUNE


def twice(record: tf.Tensor) -> tf.data.Dataset:
    return tf.data.Dataset.from_tensors(record).repeat(2)


# name -> (options of the source, what is behind it, how often each record comes)
PIPELINES: dict[str, tuple[dict[str, object], Callable[[tf.data.Dataset], tf.data.Dataset], int]] = {
    "flat_map": ({}, lambda ds: ds.flat_map(twice), 2),
    "flat_map of an epoch in order of shards": ({"shuffle_bytes": 0}, lambda ds: ds.flat_map(twice), 2),
    "flat_map with a seed": ({"seed": 3}, lambda ds: ds.flat_map(twice), 2),
    "flat_map, homogeneous": ({"homogeneous": True}, lambda ds: ds.flat_map(twice), 2),
    "batch and unbatch": ({}, lambda ds: ds.batch(7).unbatch(), 1),
    "unbatch": ({"batch_size": 7}, lambda ds: ds.unbatch(), 1),
    "interleave": ({}, lambda ds: ds.interleave(twice, cycle_length=5), 2),
    "interleave of unequal lengths": (
        {},
        lambda ds: ds.enumerate().interleave(
            lambda i, record: tf.data.Dataset.from_tensors(record).repeat(
                tf.where(i == 0, tf.constant(900, tf.int64), 2)
            ),
            cycle_length=3,
        ),
        2,
    ),
    "much": (
        {"batch_size": 16},
        lambda ds: ds.map(tf.identity, num_parallel_calls=3).unbatch().batch(5).prefetch(2).unbatch().flat_map(twice),
        2,
    ),
    "prefetch": ({}, lambda ds: ds.map(tf.identity, num_parallel_calls=AUTO).prefetch(4), 1),
    "repeat": ({}, lambda ds: ds.repeat(3).batch(70).unbatch().flat_map(twice), 6),
    "repeat in order": (
        {"shuffle_bytes": 0, "batch_size": 30},
        lambda ds: ds.repeat(3).unbatch().batch(700).unbatch(),
        3,
    ),
    "shuffle": ({}, lambda ds: ds.shuffle(50), 1),
}


def in_another_order(node: ScriptedNode, seed: int) -> None:
    """The cache is in another state each time that a session is opened."""
    rng = random.Random(seed)

    def on_open(connection: Connection) -> bool:
        rng.shuffle(node.sessions[connection.session_id].todo)
        return False

    node.on_open = on_open


@pytest.mark.parametrize("name", PIPELINES)
def test_nothing_is_lost_or_repeated(make_node: MakeNode, tmp_path: Path, seed: int, name: str) -> None:
    options, behind, times = PIPELINES[name]
    node = make_node(SHARDS)
    if options.get("homogeneous"):
        node.place = lambda _, shard: {"unit": shard // 5 + 1}
    in_another_order(node, seed)
    rng = random.Random(seed)
    pool: dict[str, object] = {"shuffle_bytes": 6000, "readahead_bytes": 2000}

    def pipeline() -> tf.data.Dataset:
        return with_symbolic(behind(OpSource(1000, **pool | options)), True)

    iterator = iter(pipeline())
    found: list[bytes] = []
    for _ in range(4):  # save, go on in another iterator, and again
        found += [element.numpy() for element in itertools.islice(iterator, rng.randrange(300 * times))]
        prefix = tf.train.Checkpoint(iterator=iterator).write(str(tmp_path / "checkpoint"))
        for _ in range(rng.randrange(200)):
            next(iterator, None)  # read after the checkpoint: not part of it
        iterator = iter(pipeline())
        tf.train.Checkpoint(iterator=iterator).read(prefix).assert_consumed()
    found += [element.numpy() for element in iterator]
    counts = Counter(found)
    if name == "interleave of unequal lengths":
        first = found[0]
        assert counts.pop(first) == 900
        assert counts == Counter({record: 2 for record in ALL if record != first})
    else:
        assert counts == Counter(dict.fromkeys(ALL, times))
