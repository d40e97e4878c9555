"""Elements of a pipeline as bytes, and back: `<u32 tensors> <u64 bytes of each>`, then TensorProtos."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Sequence
from typing import Any, NamedTuple

from tfquiver import errors

_COUNT = struct.Struct("<I")
_MOST_TENSORS = 4096


def header(tensors: Sequence[bytes]) -> bytes:
    return _COUNT.pack(len(tensors)) + struct.pack(f"<{len(tensors)}Q", *map(len, tensors))


def crc32(parts: Sequence[bytes]) -> int:
    """Of what they are together."""
    found = 0
    for part in parts:
        found = zlib.crc32(part, found)
    return found


class Sum(NamedTuple):
    """What a batch came to."""

    crc32: int
    length_bytes: int


def sum_of(tensors: Sequence[bytes]) -> Sum:
    parts = [header(tensors), *tensors]
    return Sum(crc32(parts), sum(map(len, parts)))


def tensors(packed: bytes | memoryview) -> list[bytes]:
    """Raises DataLossError."""
    view = memoryview(packed)
    count = _COUNT.unpack_from(view)[0] if len(view) >= _COUNT.size else _MOST_TENSORS + 1
    at = _COUNT.size + 8 * count
    if count > _MOST_TENSORS or at > len(view):
        raise errors.DataLossError(f"a batch of {len(view)} bytes that is none")
    lengths = struct.unpack_from(f"<{count}Q", view, _COUNT.size)
    if at + sum(lengths) != len(view):
        raise errors.DataLossError(f"a batch of {len(view)} bytes, which should have {at + sum(lengths)}")
    found = []
    for length in lengths:
        found.append(bytes(view[at : at + length]))
        at += length
    return found


def packed_dataset(dataset: Any) -> Any:
    """Elements become vectors of serialised tensors."""
    import tensorflow as tf

    def pack(*element: Any) -> Any:
        flat = tf.nest.flatten(element, expand_composites=True)
        return tf.stack([tf.io.serialize_tensor(one) for one in flat])

    return dataset.map(pack)


def unpacked_dataset(dataset: Any, spec: Any) -> Any:
    """The other way round."""
    import tensorflow as tf

    leaves = tf.nest.flatten(spec, expand_composites=True)

    def unpack(packed: Any) -> Any:
        flat = [
            tf.ensure_shape(tf.io.parse_tensor(packed[at], leaf.dtype), leaf.shape) for at, leaf in enumerate(leaves)
        ]
        return tf.nest.pack_sequence_as(spec, flat, expand_composites=True)

    return dataset.map(unpack)
