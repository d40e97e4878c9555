"""The files of a digest as they stand in its file: found by number, and made objects when somebody asks for them.

As objects those of a million files took 340 MB, in nodes and in the coordinator, and each collection of all garbage
looked at every one: a quarter of a second in which a loop stood.
"""

from __future__ import annotations

import struct
from array import array
from collections.abc import Iterator, Sequence
from typing import overload

import numpy as np
import numpy.typing as npt

from tfquiver import errors
from tfquiver.digests.file_entry import COMPRESSIONS, FileEntry
from tfquiver.sizes_durations_amounts.amounts import many

_COUNT = struct.Struct("<I")
_FILE = struct.Struct("<QBII")  # size, compression, length of uri, length of generation
_SIZE_BYTES = 8


class FileTable(Sequence[FileEntry]):
    """Read-only; equal to any sequence of the same entries."""

    __slots__ = ("_at", "_table")

    def __init__(self, table: bytes) -> None:
        """Raises ValueError that says what of it is wrong: it takes a microsecond for each file."""
        self._table, self._at = table, _places(table)

    @classmethod
    def of(cls, files: Sequence[FileEntry]) -> FileTable:
        """Raises InvalidArgumentError: a compression that is none, or "auto"."""
        table, places = bytearray(_COUNT.pack(len(files))), array("Q")
        for file in files:
            uri, generation = file.uri.encode(), file.generation.encode()
            if file.compression not in COMPRESSIONS:
                raise errors.InvalidArgumentError(
                    f"{file.uri}: compression {file.compression!r} is not one of {COMPRESSIONS}"
                )
            places.append(len(table))
            table += _FILE.pack(file.size_bytes, COMPRESSIONS.index(file.compression), len(uri), len(generation))
            table += uri + generation
        made = cls.__new__(cls)
        made._table, made._at = bytes(table), places
        return made

    @property
    def data(self) -> bytes:
        return self._table

    @property
    def memory_bytes(self) -> int:
        return len(self._table) + self._at.itemsize * len(self._at)

    def sizes(self) -> npt.NDArray[np.uint64]:
        """Bytes of each, shape [files]."""
        at = np.frombuffer(self._at, np.uint64).astype(np.int64).reshape(-1, 1)
        sizes: npt.NDArray[np.uint64] = np.frombuffer(self._table, np.uint8)[at + np.arange(_SIZE_BYTES)].view("<u8")
        return sizes.reshape(-1)

    def are_stored_as_they_are(self) -> bool:
        """None is compressed."""
        at = np.frombuffer(self._at, np.uint64).astype(np.int64)
        return not np.frombuffer(self._table, np.uint8)[at + _SIZE_BYTES].any()

    def __len__(self) -> int:
        return len(self._at)

    @overload
    def __getitem__(self, number: int) -> FileEntry: ...
    @overload
    def __getitem__(self, number: slice) -> Sequence[FileEntry]: ...
    def __getitem__(self, number: int | slice) -> FileEntry | Sequence[FileEntry]:
        if isinstance(number, slice):
            return [self._entry(at) for at in self._at[number]]
        return self._entry(self._at[number])

    def __iter__(self) -> Iterator[FileEntry]:
        return map(self._entry, self._at)

    def __eq__(self, other: object) -> bool:
        if isinstance(other, FileTable):
            return self._table == other._table
        return isinstance(other, Sequence) and len(self) == len(other) and all(map(FileEntry.__eq__, self, other))

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"FileTable({list(self)!r})"

    def _entry(self, at: int) -> FileEntry:
        size, compression, uri_bytes, generation_bytes = _FILE.unpack_from(self._table, at)
        at += _FILE.size
        end = at + uri_bytes
        uri, generation = self._table[at:end].decode(), self._table[end : end + generation_bytes].decode()
        return FileEntry(uri, size, generation, COMPRESSIONS[compression])


def _places(table: bytes) -> array[int]:
    """Where each entry begins. Raises ValueError."""
    if len(table) < _COUNT.size:
        raise ValueError("the file table is too short")
    (count,), position = _COUNT.unpack_from(table), _COUNT.size
    if count * _FILE.size > len(table):
        raise ValueError(f"the file table is too short for {many(count, 'file')}")
    places, end, unpack = array("Q"), len(table), _FILE.unpack_from
    for number in range(count):
        if position + _FILE.size > end:
            raise ValueError("the file table is too short")
        places.append(position)
        _, compression, uri_bytes, generation_bytes = unpack(table, position)
        uri_at = position + _FILE.size
        position = uri_at + uri_bytes + generation_bytes
        if position > end or compression >= len(COMPRESSIONS):
            raise ValueError(f"entry {number} of the file table is wrong")
        try:
            table[uri_at : uri_at + uri_bytes].decode()
            table[uri_at + uri_bytes : position].decode()
        except UnicodeDecodeError as error:
            raise ValueError("the file table is not UTF-8") from error
    if position != end:
        raise ValueError("the file table is longer than its entries")
    return places
