"""Sealed memory: bytes in a memory file that nobody, writer included, can change any more."""

from __future__ import annotations

import fcntl
import os

_SEALS = fcntl.F_SEAL_WRITE | fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL


def create() -> int:
    """An empty memory file that can be sealed. Raises OSError when descriptors or memory run out."""
    return os.memfd_create("tfquiver-shard", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)


def seal(fd: int) -> None:
    fcntl.fcntl(fd, fcntl.F_ADD_SEALS, _SEALS)


def sealed(data: bytes) -> int:
    """A descriptor of sealed memory that holds `data`; the caller closes it."""
    fd = create()
    try:
        view = memoryview(data)
        while view:
            view = view[os.write(fd, view) :]
        seal(fd)
    except BaseException:
        os.close(fd)
        raise
    return fd
