"""The logs of servers that are started for people: appended to, begun anew when they are long."""

from __future__ import annotations

import os
from pathlib import Path
from typing import BinaryIO

from tfquiver import durable

MOST_BYTES = 16 << 20
_TAIL_LINES = 15
_TAIL_BYTES = 64 << 10


def opened(path: Path) -> BinaryIO:
    """To append to; one that is long is put aside. Raises OSError, also for a link."""
    put_aside(path)
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC
    return os.fdopen(os.open(path, flags, 0o600), "ab")


def put_aside(path: Path) -> None:
    """One that is long becomes `.old`, and the `.old` of before is gone; several processes that see it do so once.
    Raises OSError, also for a link."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        return
    try:
        if os.fstat(descriptor).st_size <= MOST_BYTES or not durable.try_lock(descriptor):
            return  # who has the lock is doing it
        if os.path.samestat(os.fstat(descriptor), path.lstat()):
            path.replace(path.with_name(path.name + ".old"))
    except FileNotFoundError:  # another has done it
        return
    finally:
        os.close(descriptor)


def tail(path: Path, since_bytes: int = 0) -> str:
    """Its last lines, of those behind so many bytes; empty when it cannot be read."""
    try:
        with path.open("rb") as file:
            size_bytes = os.fstat(file.fileno()).st_size
            since_bytes = since_bytes if since_bytes <= size_bytes else 0  # it has begun anew
            file.seek(max(since_bytes, size_bytes - _TAIL_BYTES))
            lines = file.read(_TAIL_BYTES).decode(errors="replace").splitlines()
    except OSError:
        return ""
    return "\n".join(lines[-_TAIL_LINES:])
