"""What stands in a log, a window of it at a time, however large it is: where a crash has left gigabytes of zeros, as
some file systems do, they are passed over as fast as memory is read, or not read at all where they are a hole.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterator

_WINDOW_BYTES = 1 << 18  # stays in the caches of a processor: 4 MiB took half as long again
_ZEROS = bytes(_WINDOW_BYTES)


class Content:
    """
    Args:
      read: from that offset so many bytes, or all there are. Raises OSError, and so does everything here.
      data_from: where something stands that may be no zeros, there or behind.
    """

    def __init__(
        self, size_bytes: int, read: Callable[[int, int], bytes], data_from: Callable[[int], int] = lambda at: at
    ) -> None:
        self.size_bytes, self._read, self._data_from = size_bytes, read, data_from
        self._at, self._window = 0, b""
        self._zeros = 0, -1  # from there on, up to there: what was found last

    def part(self, offset: int, length: int) -> bytes:
        """So many bytes, or all there are."""
        at = offset - self._at
        if at < 0 or at + length > len(self._window):
            self._at, at = offset, 0
            self._window = self._read(offset, min(max(length, _WINDOW_BYTES), max(0, self.size_bytes - offset)))
        return self._window[at : at + length]

    def past_zeros(self, offset: int) -> int:
        """Where the first byte is, there or behind, that is no zero; `size_bytes`: nowhere."""
        begins, ends = self._zeros
        if not begins <= offset <= ends:
            self._zeros = offset, self._past_zeros(offset)
        return self._zeros[1]

    def pieces(self, offset: int, end: int, but_last_zeros: bool = False) -> Iterator[bytes]:
        """All of it. `but_last_zeros`: not those at the end of it all, if they are many."""
        for at in range(offset, end, _WINDOW_BYTES):
            piece = self.part(at, min(_WINDOW_BYTES, end - at))
            if but_last_zeros and _are_zeros(piece) and self.past_zeros(at) == self.size_bytes:
                return
            yield piece

    def _past_zeros(self, offset: int) -> int:
        while (offset := self._data_from(offset)) < self.size_bytes:
            part = self.part(offset, _WINDOW_BYTES)
            if not _are_zeros(part):
                return offset + len(part) - len(part.lstrip(b"\0"))
            if not part:  # it has become shorter
                break
            offset += len(part)
        return self.size_bytes


def of_bytes(data: bytes) -> Content:
    return Content(len(data), lambda at, length: data[at : at + length])


def of_file(file: int) -> Content:
    """Of an open one, as it is now. Raises OSError."""
    size_bytes = os.fstat(file).st_size
    return Content(size_bytes, lambda at, length: _read(file, at, length), lambda at: _data_from(file, at, size_bytes))


def _read(file: int, offset: int, length: int) -> bytes:
    data = os.pread(file, length, offset)
    while len(data) < length and (more := os.pread(file, length - len(data), offset + len(data))):
        data += more
    return data


def _data_from(file: int, offset: int, size_bytes: int) -> int:
    try:
        return os.lseek(file, offset, os.SEEK_DATA)
    except OSError as error:  # a file system that cannot say it, or there is none
        return size_bytes if error.errno == errno.ENXIO else offset


def _are_zeros(part: bytes) -> bool:
    return part == (_ZEROS if len(part) == len(_ZEROS) else _ZEROS[: len(part)])
