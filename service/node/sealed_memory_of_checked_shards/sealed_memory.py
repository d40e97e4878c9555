"""Sealed memory: bytes in a memory file that nobody, writer included, can change any more."""

from __future__ import annotations

import fcntl
import os

from tfquiver import errors

_SEALS = fcntl.F_SEAL_WRITE | fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL


class NoMemoryError(errors.ResourceExhaustedError):
    """This process is out of descriptors or memory; what others keep of them helps when they give it up."""


def create() -> int:
    """An empty memory file that can be sealed. Raises NoMemoryError."""
    try:
        return os.memfd_create("tfquiver-shard", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    except OSError as error:
        raise NoMemoryError(f"no memory file for a shard: {error.strerror}") from error


def again(fd: int) -> int:
    """Another descriptor of the same file. Raises NoMemoryError."""
    try:
        return os.dup(fd)
    except OSError as error:
        raise NoMemoryError(f"no descriptor for a shard: {error.strerror}") from error


def write(fd: int, data: bytes | memoryview) -> None:
    """Appends all of it. Raises NoMemoryError."""
    view = memoryview(data)
    try:
        while view:
            view = view[os.write(fd, view) :]
    except OSError as error:
        raise NoMemoryError(f"no memory for a shard: {error.strerror}") from error


def seal(fd: int) -> None:
    fcntl.fcntl(fd, fcntl.F_ADD_SEALS, _SEALS)


def sealed(data: bytes | memoryview) -> int:
    """A descriptor of sealed memory that holds `data`; the caller closes it. Raises NoMemoryError."""
    fd = create()
    try:
        write(fd, data)
        seal(fd)
    except BaseException:
        os.close(fd)
        raise
    return fd
