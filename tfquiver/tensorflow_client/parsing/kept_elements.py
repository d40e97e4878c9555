"""Elements of derived data sets whose records are their tensors' bytes (docs/formats.md), made where batches are."""

from __future__ import annotations

import math
from typing import Any

import tensorflow as tf
from tensorflow.python.data.util import structure

from tfquiver.materializing.elements_as_records.element_layout import FIXED, ElementLayout
from tfquiver.tensorflow_client.parsing.fixed_length import TYPES
from tfquiver.tensorflow_client.parsing.parsing import Parsing

_MOST_DIMENSIONS = 253  # of a tensor, its batch's left out


class KeptParsing(Parsing):
    """A batch is copied once, from the records into its tensors; a graph copies it in `decode_raw`, and again where it
    takes a part of that. Use `parsing_of_kept`."""

    def __init__(self, layout: ElementLayout) -> None:
        self._spec = layout.spec
        self._fields: list[tf.TensorSpec] = tf.nest.flatten(layout.spec)

    @property
    def fixed(self) -> bool:
        return True

    def told(self) -> dict[str, Any]:
        ends = [0]
        for field in self._fields:
            ends.append(ends[-1] + field.dtype.size * math.prod(field.shape))
        return {
            "parse_defaults": [],
            "field_types": [field.dtype for field in self._fields],
            "field_shapes": [field.shape for field in self._fields],
            "field_little_endian": [True] * len(self._fields),
            "field_offsets": ends[:-1],
        }

    def emitted(self, batch: int | None) -> Any:
        return tf.nest.map_structure(lambda one: tf.TensorSpec([batch, *one.shape], one.dtype), self._spec)

    def put_together(self, made: tf.data.Dataset, with_position: bool) -> tf.data.Dataset:
        return made


def parsing_of_kept(layout: ElementLayout) -> KeptParsing | None:
    """None: these have to be decoded by a graph."""
    if layout.form != FIXED:
        return None
    fields = tf.nest.flatten(layout.spec)
    possible = all(
        field.dtype in TYPES and math.prod(field.shape) > 0 and field.shape.rank <= _MOST_DIMENSIONS for field in fields
    )
    # The op's tensors come in tf.data's order, which is that of the bytes wherever both flatten alike.
    alike = structure.get_flat_tensor_types(layout.spec) == [field.dtype for field in fields]
    return KeptParsing(layout) if possible and alike else None
