"""`tf.train.Example` written without TensorFlow. Pure: the same values, the same bytes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

MOST_RECORD_BYTES = 1 << 30
Value = bytes | Sequence[bytes] | Sequence[int] | Sequence[float]


def serialized(features: Mapping[str, Value]) -> bytes:
    """Features in the order of their names. A sequence with a float in it is of floats, of which those that are too
    large for 32 bits become infinite, as in protobuf; an empty one has no kind."""
    entries = [_field(1, _field(1, name.encode()) + _field(2, _feature(features[name]))) for name in sorted(features)]
    return _field(1, b"".join(entries))


def _feature(value: Value) -> bytes:
    values = [value] if isinstance(value, bytes) else list(value)
    if not values:
        return b""
    if isinstance(values[0], bytes):
        return _field(1, b"".join(_field(1, item) for item in values if isinstance(item, bytes)))
    numbers = [item for item in values if isinstance(item, int | float)]
    if any(isinstance(number, float) for number in numbers):
        return _field(2, _field(1, _floats(numbers)))
    return _field(3, _field(1, b"".join(_varint(int(number) & (1 << 64) - 1) for number in numbers)))


def _floats(numbers: Sequence[float]) -> bytes:
    with np.errstate(over="ignore"):
        return np.asarray(numbers, np.float64).astype("<f4").tobytes()


def _field(number: int, content: bytes) -> bytes:
    return bytes([number << 3 | 2]) + _varint(len(content)) + content


def _varint(value: int) -> bytes:
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
    return bytes(out)
