"""Where a node that somebody has started by hand logs to, for who looks when it is gone: its standard error, where that
is a file."""

from __future__ import annotations

import contextlib
import os
import stat
from pathlib import Path

from tfquiver import durable

FILE = "logged_to"
_MOST_BYTES = 4096


def write(directory: Path) -> None:
    """Of this process. A disk that takes nothing is told of elsewhere."""
    path = directory / FILE
    with contextlib.suppress(OSError):
        to = _standard_error()
        if to is None or to.parent == directory / "log":  # there it is found
            path.unlink(missing_ok=True)
        else:
            durable.write(path, [os.fsencode(to), b"\n"])


def read(directory: Path) -> Path | None:
    """The file, where it is there yet, and its owner's who has the directory."""
    with contextlib.suppress(OSError, ValueError):
        descriptor = os.open(directory / FILE, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            said = os.read(descriptor, _MOST_BYTES + 1).removesuffix(b"\n")
        finally:
            os.close(descriptor)
        path = Path(os.fsdecode(said))
        found = path.lstat()
        if path.is_absolute() and stat.S_ISREG(found.st_mode) and found.st_uid == directory.stat().st_uid:
            return path
    return None


def _standard_error() -> Path | None:
    """None: it is a terminal, a pipe, or a file without a name."""
    its = os.fstat(2)
    path = Path("/proc/self/fd/2").readlink()
    return path if stat.S_ISREG(its.st_mode) and path.is_file() and os.path.samestat(path.stat(), its) else None
