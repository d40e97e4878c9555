"""QuiverOnceDataset by itself: over the bare op, or over tagged elements that a test makes up."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from tests.support.reader_wire import DIGEST_ID
from tfquiver.ops.compiling_and_loading import loader
from tfquiver.tensorflow_client.tf_source import OnceDataset, TaggedSource


def tag(shard: int, index: int, last: bool) -> int:
    """As ops/core/record_tag.h."""
    return shard << 35 | index << 1 | int(last)


def tags_of(lengths: list[int]) -> list[int]:
    """Of a data set whose shards have so many records."""
    return [tag(shard, i, i + 1 == length) for shard, length in enumerate(lengths) for i in range(length)]


def tagged(num_records: int, **options: Any) -> tf.data.Dataset:
    """Records, tags and session of what the default node of this process has."""
    variant = loader.load().quiver_dataset(DIGEST_ID, "once", {"tagged": True, **options}, num_records)
    return TaggedSource(variant, bool(options.get("batch_size")))


def once(
    records: int,
    shards: int,
    delivered: tf.data.Dataset,
    mop_up: tf.data.Dataset,
    hold_back: int = 0,
    takeover_ms: int = 0,
) -> tf.data.Dataset:
    """Elements of both inputs: (whatever, tags, session)."""
    spec = delivered.element_spec[0]
    leaves = tf.nest.flatten(spec)
    variant = loader.load().quiver_once_dataset(
        input_dataset=delivered._variant_tensor,
        mop_up_dataset=mop_up._variant_tensor,
        digest_id=DIGEST_ID,
        num_records=records,
        num_shards=shards,
        endpoint="",
        hold_back=hold_back,
        takeover_ms=takeover_ms,
        output_types=[leaf.dtype for leaf in leaves],
        output_shapes=[leaf.shape for leaf in leaves],
    )
    return OnceDataset(variant, [delivered, mop_up], spec)
