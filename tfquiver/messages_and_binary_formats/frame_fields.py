"""Fields of the byte protocols' payloads, read one after the other (pure; docs/protocol.md)."""

from __future__ import annotations

import struct

from tfquiver.errors import ProtocolError

MAX_STRING_BYTES = 8192
MAX_INDEXES = 16000  # of ACK, HELD, WANT and DROPPED: what fits one frame, rounded down

_U8 = struct.Struct("<B")
_U16 = struct.Struct("<H")
_U32 = struct.Struct("<I")
_U64 = struct.Struct("<Q")


class Fields:
    """Reads a payload field by field; every complaint names the frame and the field."""

    def __init__(self, frame: str, payload: memoryview) -> None:
        self.frame, self._payload, self._at = frame, payload, 0

    def _take(self, size: int, field: str) -> memoryview:
        part = self._payload[self._at : self._at + size]
        if len(part) != size:
            raise ProtocolError(f"{self.frame} frame: cut short at {field}: {len(self._payload)} bytes of payload")
        self._at += size
        return part

    def _number(self, form: struct.Struct, field: str, most: int) -> int:
        value: int = form.unpack(self._take(form.size, field))[0]
        if value > most:
            raise ProtocolError(f"{self.frame} frame: {field} is {value}, more than {most}")
        return value

    def u8(self, field: str, most: int) -> int:
        return self._number(_U8, field, most)

    def flag(self, field: str) -> bool:
        return self.u8(field, 1) == 1

    def u16(self, field: str) -> int:
        return self._number(_U16, field, 0xFFFF)

    def u32(self, field: str) -> int:
        return self._number(_U32, field, 0xFFFFFFFF)

    def u64(self, field: str, most: int = (1 << 64) - 1) -> int:
        return self._number(_U64, field, most)

    def id(self, field: str) -> bytes:
        return bytes(self._take(32, field))

    def text(self, field: str) -> str:
        size = self._number(_U16, field + " (its length)", MAX_STRING_BYTES)
        try:
            return str(self._take(size, field), "utf-8")
        except UnicodeDecodeError as error:
            raise ProtocolError(f"{self.frame} frame: {field} is not UTF-8") from error

    def indexes(self, field: str) -> tuple[int, ...]:
        count = self._number(_U32, field + " (their number)", MAX_INDEXES)
        return struct.unpack(f"<{count}I", self._take(4 * count, field))

    def blob(self, field: str) -> bytes:
        return bytes(self._take(self.u32(field + " (its length)"), field))

    def end(self) -> None:
        if self._at != len(self._payload):
            raise ProtocolError(f"{self.frame} frame: {len(self._payload) - self._at} bytes too many")


def clipped(message: object) -> str:
    """A message that fits a frame."""
    return str(message).encode()[:MAX_STRING_BYTES].decode(errors="ignore")


def text(value: str) -> bytes:
    data = value.encode()
    if len(data) > MAX_STRING_BYTES:
        raise ProtocolError(f"a string of {len(data)} bytes does not fit a frame (at most {MAX_STRING_BYTES})")
    return _U16.pack(len(data)) + data
