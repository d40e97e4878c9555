"""Records whose bytes are numbers: fields one after the other, as `tf.io.decode_raw` reads them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import tensorflow as tf

from tfquiver import errors
from tfquiver.tensorflow_client.parsing.parsing import Parsing
from tfquiver.users_arguments_checked.fixed_length import FixedLength

_MOST_BYTES = 1 << 32  # as the op takes it (ops/tf/parsing/fixed_fields.cc)
TYPES = (
    tf.float16, tf.float32, tf.float64, tf.bfloat16, tf.int8, tf.int16, tf.int32, tf.int64, tf.uint8, tf.uint16,
    tf.complex64, tf.complex128, tf.bool,
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class _Placed:
    key: str
    field: FixedLength
    dtype: tf.DType
    offset_bytes: int  # in the record


class FixedParsing(Parsing):
    """One tensor, or with a mapping, whose order is that of the fields in a record, a dict of them.

    Raises InvalidArgumentError naming the field that cannot be.
    """

    def __init__(self, fields: FixedLength | Mapping[str, FixedLength]) -> None:
        self._alone = isinstance(fields, FixedLength)
        given = {"": fields} if isinstance(fields, FixedLength) else fields
        placed, offset = [], 0
        for key, field in given.items():
            dtype = _dtype(key, field)
            placed.append(_Placed(key, field, dtype, offset))
            offset += dtype.size * field.values
        if offset > _MOST_BYTES:
            raise errors.InvalidArgumentError(f"parse: records of {offset} bytes: the limit is {_MOST_BYTES}")
        self._fields = sorted(placed, key=lambda one: one.key)  # as TensorFlow has what is in a dict

    @property
    def fixed(self) -> bool:
        return True

    def told(self) -> dict[str, Any]:
        return {
            "parse_defaults": [],
            "field_types": [one.dtype for one in self._fields],
            "field_shapes": [one.field.shape for one in self._fields],
            "field_little_endian": [one.field.little_endian for one in self._fields],
            "field_offsets": [one.offset_bytes for one in self._fields],
        }

    def emitted(self, batch: int | None) -> Any:
        specs = {one.key: tf.TensorSpec([batch, *one.field.shape], one.dtype) for one in self._fields}
        return specs[""] if self._alone else specs

    def put_together(self, made: tf.data.Dataset, with_position: bool) -> tf.data.Dataset:
        return made


def _dtype(key: str, field: FixedLength) -> tf.DType:
    said = f"parse: {key or 'FixedLength'}: dtype={field.dtype!r}"
    if isinstance(field.dtype, np.dtype) and not field.dtype.isnative:  # TensorFlow would leave that out
        raise errors.InvalidArgumentError(f"{said}: give the type alone; the order of bytes is little_endian=False")
    if isinstance(field.dtype, int):  # which TensorFlow takes for a number of a type
        raise errors.InvalidArgumentError(f"{said}: must be a tf.DType, its name, or NumPy's")
    try:
        dtype = tf.as_dtype(field.dtype)
    except TypeError as error:
        raise errors.InvalidArgumentError(f"{said}: {error}") from error
    if dtype in TYPES:
        return dtype
    types = ", ".join(sorted(one.name for one in TYPES))
    raise errors.InvalidArgumentError(f"{said}: must be one of {types}")
