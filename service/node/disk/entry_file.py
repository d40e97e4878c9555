"""Entry files on the disk: opened to be read, written to stand after a power cut, renamed, deleted."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import google_crc32c
from absl import logging

from tfquiver import errors
from tfquiver.rare_lines import every_n_seconds
from tfquiver.service.node.disk import entry

_PIECE_BYTES = 8 << 20


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


def write_synced(fd: int, page: bytes, stored: bytes) -> None:
    """Both into an empty file, safe on the disk when this returns. After an OSError the caller deletes what is left."""
    written = os.writev(fd, [page, stored])
    rest = memoryview(stored)[max(0, written - len(page)) :] if written >= len(page) else None
    if rest is None:
        raise OSError(errno.EIO, f"only {written} bytes of the header were written")
    while rest:
        rest = rest[os.write(fd, rest) :]
    os.fsync(fd)


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
