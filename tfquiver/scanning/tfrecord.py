"""A streaming TFRecord scanner: finds record ends and checks both CRCs of every record.

The format (tensorflow/core/lib/io/record_writer.h): u64 length, u32 masked CRC-32C of those 8 bytes, payload, u32
masked CRC-32C of the payload; little-endian.

Memory is bounded by one chunk of the stream, whatever a length field claims.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from typing import NamedTuple

import google_crc32c

from tfquiver import errors

HEADER_BYTES = 12
FOOTER_BYTES = 4
FRAMING_BYTES = HEADER_BYTES + FOOTER_BYTES
RECORD_LIMIT_BYTES = 1 << 31  # tf.train.Example cannot be larger either: a protobuf ends at 2 GiB

_MASK_DELTA = 0xA282EAD8
_HEADER = struct.Struct("<QI")
_FOOTER = struct.Struct("<I")
_KNOWN_LENGTHS = 4096


class Block(NamedTuple):
    """A run of the stream. Blocks joined are the stream; a record may begin in one block and end in a later one."""

    data: bytes
    ends: list[int]  # positions in `data` just after a record
    crcs: list[int]  # plain CRC-32C of those records' payloads


def masked(crc: int) -> int:
    """The form in which TFRecord files store a CRC."""
    return (((crc >> 15) | (crc << 17)) + _MASK_DELTA) & 0xFFFFFFFF


def frame(payload: bytes) -> bytes:
    """One record as it stands in a TFRecord file."""
    length = struct.pack("<Q", len(payload))
    return b"".join(
        (
            length,
            _FOOTER.pack(masked(google_crc32c.value(length))),
            payload,
            _FOOTER.pack(masked(google_crc32c.value(payload))),
        )
    )


def starts_with_record(head: bytes) -> bool:
    """Whether `head` (12 bytes or more) begins with a valid record header."""
    if len(head) < HEADER_BYTES:
        return False
    stored: int = _HEADER.unpack_from(head)[1]
    return masked(google_crc32c.value(head[:8])) == stored


class RecordScanner:
    """Takes the stream in chunks of any size; gives it back in blocks with the records' ends."""

    def __init__(self, name: str, stream_bytes: int | None = None, start: int = 0) -> None:
        """`name` is for messages; `stream_bytes` is where the stream ends, if known; `start` where the chunks begin."""
        self._name = name
        self._stream_bytes = stream_bytes
        self._offset = start  # in the stream, of the next block
        self._carry = b""  # a header or footer that is not whole yet
        self._open_at: int | None = None  # offset of the record whose payload has begun
        self._left = 0  # of its payload
        self._crc = 0  # of its payload so far
        self._known: dict[int, int] = {}

    def feed(self, chunk: bytes) -> Block:
        """Raises DataLossError naming the file and the damaged record's offset."""
        data = self._carry + chunk if self._carry else chunk
        available = len(data)
        ends: list[int] = []
        crcs: list[int] = []
        position = self._finish_open_record(data, ends, crcs)
        value, header, footer, known = google_crc32c.value, _HEADER.unpack_from, _FOOTER.unpack_from, self._known
        while self._open_at is None and available - position >= HEADER_BYTES:
            length, length_crc = header(data, position)
            if known.get(length) != length_crc:
                self._check_header(data, position, length, length_crc)
            end = position + length + FRAMING_BYTES
            if end > available:
                self._open(position, length)
                position = self._finish_open_record(data, ends, crcs, position + HEADER_BYTES)
                break
            crc = value(data[position + HEADER_BYTES : end - FOOTER_BYTES])
            if (((crc >> 15) | (crc << 17)) + _MASK_DELTA) & 0xFFFFFFFF != footer(data, end - FOOTER_BYTES)[0]:
                raise self._damaged("data CRC", self._offset + position)
            ends.append(end)
            crcs.append(crc)
            position = end
        self._carry = data[position:]
        self._offset += position
        return Block(data if position == available else data[:position], ends, crcs)

    def finish(self) -> None:
        """The stream is over. Raises DataLossError when it ends inside a record."""
        seen = self._offset + len(self._carry)
        if self._open_at is not None or self._carry:
            at = self._offset if self._open_at is None else self._open_at
            raise errors.DataLossError(
                f"{self._name}: truncated: the record at offset {at} is cut off at the stream's end, {seen}{_hint(at)}"
            )
        if self._stream_bytes is not None and seen != self._stream_bytes:
            raise errors.DataLossError(f"{self._name}: {seen} bytes came where {self._stream_bytes} were listed")

    def _open(self, position: int, length: int) -> None:
        self._open_at = self._offset + position
        self._left = length
        self._crc = 0

    def _finish_open_record(self, data: bytes, ends: list[int], crcs: list[int], position: int = 0) -> int:
        """Takes what `data` has of the open record from `position` on; returns where it stopped."""
        if self._open_at is None:
            return position
        if self._left:
            taken = data[position : position + self._left]
            self._crc = google_crc32c.extend(self._crc, taken)
            self._left -= len(taken)
            position += len(taken)
        if self._left or len(data) - position < FOOTER_BYTES:
            return position
        if masked(self._crc) != _FOOTER.unpack_from(data, position)[0]:
            raise self._damaged("data CRC", self._open_at)
        self._open_at = None
        position += FOOTER_BYTES
        ends.append(position)
        crcs.append(self._crc)
        return position

    def _check_header(self, data: bytes, position: int, length: int, length_crc: int) -> None:
        at = self._offset + position
        if masked(google_crc32c.value(data[position : position + 8])) != length_crc:
            raise self._damaged("length CRC", at)
        if self._stream_bytes is not None and length > self._stream_bytes - at - FRAMING_BYTES:
            raise errors.DataLossError(
                f"{self._name}: truncated: the record at offset {at} claims {length} bytes, "
                f"but the stream ends at {self._stream_bytes}"
            )
        if length > RECORD_LIMIT_BYTES:
            raise errors.DataLossError(
                f"{self._name}: the record at offset {at} claims {length} bytes; records end at {RECORD_LIMIT_BYTES}"
            )
        if len(self._known) < _KNOWN_LENGTHS:
            self._known[length] = length_crc

    def _damaged(self, what: str, offset: int) -> errors.DataLossError:
        return errors.DataLossError(f"{self._name}: damaged {what} of the record at offset {offset}{_hint(offset)}")


_NO_TFRECORD = (
    "; is it a TFRecord file? `tfquiver pack` makes such files of images, tars and Parquet; files of any kind are read "
    "as files, through `tfquiver mount`, for which commands take --format=bytes"
)


def _hint(offset: int) -> str:
    return "" if offset else _NO_TFRECORD


def scan(chunks: Iterable[bytes], *, name: str, stream_bytes: int | None = None, start: int = 0) -> Iterator[Block]:
    """Scans a whole stream.

    Args:
      chunks: the uncompressed TFRecord stream in pieces of any size.
      name: of the file, for messages.
      stream_bytes: length of the stream where it is known: a record that claims more fails at once.
      start: offset in the stream of the first chunk; a record begins there.

    Raises:
      DataLossError: a CRC does not match, or the stream ends inside a record; names the file and the record's offset.
    """
    scanner = RecordScanner(name, stream_bytes, start)
    for chunk in chunks:
        block = scanner.feed(chunk)
        if block.data:
            yield block
    scanner.finish()
