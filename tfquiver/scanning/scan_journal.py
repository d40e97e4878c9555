"""What a scan of one file has found so far, on disk, so that a killed digest build goes on where it was.

One append-only file for each (listed file, cutting policy); its name is their hash, so a changed file or policy simply
finds no journal. Frames carry a CRC and are written in one call: a torn tail is cut off. Nothing is synced: after a
power cut frames may be missing or torn, and what they said is scanned again.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import google_crc32c
import numpy as np
import numpy.typing as npt

from tfquiver import errors
from tfquiver.digests.file_entry import COMPRESSIONS, FileEntry
from tfquiver.listing.listing_terms import listing_key
from tfquiver.scanning.cutting import CutPolicy

ROW = np.dtype([("hash", "u1", 32), ("offset", "<u8"), ("length", "<u8"), ("records", "<u4")])
Rows = npt.NDArray[Any]  # of ROW
_FRAME = struct.Struct("<4sBII")  # magic, kind, bytes of body, CRC-32C of body
_MAGIC = b"TFQJ"
_ROWS, _DONE = 1, 2


class ScanJournal:
    """Safe with a second writer of the same file: both write the same rows, and rows seen before are skipped."""

    def __init__(self, directory: Path, entry: FileEntry, policy: CutPolicy) -> None:
        self._path = directory / f"{listing_key([entry], policy).hex()}.scan"
        self.rows: Rows = np.zeros(0, ROW)
        self.compression: str | None = None  # set: the file was scanned to its end
        try:
            descriptor = os.open(self._path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise errors.from_os_error(error, str(self._path)) from error
        self._file = os.fdopen(descriptor, "r+b", buffering=0)
        try:
            self._load()
        except BaseException:
            self._file.close()
            raise

    def append(self, rows: Sequence[tuple[bytes, int, int, int]]) -> None:
        """Rows of (hash, offset, length, records) that follow those already there."""
        if not rows:
            return
        fresh = to_rows(rows)
        self.rows = np.concatenate([self.rows, fresh])
        self._write(_ROWS, fresh.tobytes())

    def finish(self, compression: str) -> None:
        self.compression = compression
        self._write(_DONE, bytes([COMPRESSIONS.index(compression)]))

    def close(self) -> None:
        self._file.close()

    def _write(self, kind: int, body: bytes) -> None:
        frame = _FRAME.pack(_MAGIC, kind, len(body), google_crc32c.value(body)) + body
        try:
            written = self._file.write(frame)
        except OSError as error:
            raise errors.from_os_error(error, str(self._path)) from error
        if written != len(frame):
            raise errors.ResourceExhaustedError(f"{self._path}: no room: {written} of {len(frame)} bytes were written")

    def _load(self) -> None:
        data, position, rows = self._file.read(), 0, [self.rows]
        next_offset = 0
        while position + _FRAME.size <= len(data):
            magic, kind, length, crc = _FRAME.unpack_from(data, position)
            body = data[position + _FRAME.size : position + _FRAME.size + length]
            if magic != _MAGIC or len(body) != length or google_crc32c.value(body) != crc:
                break
            if kind == _DONE:
                self.compression = COMPRESSIONS[body[0]]
            else:
                found = np.frombuffer(body, ROW)
                fresh = found[found["offset"] >= next_offset]
                if len(fresh) and int(fresh["offset"][0]) != next_offset:
                    break
                if len(fresh):
                    rows.append(fresh)
                    next_offset = int(fresh["offset"][-1] + fresh["length"][-1])
            position += _FRAME.size + length
        self.rows = np.concatenate(rows)
        if position < len(data):
            self._file.truncate(position)


def to_rows(rows: Sequence[tuple[bytes, int, int, int]]) -> Rows:
    table = np.zeros(len(rows), ROW)
    if rows:
        hashes, offsets, lengths, records = zip(*rows, strict=True)
        table["hash"] = np.frombuffer(b"".join(hashes), np.uint8).reshape(-1, 32)
        table["offset"], table["length"], table["records"] = offsets, lengths, records
    return table
