"""Protocol-buffer wire format, as much of it as messages without published descriptions need.

TensorFlow's wheel carries no Python code for the dispatcher's journal and RPC messages; their field numbers are
stated where they are used, and tests compare them with what a real dispatcher writes.
"""

from __future__ import annotations

from collections.abc import Iterator

from tfquiver import errors

_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_MAX_VARINT_BYTES = 10


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = 0
    for index in range(_MAX_VARINT_BYTES):
        if at + index >= len(data):
            break
        byte = data[at + index]
        value |= (byte & 0x7F) << (7 * index)
        if byte < 0x80:
            return value, at + index + 1
    raise errors.ProtocolError(f"protocol buffer: bad varint at byte {at} of {len(data)}")


def fields(message: bytes) -> Iterator[tuple[int, int | bytes]]:
    """The (field number, value) pairs of a message, in order: integers for varints, bytes for everything else.

    Raises:
      ProtocolError: `message` is not a protocol buffer; names the byte.
    """
    at = 0
    while at < len(message):
        key, at = _varint(message, at)
        kind = key & 7
        if kind == _VARINT:
            value, at = _varint(message, at)
            yield key >> 3, value
            continue
        if kind == _BYTES:
            length, at = _varint(message, at)
        elif kind in (_FIXED64, _FIXED32):
            length = 8 if kind == _FIXED64 else 4
        else:
            raise errors.ProtocolError(f"protocol buffer: wire type {kind} before byte {at}")
        if length > len(message) - at:
            raise errors.ProtocolError(f"protocol buffer: a field of {length} bytes at byte {at} of {len(message)}")
        yield key >> 3, message[at : at + length]
        at += length


def integer(number: int, value: int) -> bytes:
    """One varint field; `value` is not negative."""
    return _encoded(number << 3 | _VARINT) + _encoded(value)


def text(number: int, value: str | bytes) -> bytes:
    """One length-delimited field: a string, bytes or a message already encoded."""
    raw = value.encode() if isinstance(value, str) else value
    return _encoded(number << 3 | _BYTES) + _encoded(len(raw)) + raw


def _encoded(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)
