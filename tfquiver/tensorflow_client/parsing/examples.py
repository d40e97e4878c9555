"""Records that are `tf.train.Example` protos leave the source as tensors.

What features mean, and which of them cannot be, is TensorFlow's to say (`tf.io.parse_example`): here they become what
the op is told, and what the op emits becomes elements.
"""

from __future__ import annotations

import math
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
_TYPES = (tf.float32, tf.int64, tf.string)
_SEQUENCE = parsing_ops.FixedLenSequenceFeature
_MOST_DIMENSIONS = 254  # of a tensor
_MOST_VALUES = 1 << 32
_WRONG = (TypeError, ValueError, tf.errors.OpError)


class ExampleParsing(Parsing):
    """A mapping from keys to `tf.io` features, as `tf.io.parse_example` takes it.

    Raises InvalidArgumentError: `features` is no such mapping; names the feature.
    """

    def __init__(self, features: Mapping[str, Any]) -> None:
        for key, feature in features.items():
            _check(key, feature)
        try:
            self._features = parsing_ops._prepend_none_dimension(dict(features))
            self._params = parsing_ops._ParseOpParams.from_features(self._features, _KINDS)
            self._defaults = self._params.dense_defaults_vec
        except _WRONG as error:
            raise errors.InvalidArgumentError(f"parse: {_of_one(features) or error}") from error

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


def _check(key: str, feature: Any) -> None:
    """What TensorFlow's own op meets later, or ends the process at. Raises InvalidArgumentError."""
    if type(feature) not in _KINDS:
        return  # said better by who knows all kinds
    said = f"parse: feature {key}"
    if feature.dtype not in _TYPES:
        types = ", ".join(f"tf.{one.name}" for one in _TYPES)
        raise errors.InvalidArgumentError(f"{said}: dtype={feature.dtype!r}: must be one of {types}")
    try:
        shape = tf.TensorShape(getattr(feature, "shape", []))
    except (TypeError, ValueError) as error:
        raise errors.InvalidArgumentError(f"{said}: shape={feature.shape!r}: {error}") from error
    if shape.rank is None:
        return
    with_batch = shape.rank + 1 + isinstance(feature, _SEQUENCE)
    if with_batch > _MOST_DIMENSIONS:
        raise errors.InvalidArgumentError(
            f"{said}: {with_batch} dimensions, with the batch: at most {_MOST_DIMENSIONS}"
        )
    if math.prod(size for size in shape.as_list() if size is not None) > _MOST_VALUES:
        raise errors.InvalidArgumentError(
            f"{said}: shape={feature.shape!r}: more than {_MOST_VALUES} values, which no record has"
        )
    if isinstance(feature, _SEQUENCE) and 0 in shape.as_list():
        raise errors.InvalidArgumentError(f"{said}: a sequence of no values: shape={feature.shape!r}")


def _of_one(features: Mapping[str, Any]) -> str:
    """Which one it is, and what is wrong with it; "": none by itself."""
    for key, feature in features.items():
        try:
            prepared = parsing_ops._prepend_none_dimension({key: feature})
            parsing_ops._ParseOpParams.from_features(prepared, _KINDS).dense_defaults_vec  # noqa: B018 - made here
        except _WRONG as error:
            return f"feature {key}: {error}"
    return ""
