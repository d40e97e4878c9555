"""A log that others append to, put aside, cut to nothing, or begin anew: its last lines, and then what comes."""

from __future__ import annotations

import os
from collections import deque
from pathlib import Path
from typing import BinaryIO

from tfquiver import errors
from tfquiver.plain_text import plain

MOST_LINE_BYTES = 1 << 16
_AT_ONCE_BYTES = 1 << 20
_BACK_BYTES = 1 << 16


class FollowedLog:
    """Takes as much memory as the lines that are asked for, however long the log is."""

    def __init__(self, path: Path, mark: str = "") -> None:
        """`mark`: begins each line."""
        self._path, self._mark = path, mark
        self._file: BinaryIO | None = None
        self._begun = b""  # a line that has no end yet

    def last(self, most: int) -> list[str]:
        """Raises PermissionError_: it cannot be read."""
        if self._open():
            assert self._file is not None
            self._file.seek(_begin_of_last(self._file, most))
        lines = deque[str](maxlen=most)
        while some := self.more():
            lines += some
        return list(lines)

    def more(self) -> list[str]:
        """Whole lines that have come, not all at once where they are many; none: there are no more just now. A file
        that is away for a moment is waited for. Raises as `last`."""
        if self._file is None:
            return self._read() if self._open() else []
        if (lines := self._read()) or not self._is_another():
            return lines
        while some := self._read():  # it came before this one was put aside
            lines += some
        if self._begun:  # it will have no end any more
            lines.append(self._line(self._begun))
        self.close()
        return [*lines, *self.more()]

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None

    def _open(self) -> bool:
        try:
            self._file, self._begun = self._path.open("rb"), b""
        except FileNotFoundError:
            return False
        except OSError as error:
            raise errors.PermissionError_(f"{self._path}: {error.strerror}") from error
        return True

    def _is_another(self) -> bool:
        assert self._file is not None
        try:
            here, there = self._path.stat(), os.fstat(self._file.fileno())
        except OSError:  # the next one is not there yet
            return False
        return (here.st_dev, here.st_ino) != (there.st_dev, there.st_ino)

    def _read(self) -> list[str]:
        assert self._file is not None
        try:
            if os.fstat(self._file.fileno()).st_size < self._file.tell():  # somebody has made room
                self._file.seek(0)
                self._begun = b""
            *lines, self._begun = (self._begun + self._file.read(_AT_ONCE_BYTES)).split(b"\n")
        except OSError:  # of a disk that does not answer just now
            return []
        if len(self._begun) > MOST_LINE_BYTES:
            lines, self._begun = [*lines, self._begun], b""
        return [self._line(line) for line in lines]

    def _line(self, line: bytes) -> str:
        return self._mark + plain(line.decode(errors="replace"), MOST_LINE_BYTES)


def _begin_of_last(file: BinaryIO, most: int) -> int:
    """Where the last lines begin; of lines without end no more is looked at than so many may have."""
    at = file.seek(0, os.SEEK_END)
    least, wanted = max(at - (most + 1) * MOST_LINE_BYTES, 0), most + 1  # what ends the one before them, too
    while at > least:
        begin = max(at - _BACK_BYTES, least)
        file.seek(begin)
        block = file.read(at - begin)
        if (found := block.count(b"\n")) >= wanted:
            end = -1
            for _ in range(found - wanted + 1):
                end = block.index(b"\n", end + 1)
            return begin + end + 1
        at, wanted = begin, wanted - found
    return least
