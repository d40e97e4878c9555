"""Bytes handed over by descriptor: sealed memory made, and whatever came read."""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Iterator

_SEALS = fcntl.F_SEAL_WRITE | fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL


@contextlib.contextmanager
def sealed(parts: list[bytes]) -> Iterator[int]:
    """A descriptor of sealed memory with these parts, one behind the other."""
    fd = os.memfd_create("tfquiver-batch", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    try:
        for part in parts:
            view = memoryview(part)
            while view:
                view = view[os.write(fd, view) :]
        fcntl.fcntl(fd, fcntl.F_ADD_SEALS, _SEALS)
        yield fd
    finally:
        os.close(fd)


def read_all(fd: int, length_bytes: int, offset: int = 0) -> bytes:
    """So many bytes of it, or as many as there are; closes it."""
    try:
        pieces = []
        while length_bytes and (piece := os.pread(fd, length_bytes, offset)):
            pieces.append(piece)
            length_bytes -= len(piece)
            offset += len(piece)
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)
    finally:
        os.close(fd)
