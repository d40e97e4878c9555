"""QuiverDataset by itself: a tf.data source over the bare op, for tests that bring their own node."""

from __future__ import annotations

import gc
from collections.abc import Iterable

import tensorflow as tf
from tensorflow.python.data.ops import dataset_ops

from tests.support.reader_wire import DIGEST_ID
from tfquiver.ops.compiling_and_loading import loader
from tfquiver.tensorflow_client.parsing import Parsing, parsing_of


class OpSource(dataset_ops.DatasetSource):
    """Elements: one string tensor, shape [] or [batch]; with `parsing`, what the op emits instead."""

    def __init__(
        self,
        num_records: int = 0,
        key: str = "key",
        digest_id: bytes = DIGEST_ID,
        parsing: Parsing | None = None,
        **options: object,
    ) -> None:
        batch = options.get("batch_size", 0)
        shape = [] if not batch else [batch if options.get("drop_remainder") else None]
        self._spec = tf.TensorSpec(shape, tf.string)
        if parsing is not None:
            self._spec = parsing.emitted(shape[0] if shape else None)
        if options.get("with_position"):
            self._spec = (tf.TensorSpec(shape, tf.int64), self._spec)
        told = None if parsing is None else parsing.told()
        super().__init__(loader.load().quiver_dataset(digest_id, key, options, num_records, told))

    @property
    def element_spec(self) -> object:
        return self._spec


def parsed_source(features: object, **options: object) -> tf.data.Dataset:
    """As `tfquiver.dataset(parse=features)` makes it."""
    batch_size = options.get("batch_size", 0)
    assert isinstance(batch_size, int)
    parsing = parsing_of(features, batch_size)
    return parsing.put_together(OpSource(parsing=parsing, **options), bool(options.get("with_position")))


def records_of(dataset: tf.data.Dataset) -> list[bytes]:
    """All records, batches taken apart."""
    return flat(dataset.as_numpy_iterator())


def drop_iterators() -> None:
    """Destroys iterators that nobody refers to: TensorFlow's Python objects are cycles."""
    gc.collect()


def flat(elements: Iterable[object]) -> list[bytes]:
    found: list[bytes] = []
    for element in elements:
        found.extend([element] if isinstance(element, bytes) else list(element))  # type: ignore[call-overload]
    return found
