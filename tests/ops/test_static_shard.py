"""Every n-th record of a random order is wrong data: whoever asks for it is told, wherever it is asked for."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable

import pytest
import tensorflow as tf

from tests.ops.conftest import MakeNode, numbered
from tests.support.op_source import OpSource, records_of

SHARDS = numbered(20, 50)
ALL = Counter(itertools.chain(*SHARDS))
Pipeline = Callable[[tf.data.Dataset], tf.data.Dataset]
REFUSED: dict[str, Pipeline] = {
    "at once": lambda source: source.shard(2, 0),
    "behind others": lambda source: source.map(tf.identity).prefetch(2).shard(3, 1).batch(4).prefetch(1),
    "before others": lambda source: tf.data.Dataset.range(3).interleave(lambda _: source).shard(2, 1),
}


@pytest.mark.parametrize("pipeline", REFUSED.values(), ids=REFUSED)
def test_a_static_share_is_refused(make_node: MakeNode, pipeline: Pipeline) -> None:
    make_node(SHARDS)
    with pytest.raises(tf.errors.InvalidArgumentError, match="job_name"):
        list(pipeline(OpSource()))


def test_automatic_sharding_by_data_is_refused(make_node: MakeNode) -> None:
    from tensorflow.python.data.experimental.ops import distribute

    make_node(SHARDS)
    options = tf.data.Options()
    options.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.DATA
    with pytest.raises(tf.errors.InvalidArgumentError, match="job_name"):
        list(distribute._AutoShardDataset(OpSource().with_options(options), 2, 0))


def test_what_is_no_static_share_is_not_refused(make_node: MakeNode) -> None:
    make_node(SHARDS)
    read = OpSource().map(tf.identity).shuffle(10, reshuffle_each_iteration=False).skip(0)
    assert Counter(records_of(read)) == ALL
    files = tf.data.Dataset.range(2).shard(2, 1).interleave(lambda _: OpSource())
    assert Counter(records_of(files)) == ALL, "a share of what the sources are made for"
