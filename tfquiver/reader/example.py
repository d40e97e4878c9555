"""`tf.train.Example` records without TensorFlow or protobuf: the wire format read where it lies.

message Example { Features features = 1; }  message Features { map<string, Feature> feature = 1; }
message Feature { oneof kind { BytesList bytes_list = 1; FloatList float_list = 2; Int64List int64_list = 3; } }
each list: repeated value = 1, packed or not (tensorflow/core/example/{example,feature}.proto).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import numpy.typing as npt

from tfquiver import errors

Feature = list[bytes] | npt.NDArray[np.float32] | npt.NDArray[np.int64]

_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_FIXED_BYTES = {_FIXED64: 8, _FIXED32: 4}
_MOST_VARINT_BYTES = 10


def parse_example(record: bytes | memoryview) -> dict[str, Feature]:
    """The features of a serialized `tf.train.Example` by name.

    Values of bytes features are `list[bytes]`, of float features `float32`, of integer features `int64` arrays of
    shape [values]; a feature without a kind is an empty list. Of a name that comes twice, the last counts.

    Raises DataLossError: the record is no Example; says at which of its bytes.
    """
    data = memoryview(record).cast("B")
    found: dict[str, Feature] = {}
    for features in _fields(data, 0, len(data), 1):
        for begin, end in _fields(data, *features, 1):
            name, feature = b"", (end, end)
            for number, kind, first, last in _all_fields(data, begin, end):
                if kind == _BYTES and number == 1:
                    name = bytes(data[first:last])
                elif kind == _BYTES and number == 2:
                    feature = (first, last)
            try:
                text = name.decode()
            except UnicodeDecodeError:
                raise _damaged(begin, "a feature's name is not UTF-8") from None
            found[text] = _feature(data, *feature)
    return found


def _feature(data: memoryview, begin: int, end: int) -> Feature:
    value: Feature = []
    for number, kind, first, last in _all_fields(data, begin, end):
        if kind == _BYTES and number in _KINDS:
            value = _KINDS[number](data, first, last)
    return value


def _bytes_list(data: memoryview, begin: int, end: int) -> Feature:
    return [bytes(data[first:last]) for first, last in _fields(data, begin, end, 1)]


def _float_list(data: memoryview, begin: int, end: int) -> Feature:
    parts = []
    for number, kind, first, last in _all_fields(data, begin, end):
        if number == 1 and kind in (_BYTES, _FIXED32):
            if (last - first) % 4:
                raise _damaged(first, "floats that are not of 4 bytes each")
            parts.append(np.frombuffer(data[first:last], "<f4"))
    if not parts:
        return np.empty(0, np.float32)
    return parts[0].astype(np.float32) if len(parts) == 1 else np.concatenate(parts).astype(np.float32)


def _int64_list(data: memoryview, begin: int, end: int) -> Feature:
    values: list[int] = []
    for number, kind, first, last in _all_fields(data, begin, end):
        if number != 1:
            continue
        at = first
        while kind in (_BYTES, _VARINT) and at < last:
            value, at = _varint(data, at, last)
            values.append(value)
    return np.array(values, np.uint64).astype(np.int64)


_KINDS: dict[int, Callable[[memoryview, int, int], Feature]] = {1: _bytes_list, 2: _float_list, 3: _int64_list}


def _fields(data: memoryview, begin: int, end: int, number: int) -> Iterator[tuple[int, int]]:
    """Where the length-delimited fields of this number are."""
    for found, kind, first, last in _all_fields(data, begin, end):
        if found == number and kind == _BYTES:
            yield first, last


def _all_fields(data: memoryview, begin: int, end: int) -> Iterator[tuple[int, int, int, int]]:
    """(number, wire type, first and last byte of the value) of each field of a message."""
    at = begin
    while at < end:
        start = at
        tag, at = _varint(data, at, end)
        kind = tag & 7
        if kind == _BYTES:
            length, at = _varint(data, at, end)
            last = at + length
        elif kind == _VARINT:
            _, last = _varint(data, at, end)
        elif kind in _FIXED_BYTES:
            last = at + _FIXED_BYTES[kind]
        else:
            raise _damaged(start, f"wire type {kind}")
        if last > end or not tag >> 3:
            raise _damaged(start, "a field that does not fit")
        yield tag >> 3, kind, at, last
        at = last


def _varint(data: memoryview, at: int, end: int) -> tuple[int, int]:
    value, shift = 0, 0
    for place in range(at, min(end, at + _MOST_VARINT_BYTES)):
        byte = data[place]
        value |= (byte & 127) << shift
        if byte < 128:
            return value & (1 << 64) - 1, place + 1
        shift += 7
    raise _damaged(at, "a number without an end")


def _damaged(at: int, what: str) -> errors.DataLossError:
    return errors.DataLossError(f"this record is no tf.train.Example: {what}, at byte {at}")
