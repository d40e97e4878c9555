"""Records that are `tf.train.Example` protos leave the source as tensors.

What features mean, and which of them cannot be, is TensorFlow's to say (`tf.io.parse_example`): here they become what
the op is told, and what the op emits becomes elements.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import tensorflow as tf
from tensorflow.python.ops import parsing_ops

from tfquiver import errors
from tfquiver.tensorflow_client.parsing.parsing import Parsing

_KINDS = [
    parsing_ops.VarLenFeature,
    parsing_ops.SparseFeature,
    parsing_ops.FixedLenFeature,
    parsing_ops.FixedLenSequenceFeature,
    parsing_ops.RaggedFeature,
]


class ExampleParsing(Parsing):
    """A mapping from keys to `tf.io` features, as `tf.io.parse_example` takes it.

    Raises InvalidArgumentError: `features` is no such mapping; names the feature.
    """

    def __init__(self, features: Mapping[str, Any]) -> None:
        try:
            self._features = parsing_ops._prepend_none_dimension(dict(features))
            self._params = parsing_ops._ParseOpParams.from_features(self._features, _KINDS)
            self._defaults = self._params.dense_defaults_vec
        except (TypeError, ValueError) as error:
            raise errors.InvalidArgumentError(f"parse: {error}") from error

    @property
    def fixed(self) -> bool:
        return self._dense and all(shape.is_fully_defined() for shape in self._params.dense_shapes)

    @property
    def _dense(self) -> bool:
        """Then what the op emits needs nothing done to it."""
        return len(self._features) == len(self._params.dense_keys)

    def told(self) -> dict[str, Any]:
        params = self._params
        return {
            "parse_defaults": self._defaults,
            "dense_keys": params.dense_keys,
            "dense_shapes": params.dense_shapes_as_proto,
            "sparse_keys": params.sparse_keys,
            "sparse_types": params.sparse_types,
            "ragged_keys": params.ragged_keys,
            "ragged_types": params.ragged_value_types,
            "ragged_splits": params.ragged_split_types,
        }

    def emitted(self, batch: int | None) -> Any:
        """By key where all are dense, else in the order in which the op emits them."""
        params = self._params
        dense = {
            key: tf.TensorSpec(tf.TensorShape([batch]).concatenate(shape), dtype)
            for key, shape, dtype in zip(params.dense_keys, params.dense_shapes, params.dense_types, strict=True)
        }
        if self._dense:
            return dense
        numbers = tf.int64
        sparse = [
            (tf.TensorSpec([None, 2], numbers), tf.TensorSpec([None], dtype), tf.TensorSpec([2], numbers))
            for dtype in params.sparse_types
        ]
        ragged = [
            (tf.TensorSpec([None], dtype), tf.TensorSpec([None], splits))
            for dtype, splits in zip(params.ragged_value_types, params.ragged_split_types, strict=True)
        ]
        return tuple(dense.values()), tuple(sparse), tuple(ragged)

    def put_together(self, made: tf.data.Dataset, with_position: bool) -> tf.data.Dataset:
        if self._dense:
            return made
        if with_position:
            return made.map(lambda positions, emitted: (positions, self._by_key(*emitted)))
        return made.map(self._by_key)

    def _by_key(self, dense: Any, sparse: Any, ragged: Any) -> dict[str, Any]:
        params = self._params
        found = dict(zip(params.dense_keys, dense, strict=True))
        for key, (indices, values, shape) in zip(params.sparse_keys, sparse, strict=True):
            found[key] = tf.SparseTensor(indices, values, shape)
        for key, (values, splits) in zip(params.ragged_keys, ragged, strict=True):
            found[key] = tf.RaggedTensor.from_row_splits(values, splits, validate=False)
        whole: dict[str, Any] = parsing_ops._construct_tensors_for_composite_features(self._features, found)
        return whole
