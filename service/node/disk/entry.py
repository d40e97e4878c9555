"""The entry file, version 1: a header padded to one page, then the stored bytes (pure).

| offset | bytes | field |
|---|---|---|
| 0 | 4 | magic `TFQE` |
| 4 | 1 | version, 1 |
| 5 | 1 | codec: 0 raw, 1 zstd |
| 6 | 2 | zero |
| 8 | 8 | raw length |
| 16 | 8 | stored length |
| 24 | 4 | CRC-32C of the raw bytes |
| 28 | 4 | CRC-32C of the stored bytes |
| 32 | 32 | SHA-256 of the raw bytes |
| 64 | 4 | CRC-32C of bytes 0 to 63 |
| 68 | 4028 | zero |

Integers are little-endian. The page keeps the stored bytes aligned, so that they can be sent and mapped as they lie.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import TypeVar

import google_crc32c
import numpy as np
import numpy.typing as npt

from tfquiver import errors
from tfquiver.disk_space_of_shards.entry_size import PAGE_BYTES

Bytes = TypeVar("Bytes", int, npt.NDArray[np.int64])

HEADER_BYTES = PAGE_BYTES
VERSION = 1
RAW = 0
ZSTD = 1
MAX_BODY_BYTES = 4 << 30
_MAGIC = b"TFQE"
_FIELDS = struct.Struct("<4sBBHQQII32s")
_CRC = struct.Struct("<I")
_PADDING = bytes(HEADER_BYTES - _FIELDS.size - _CRC.size)


@dataclass(frozen=True, slots=True)
class Header:
    codec: int
    raw_length: int
    stored_length: int
    crc32c_raw: int
    crc32c_stored: int
    hash: bytes

    @property
    def file_bytes(self) -> int:
        """Size of the whole entry file."""
        return HEADER_BYTES + self.stored_length

    @property
    def disk_bytes(self) -> int:
        """What the entry takes on the disk, in whole pages: what the ledger counts."""
        return disk_bytes(self.file_bytes)


def disk_bytes(file_bytes: Bytes) -> Bytes:
    """Of one file, or of each of many."""
    return -(-file_bytes // HEADER_BYTES) * HEADER_BYTES


def check_lengths(codec: int, raw_length: int, stored_length: int) -> str:
    """Empty, or what cannot be right about these values; for headers and for frames that announce a body."""
    if codec not in (RAW, ZSTD):
        return f"codec {codec} is unknown"
    if not 0 < raw_length <= MAX_BODY_BYTES:
        return f"raw length {raw_length} is not in 1 to {MAX_BODY_BYTES}"
    if codec == RAW and stored_length != raw_length:
        return f"stored length {stored_length} of a raw body is not its raw length {raw_length}"
    if not 0 < stored_length <= raw_length:
        return f"stored length {stored_length} is not in 1 to the raw length {raw_length}"
    return ""


def encode(header: Header) -> bytes:
    """The page that stands before the stored bytes."""
    if trouble := check_lengths(header.codec, header.raw_length, header.stored_length):
        raise ValueError(f"{header}: {trouble}")
    fields = _FIELDS.pack(
        _MAGIC, VERSION, header.codec, 0, header.raw_length, header.stored_length,
        header.crc32c_raw, header.crc32c_stored, header.hash,
    )  # fmt: skip
    return fields + _CRC.pack(google_crc32c.value(fields)) + _PADDING


def decode(page: bytes, where: str) -> Header:
    """Raises DataLossError naming `where` unless every byte of the page is as `encode` wrote it."""
    if len(page) != HEADER_BYTES:
        raise errors.DataLossError(f"{where}: {len(page)} bytes of header, not {HEADER_BYTES}")
    magic, version, codec, zero, raw_length, stored_length, crc_raw, crc_stored, hash = _FIELDS.unpack_from(page)
    (crc,) = _CRC.unpack_from(page, _FIELDS.size)
    if (
        magic != _MAGIC
        or google_crc32c.value(page[: _FIELDS.size]) != crc
        or page[_FIELDS.size + _CRC.size :] != _PADDING
    ):
        raise errors.DataLossError(f"{where}: the header is damaged")
    if version != VERSION:
        raise errors.DataLossError(f"{where}: entry format {version}; this version reads {VERSION}")
    if trouble := "the reserved field is not zero" if zero else check_lengths(codec, raw_length, stored_length):
        raise errors.DataLossError(f"{where}: {trouble}")
    return Header(codec, raw_length, stored_length, crc_raw, crc_stored, hash)
