"""The digest file, TFQD versions 1 and 2: bytes to columns and back. docs/format/digest.md describes it.

Every byte is covered: the header by its CRC, each section by its own, padding must be zero, and the
length is in the header.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

import google_crc32c
import numpy as np
import numpy.typing as npt

from tfquiver import errors
from tfquiver.digests import formats
from tfquiver.digests.digest_ids import Columns
from tfquiver.digests.file_table import FileTable

MAGIC = b"TFQD"
VERSIONS = {formats.TFRECORD: 1, formats.BYTES: 2}
_FORMATS = {version: format for format, version in VERSIONS.items()}
_ALIGNMENT = 64
_SECTIONS = ("name", "file table", "hashes", "file_index", "offsets", "lengths", "records")
_HEADER = struct.Struct("<4sIQ32s32s")  # magic, version, file length, content root, digest id
_SECTION = struct.Struct("<QQII")  # offset, length, CRC-32C, zero
_CRC = struct.Struct("<I")
_HEADER_CRC_AT = _HEADER.size + len(_SECTIONS) * _SECTION.size
_HEADER_BYTES = _HEADER_CRC_AT + _CRC.size
_NAME_LIMIT = 1024

Buffer = npt.NDArray[np.uint8]


@dataclass(frozen=True, slots=True)
class Parts:
    """What a digest file holds. `columns` are views of the buffer it was read from."""

    name: str
    content_root: bytes
    digest_id: bytes
    files: FileTable
    columns: Columns
    format: str = formats.TFRECORD


def encode(parts: Parts) -> list[bytes]:
    """The file, in pieces to be written one after the other."""
    columns = parts.columns
    bodies = [
        parts.name.encode(),
        parts.files.data,
        columns.hashes.astype("u1", copy=False).tobytes(),
        columns.file_index.astype("<u4", copy=False).tobytes(),
        columns.offsets.astype("<u8", copy=False).tobytes(),
        columns.lengths.astype("<u8", copy=False).tobytes(),
        columns.records.astype("<u4", copy=False).tobytes(),
    ]
    table, pieces, position = b"", [], _aligned(_HEADER_BYTES)
    for body in bodies:
        table += _SECTION.pack(position, len(body), google_crc32c.value(body), 0)
        pieces += [body, bytes(_aligned(len(body)) - len(body))]
        position += _aligned(len(body))
    header = _HEADER.pack(MAGIC, VERSIONS[parts.format], position, parts.content_root, parts.digest_id) + table
    header += _CRC.pack(google_crc32c.value(header))
    return [header.ljust(_aligned(_HEADER_BYTES), b"\0"), *pieces]


def decode(buffer: Buffer, where: str) -> Parts:
    """Checks every byte of `buffer` (uint8 [bytes]); `where` names it in messages.

    Raises CorruptDigestError naming the part that is damaged.
    """
    header = _check_header(buffer, where)
    _, version, _, content_root, digest_id = _HEADER.unpack_from(header)
    bodies = [_section(buffer, header, index, where) for index in range(len(_SECTIONS))]
    name, table, hashes, file_index, offsets, lengths, records = bodies
    shards = len(hashes) // 32
    for column, width in ((hashes, 32), (file_index, 4), (offsets, 8), (lengths, 8), (records, 4)):
        if len(column) != shards * width:
            raise _corrupt(where, "the columns have different lengths")
    columns = Columns(
        hashes.reshape(shards, 32),
        file_index.view("<u4"),
        offsets.view("<u8"),
        lengths.view("<u8"),
        records.view("<u4"),
    )
    try:
        files = FileTable(table.tobytes())
    except ValueError as error:
        raise _corrupt(where, str(error)) from error
    parts = Parts(_text(name.tobytes(), where, "name"), content_root, digest_id, files, columns, _FORMATS[version])
    check(parts, where)
    return parts


def check(parts: Parts, where: str) -> None:
    """Shards stand in file order and each file's follow one another from offset 0. Raises CorruptDigestError."""
    columns = parts.columns
    if len(parts.name) > _NAME_LIMIT:
        raise _corrupt(where[:100], f"the name is longer than {_NAME_LIMIT} characters")
    shapes = {column.shape for column in (columns.file_index, columns.offsets, columns.lengths, columns.records)}
    if shapes != {(len(columns.hashes),)}:
        raise _corrupt(where, "the columns have different lengths")
    if len(columns.hashes):
        _check_rows(columns, len(parts.files), where)
        _check_records(columns, parts.format, where)
    if parts.format == formats.BYTES:
        _check_whole(parts, where)


def _aligned(length: int) -> int:
    return -(-length // _ALIGNMENT) * _ALIGNMENT


def _corrupt(where: str, what: str) -> errors.CorruptDigestError:
    return errors.CorruptDigestError(f"{where}: {what}; build the digest again or copy it again")


def _check_header(buffer: Buffer, where: str) -> bytes:
    header = buffer[:_HEADER_BYTES].tobytes()
    if header[:4] != MAGIC:
        raise _corrupt(where, "not a digest file (it does not begin with TFQD)")
    if len(header) < _HEADER_BYTES:
        raise _corrupt(where, f"truncated: {len(header)} bytes")
    _, version, length, _, _ = _HEADER.unpack_from(header)
    if version not in _FORMATS:
        raise _corrupt(where, f"digest format version {version}; this tfquiver reads versions 1 and 2")
    if google_crc32c.value(header[:_HEADER_CRC_AT]) != _CRC.unpack_from(header, _HEADER_CRC_AT)[0]:
        raise _corrupt(where, "the header's checksum does not match")
    if length != len(buffer):
        raise _corrupt(where, f"{len(buffer)} bytes where the header says {length}")
    if buffer[_HEADER_BYTES : _aligned(_HEADER_BYTES)].any():
        raise _corrupt(where, "padding after the header is not zero")
    return header


def _section(buffer: Buffer, header: bytes, index: int, where: str) -> Buffer:
    """The bytes of a section. Sections follow one another, each padded with zeros."""
    name = _SECTIONS[index]
    offset, length, crc, zero = _SECTION.unpack_from(header, _HEADER.size + index * _SECTION.size)
    if index == 0:
        expected = _aligned(_HEADER_BYTES)
    else:
        before, before_length, _, _ = _SECTION.unpack_from(header, _HEADER.size + (index - 1) * _SECTION.size)
        expected = before + _aligned(before_length)
    end = offset + _aligned(length)
    if offset != expected or zero or end > len(buffer) or (index == len(_SECTIONS) - 1 and end != len(buffer)):
        raise _corrupt(where, f"the section table is wrong at {name!r}")
    if google_crc32c.value(buffer[offset : offset + length]) != crc:
        raise _corrupt(where, f"the checksum of section {name!r} does not match")
    if buffer[offset + length : end].any():
        raise _corrupt(where, f"padding after section {name!r} is not zero")
    return buffer[offset : offset + length]


def _text(data: bytes, where: str, what: str) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise _corrupt(where, f"the {what} is not UTF-8") from error


def _check_rows(columns: Columns, files: int, where: str) -> None:
    file_index, offsets, lengths = columns.file_index, columns.offsets, columns.lengths
    if (file_index[1:] < file_index[:-1]).any() or int(file_index[-1]) >= files:
        raise _corrupt(where, "the file_index column is not in order or names a file that is not in the table")
    if int(lengths.max()) >= 1 << 32 or int(offsets.max()) >= 1 << 62:
        raise _corrupt(where, "a shard's offset or length is out of range")
    expected = offsets[:-1] + lengths[:-1]
    expected[file_index[1:] != file_index[:-1]] = 0
    if int(offsets[0]) or (offsets[1:] != expected).any():
        raise _corrupt(where, "a shard does not begin where the one before it ends")


def _check_records(columns: Columns, format: str, where: str) -> None:
    lengths = columns.lengths
    if format == formats.BYTES:
        if columns.records.any() or not lengths.all():
            raise _corrupt(where, "a shard of bytes has records, or no bytes")
    elif not columns.records.all() or (lengths < columns.records.astype(np.uint64) * np.uint64(16)).any():
        raise _corrupt(where, "a shard has no records, or more than fit its length")


def _check_whole(parts: Parts, where: str) -> None:
    """The shards of each file are all of it, as it is stored."""
    columns = parts.columns
    sums = np.bincount(columns.file_index, columns.lengths.astype(np.float64), minlength=len(parts.files))
    if not parts.files.are_stored_as_they_are() or not np.array_equal(sums, parts.files.sizes().astype(np.float64)):
        raise _corrupt(where, "the shards of a file are not all of its bytes")
