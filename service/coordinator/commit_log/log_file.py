"""The commit log on disk: appended to, synced, cut where it is torn, replaced as a whole by a snapshot.

Format, version 1, integers little-endian. Header: magic `TFQL`, u16 version, u16 zero, u32 CRC-32C of these 8 bytes.
Then records: u32 length, u32 CRC-32C of the length's 4 bytes and the payload, payload (a CommitRecord, see
commit_log.proto).

What does not read as a record ends the log: a write that a crash tore, and that nobody was told of. Where whole records
stand behind it the log is damaged instead: they were acknowledged, so it is refused, not cut.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import struct
from collections.abc import Iterable, Iterator
from pathlib import Path

import google_crc32c
import numpy as np
from absl import logging
from google.protobuf.message import DecodeError

from tfquiver import durable, errors, version
from tfquiver.proto.tfquiver.v1.commit_log_pb2 import CommitRecord
from tfquiver.service.coordinator.commit_log.log_content import Content, of_bytes, of_file
from tfquiver.sizes_durations_amounts.amounts import many

MAGIC = b"TFQL"
VERSION = 1
MAX_RECORD_BYTES = 32 << 20
ROOM_BYTES = 4 << 20  # of the disk, kept behind the end: tens of thousands of acknowledgements
_START = struct.Struct("<4sHH")
_HEADER_BYTES = _START.size + 4
_RECORD = struct.Struct("<II")
_SEARCH_BYTES = 256 << 20  # checked at most in the search for a record behind a damaged one
_SEARCHED_AT_ONCE = 1 << 20
_KEEP_SIZE = 1  # FALLOC_FL_KEEP_SIZE
_fallocate = ctypes.CDLL(None).fallocate
_fallocate.argtypes = [ctypes.c_int, ctypes.c_int, ctypes.c_int64, ctypes.c_int64]
_NO_ROOM = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})


def _crc(data: bytes) -> int:
    value: int = google_crc32c.value(data)
    return value


def header(version: int = VERSION) -> bytes:
    start = _START.pack(MAGIC, version, 0)
    return start + struct.pack("<I", _crc(start))


def framed(record: CommitRecord) -> bytes:
    payload = record.SerializeToString(deterministic=True)
    if len(payload) > MAX_RECORD_BYTES:
        raise errors.NeverFitsError(f"a record of {len(payload)} bytes; the log takes {MAX_RECORD_BYTES}")
    length = struct.pack("<I", len(payload))
    return length + struct.pack("<I", _crc(length + payload)) + payload


def parse(data: bytes, name: str) -> tuple[list[CommitRecord], int]:
    """As `parsed`."""
    return parsed(of_bytes(data), name)


def parsed(content: Content, name: str) -> tuple[list[CommitRecord], int]:
    """The whole records of a log, and the offset at which they end.

    Raises DataLossError when the header is damaged or of another version, or a record before the last is damaged.
    """
    start = content.part(0, _HEADER_BYTES)
    if len(start) < _HEADER_BYTES:
        # The header is written with the file's first sync: a shorter file was never acknowledged to anybody.
        return [], 0
    magic, version, _ = _START.unpack_from(start)
    if magic != MAGIC or start[_START.size :] != struct.pack("<I", _crc(start[: _START.size])):
        raise errors.DataLossError(f"{name}: offset 0: not a commit log, or its header is damaged")
    if version != VERSION:
        raise errors.DataLossError(f"{name}: offset 4: a log of version {version}; this program reads {VERSION}")
    records: list[CommitRecord] = []
    offset = _HEADER_BYTES
    while (payload := _payload(content, offset)) is not None:
        try:
            records.append(CommitRecord.FromString(payload))
        except DecodeError as error:
            raise errors.DataLossError(f"{name}: offset {offset}: a record that cannot be read: {error}") from error
        offset += _RECORD.size + len(payload)
    later = _next_record(content, offset)
    if later is not None:
        raise errors.DataLossError(
            f"{name}: offset {offset}: damaged, and whole records follow at offset {later}: put back a copy, "
            f"or give up what was decided since with: truncate --size={offset} {name}"
        )
    return records, offset


def _payload(content: Content, offset: int) -> bytes | None:
    """Of the record that begins there; None: no whole one does."""
    head = content.part(offset, _RECORD.size)
    if len(head) < _RECORD.size:
        return None
    length, crc = _RECORD.unpack(head)
    if length > MAX_RECORD_BYTES or offset + _RECORD.size + length > content.size_bytes:
        return None
    payload = content.part(offset + _RECORD.size, length)
    return payload if crc == _crc(head[:4] + payload) else None


def _next_record(content: Content, offset: int) -> int | None:
    """Where a whole record begins behind a damaged one, wherever that one ends."""
    budget_bytes, at = _SEARCH_BYTES, offset + 1
    while (there := content.past_zeros(at)) < content.size_bytes:
        at = max(at, there - 3)  # its length may begin with zeros, and is no zero
        for start, length in _beginnings(content, at):
            if _payload(content, start) is not None:
                return start
            budget_bytes -= length
            if budget_bytes < 0:
                return None
        at += _SEARCHED_AT_ONCE
    return None


def _beginnings(content: Content, at: int) -> Iterator[tuple[int, int]]:
    """Of the next places those where a record may begin, and its length. Every payload begins with the tag of one of
    CommitRecord's fields: a message, which its lowest bits say."""
    part = content.part(at, _SEARCHED_AT_ONCE + _RECORD.size)
    places = len(part) - _RECORD.size
    if places <= 0:
        return
    lengths = np.ndarray((places,), "<u4", part, strides=(1,)).astype(np.int64)  # one begins at each place
    room_bytes = content.size_bytes - _RECORD.size - at - np.arange(places)
    may_be = np.frombuffer(part, np.uint8, places, _RECORD.size) & 0x07 == 0x02
    may_be &= (lengths > 0) & (lengths <= MAX_RECORD_BYTES) & (lengths <= room_bytes)
    for place in np.flatnonzero(may_be).tolist():
        yield at + place, int(lengths[place])


class NewLog:
    """A log that is to take the place of another one. Blocking. `write` and opening it raise OSError."""

    def __init__(self, path: Path) -> None:
        self.path, self.end = path, 0
        # A file of its own: a coordinator that was replaced, and does not know yet, may write its snapshot still.
        path.unlink(missing_ok=True)
        self.file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)

    def write(self, data: bytes) -> None:
        _write_all(self.file, data, self.end)
        self.end += len(data)

    def discard(self) -> None:
        os.close(self.file)
        with contextlib.suppress(OSError):  # the next one is written over it
            self.path.unlink(missing_ok=True)


class LogFile:
    """Not thread-safe: one caller at a time. Blocking."""

    def __init__(self, path: Path) -> None:
        """Opens or makes the log. `records` is what it holds that this version knows. Raises DataLossError,
        ResourceExhaustedError, InvalidArgumentError (what is there is no file).

        Room on the disk is kept for what it will grow by, if there is any: it goes on when others have filled the disk.
        """
        self._path = path
        self._moved = False  # renamed here, and the directory is not synced yet
        self._room_end = 0  # up to there the disk has room for it
        try:
            durable.check_file(path)
            self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NONBLOCK | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise errors.from_os_error(error, str(path)) from error
        try:
            try:
                content = of_file(self._file)
                found, self._end = parsed(content, str(path))
                self.records = [record for record in found if record.WhichOneof("record")]
                if later := len(found) - len(self.records):
                    self._keep_later(content, later)
                if is_torn := content.size_bytes > self._end:
                    self._keep_torn(content)
            except OSError as error:
                raise errors.from_os_error(error, str(path)) from error
            if is_torn:  # else room that is kept behind the end would be given up
                os.ftruncate(self._file, self._end)
            self._keep_room()
            if not self._end:
                self._moved = True
                self.append(header())
        except BaseException:
            os.close(self._file)
            raise

    @property
    def size_bytes(self) -> int:
        return self._end

    def append(self, data: bytes) -> None:
        """`data` is durable on return. When it cannot be, the log is as it was before, and a repetition may succeed.

        Raises ResourceExhaustedError (no room), UnavailableError (the disk).
        """
        try:
            _write_all(self._file, data, self._end)
            os.fdatasync(self._file)
            if self._moved:
                durable.sync_directory(self._path.parent)
                self._moved = False
        except OSError as error:
            with contextlib.suppress(OSError):  # what stands behind _end is torn anyway, and written over next time
                os.ftruncate(self._file, self._end)
            self._room_end = 0
            self._keep_room()
            raise _failure(error, self._path) from error
        self._end += len(data)
        if self._room_end < self._end + ROOM_BYTES // 2:
            self._keep_room()

    def prepare(self, records: Iterable[bytes]) -> NewLog:
        """Writes a new log of these framed records beside this one, of which other threads may make use meanwhile.

        Raises as `append` does, and whatever `records` raises; then nothing is left of it.
        """
        try:
            new = NewLog(self._path.with_suffix(".tmp"))
        except OSError as error:
            raise _failure(error, self._path) from error
        try:
            new.write(header())
            for data in records:
                new.write(data)
            os.fsync(new.file)
        except OSError as error:
            new.discard()
            raise _failure(error, self._path) from error
        except BaseException:
            new.discard()
            raise
        return new

    def switch(self, new: NewLog, tail: bytes) -> None:
        """Puts a new log, and `tail` behind it, in the place of this one; durable with the next `append`.

        Raises as `append` does; then this one stays.
        """
        try:
            new.write(tail)
            os.fsync(new.file)
            new.path.rename(self._path)
        except OSError as error:
            new.discard()
            raise _failure(error, self._path) from error
        os.close(self._file)
        self._file, self._end, self._moved, self._room_end = new.file, new.end, True, 0

    def replace(self, records: Iterable[bytes]) -> None:
        """Puts a new log of these framed records in the place of this one. Errors as in `append`."""
        self.switch(self.prepare(records), b"")
        self.append(b"")

    def close(self) -> None:
        os.close(self._file)

    def _keep_room(self) -> None:
        if _fallocate(self._file, _KEEP_SIZE, self._end, ROOM_BYTES) == 0:
            self._room_end = self._end + ROOM_BYTES

    def _keep_later(self, content: Content, count: int) -> None:
        """A later version has written what this one does not know, and leaves out when it compacts the log."""
        aside = self._path.with_suffix(".later")
        try:
            durable.write(aside, content.pieces(0, self._end))
        except OSError as error:
            raise errors.from_os_error(error, str(aside)) from error
        logging.warning(
            "%s: %s of a later version than tfquiver %s, and left out; with all it is kept as %s",
            self._path,
            many(count, "record is", "records are"),
            version.VERSION,
            aside.name,
        )

    def _keep_torn(self, content: Content) -> None:
        """Raises OSError: it cannot be read."""
        begins, torn_bytes = content.past_zeros(self._end), content.size_bytes - self._end
        if begins == content.size_bytes:
            zeros = "%s: offset %d: the last %d bytes are zeros, as some file systems leave them after a crash; cut"
            logging.warning(zeros, self._path, self._end, torn_bytes)
            return
        aside = self._path.with_suffix(f".torn-{self._end}")
        logging.warning(
            "%s: offset %d: the last %d bytes are torn; cut, and kept as %s, without zeros at their beginning",
            self._path,
            self._end,
            torn_bytes,
            aside.name,
        )
        try:
            durable.write(aside, content.pieces(begins, content.size_bytes, but_last_zeros=True))
        except OSError as error:
            logging.warning("%s: %s", aside, error.strerror)


def _write_all(file: int, data: bytes, offset: int) -> None:
    view = memoryview(data)
    while view:
        written = os.pwrite(file, view, offset)
        view, offset = view[written:], offset + written


def _failure(error: OSError, path: Path) -> errors.TfquiverError:
    if error.errno in _NO_ROOM:
        return errors.ResourceExhaustedError(f"{path}: {error.strerror}: make room for the commit log")
    return errors.UnavailableError(f"{path}: {error.strerror}")
