"""The logs of servers that are started for people: appended to, begun anew when they are long."""

from __future__ import annotations

import os
from pathlib import Path
from typing import BinaryIO

_MAX_BYTES = 16 << 20
_TAIL_LINES = 15
_TAIL_BYTES = 64 << 10


def opened(path: Path) -> BinaryIO:
    """To append to; one that is long is put aside (`.old`). Raises OSError, also for a link."""
    if path.exists() and path.stat().st_size > _MAX_BYTES:
        path.replace(path.with_name(path.name + ".old"))
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC
    return os.fdopen(os.open(path, flags, 0o600), "ab")


def tail(path: Path, since_bytes: int = 0) -> str:
    """Its last lines, of those behind so many bytes; empty when it cannot be read."""
    try:
        with path.open("rb") as file:
            file.seek(max(since_bytes, os.fstat(file.fileno()).st_size - _TAIL_BYTES))
            lines = file.read(_TAIL_BYTES).decode(errors="replace").splitlines()
    except OSError:
        return ""
    return "\n".join(lines[-_TAIL_LINES:])
