"""Entry files on the disk: opened to be read, written to stand after a power cut, renamed, deleted."""

from __future__ import annotations

import ctypes
import errno
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import google_crc32c
from absl import logging

from tfquiver import errors
from tfquiver.log_files_and_lines.rare_lines import every_n_seconds
from tfquiver.service.node.disk import entry

_PIECE_BYTES = 8 << 20
SYNCED_BYTES = 1 << 20  # what is less has to move within the time after which a disk is said to hang
_WAITED_FOR = 7  # SYNC_FILE_RANGE_WAIT_BEFORE | _WRITE | _WAIT_AFTER
_sync_file_range: Any = getattr(ctypes.CDLL(None, use_errno=True), "sync_file_range", None)
if _sync_file_range is not None:
    _sync_file_range.argtypes = [ctypes.c_int, ctypes.c_int64, ctypes.c_int64, ctypes.c_uint]


@dataclass(frozen=True, slots=True)
class OpenEntry:
    """An entry whose header was checked. `fd` is the receiver's to close; it outlives the entry's deletion."""

    fd: int
    header: entry.Header

    def pieces(self) -> Iterator[bytes]:
        """The stored bytes, a piece at a time. Raises DataLossError at the end of them when their checksum is wrong."""
        at, end, crc = entry.HEADER_BYTES, self.header.file_bytes, 0
        while at < end and (piece := os.pread(self.fd, min(_PIECE_BYTES, end - at), at)):
            crc = google_crc32c.extend(crc, piece)
            at += len(piece)
            yield piece
        if at != end or crc != self.header.crc32c_stored:
            raise errors.DataLossError(f"entry {self.header.hash.hex()}: the stored bytes are damaged")

    def read_stored(self) -> bytes:
        """The stored bytes. Raises DataLossError when they do not have their checksum."""
        return b"".join(self.pieces())

    def close(self) -> None:
        os.close(self.fd)


def create(path: Path) -> int:
    """A descriptor of a new, empty file. Makes its directory if somebody has deleted that, but not those above it.

    Raises OSError, also when there is something of that name.
    """
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW
    try:
        return os.open(path, flags, 0o600)
    except FileNotFoundError:
        path.parent.mkdir(mode=0o700, exist_ok=True)
        return os.open(path, flags, 0o600)


def write_synced(
    fd: int, page: bytes, stored: bytes, moved: Callable[[], None] = lambda: None, in_pieces: bool = True
) -> None:
    """Both into an empty file, safe on the disk when this returns. After an OSError the caller deletes what is left.

    Args:
      moved: called for each piece that is on the disk, or on its way there: a large entry takes a slow disk long.
      in_pieces: each is waited for before the next one is written; else it is one, which takes a fast disk less long.
    """
    whole = memoryview(stored)
    piece_bytes = SYNCED_BYTES if in_pieces else max(1, len(whole))
    written = os.writev(fd, [page, whole[:piece_bytes]])
    if written < len(page):
        raise OSError(errno.EIO, f"only {written} bytes of the header were written")
    rest = whole[written - len(page) :]
    while rest:
        moved()
        _write_out(fd, written)
        moved()
        at_once = os.write(fd, rest[:piece_bytes])
        rest, written = rest[at_once:], written + at_once
    moved()
    os.fsync(fd)


def _write_out(fd: int, size_bytes: int) -> None:
    """Returns when so much of it is on the disk; safe there it is not before `fsync`. Where the system cannot say that
    of a part, at once."""
    if _sync_file_range is not None and _sync_file_range(fd, 0, size_bytes, _WAITED_FOR):
        number = ctypes.get_errno()
        if number not in (errno.ENOSYS, errno.EINVAL, errno.ESPIPE, errno.EPERM):  # else `fsync` would not say it
            raise OSError(number, os.strerror(number))


def rename(temporary: Path, path: Path) -> None:
    """Makes the three directories on first use, and again when somebody has deleted them."""
    try:
        temporary.rename(path)
    except FileNotFoundError:
        _make(path.parent, 3)
        temporary.rename(path)


def _make(directory: Path, levels: int) -> None:
    """The innermost first: those above it are there, as a rule."""
    try:
        directory.mkdir(mode=0o700, exist_ok=True)
    except FileNotFoundError:
        if levels == 1:
            raise
        _make(directory.parent, levels - 1)
        directory.mkdir(mode=0o700, exist_ok=True)


def unlink(path: Path) -> bool:
    """Whether it is gone; what is not still takes its bytes."""
    try:
        path.unlink(missing_ok=True)
    except OSError as error:
        every_n_seconds(logging.WARNING, "%s: cannot be deleted: %s", 5, path, error.strerror)
        return False
    return True


def is_same_file(fd: int, path: Path) -> bool:
    """Whether `path` still names the open file, or nothing that can be looked at."""
    try:
        return os.path.samestat(os.fstat(fd), path.lstat())
    except OSError:
        return True


def opens(path: Path) -> bool:
    """Whether there is a file that can be opened."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    except OSError:
        return False
    os.close(fd)
    return True
