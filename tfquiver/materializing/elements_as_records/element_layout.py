"""Elements as records and back, in graphs that any TensorFlow runs: docs/formats.md, "Elements of derived data sets".

What a record looks like depends on the element spec alone, which is part of what the data set is known by. Three forms:

* one string: the record is the string;
* fixed: every tensor is dense, of a fixed shape and of numbers: their bytes, one after the other, little-endian;
* any: a serialized TensorProto of strings, each a serialized TensorProto of one component.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from tfquiver import errors

if TYPE_CHECKING:
    import tensorflow as tf

VERSION = 1
STRING, FIXED, ANY = "string", "fixed", "any"


class ElementLayout:
    """Args:
    spec: of the elements, as `tf.data.Dataset.element_spec` gives it.

    Raises InvalidArgumentError: something in it cannot be kept (a data set, a resource); names it.
    """

    def __init__(self, spec: Any) -> None:
        import tensorflow as tf
        from tensorflow.python.data.util.structure import NoneTensorSpec

        self.spec = spec
        if any(isinstance(one, NoneTensorSpec) for one in tf.nest.flatten(spec)):
            raise errors.InvalidArgumentError(f"fn returns None in {spec}, which cannot be kept: leave it out")
        self._components = tf.nest.flatten(spec, expand_composites=True)
        if not self._components:
            raise errors.InvalidArgumentError(f"fn returns no tensors: {spec}")
        for one in self._components:
            if not isinstance(one, tf.TensorSpec) or one.dtype in (tf.resource, tf.variant) or one.dtype.is_quantized:
                raise errors.InvalidArgumentError(
                    f"fn returns {one}, which cannot be kept: return tensors, also ragged or sparse ones or strings, "
                    "in tuples, dicts or dataclasses; one element of each record, so neither a Dataset nor an Optional"
                )
        self.form = self._form()

    def encode(self, element: Any) -> tf.Tensor:
        """The record, a string scalar. Fails where the element is not as its spec says, as `set_shape` in a function
        may have it say what is not so: its bytes would be others' then."""
        import tensorflow as tf

        given = zip(tf.nest.flatten(element, expand_composites=True), self._components, strict=True)
        parts = [tf.ensure_shape(part, spec.shape) for part, spec in given]
        if self.form == STRING:
            return tf.reshape(parts[0], [])
        if self.form == FIXED:
            joined = tf.concat([_bytes_of(part) for part in parts], 0)
            size_bytes = sum(self._sizes_bytes())
            # The bytes of a tensor stand at the end of its TensorProto; TensorFlow has no op that gives them alone.
            return tf.strings.substr(tf.io.serialize_tensor(joined), -size_bytes, size_bytes)
        return tf.io.serialize_tensor(tf.stack([tf.io.serialize_tensor(part) for part in parts]))

    def decode(self, record: tf.Tensor) -> Any:
        """The element of a record; of a vector of records, where the form is not ANY, a batch of elements."""
        import tensorflow as tf

        if self.form == STRING:
            return self._packed([record])
        if self.form == FIXED:
            return self._packed(self._decode_fixed(record))
        strings = tf.ensure_shape(tf.io.parse_tensor(record, tf.string), [len(self._components)])
        parts = []
        for index, spec in enumerate(self._components):
            parts.append(tf.ensure_shape(tf.io.parse_tensor(strings[index], spec.dtype), spec.shape))
        return self._packed(parts)

    @property
    def batches(self) -> bool:
        """Whether `decode` takes vectors of records."""
        return self.form != ANY

    def _form(self) -> str:
        import tensorflow as tf

        one = self._components[0]
        if len(self._components) == 1 and one.dtype == tf.string and one.shape.rank == 0:
            return STRING
        fixed = all(
            spec.shape.is_fully_defined() and not spec.dtype.is_quantized
            and (spec.dtype.is_floating or spec.dtype.is_integer or spec.dtype.is_complex or spec.dtype.is_bool)
            for spec in self._components
        )  # fmt: skip
        return FIXED if fixed and sum(self._sizes_bytes()) > 0 else ANY

    def _sizes_bytes(self) -> list[int]:
        return [spec.dtype.size * math.prod(spec.shape.as_list()) for spec in self._components]

    def _decode_fixed(self, record: tf.Tensor) -> list[tf.Tensor]:
        import tensorflow as tf

        batch = tf.shape(record)
        data = tf.io.decode_raw(record, tf.uint8)
        static = record.shape.concatenate(tf.TensorShape([sum(self._sizes_bytes())]))
        data = tf.ensure_shape(data, static)
        parts, at = [], 0
        for spec, size_bytes in zip(self._components, self._sizes_bytes(), strict=True):
            some = data if size_bytes == static[-1] else data[..., at : at + size_bytes]
            at += size_bytes
            shape = tf.concat([batch, tf.constant(spec.shape.as_list(), tf.int32)], 0)
            if spec.dtype == tf.uint8:
                part = tf.reshape(some, shape)
            elif spec.dtype == tf.bool:
                part = tf.cast(tf.reshape(some, shape), tf.bool)
            elif spec.dtype.size == 1:
                part = tf.bitcast(tf.reshape(some, shape), spec.dtype)
            else:
                cells = tf.concat([shape, [spec.dtype.size]], 0)
                part = tf.bitcast(tf.reshape(some, cells), spec.dtype)
            parts.append(tf.ensure_shape(part, record.shape.concatenate(spec.shape)))
        return parts

    def _packed(self, parts: list[tf.Tensor]) -> Any:
        import tensorflow as tf

        return tf.nest.pack_sequence_as(self.spec, parts, expand_composites=True)


def _bytes_of(part: tf.Tensor) -> tf.Tensor:
    import tensorflow as tf

    if part.dtype == tf.bool:
        part = tf.cast(part, tf.uint8)
    return tf.reshape(part if part.dtype == tf.uint8 else tf.bitcast(part, tf.uint8), [-1])
