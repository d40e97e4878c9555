"""Files that are there whole or not at all, also after a power cut; and locks that say who has a directory.

Nothing here follows a symbolic link that somebody has put in the file's place, and what is made is its user's alone.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import re
import secrets
import stat
from collections.abc import Iterable
from pathlib import Path

_PID_FIRST = re.compile(r'\{"pid": ([0-9]+)[,}]')
_LEFT_OVER = re.compile(r"\..+\.[0-9a-f]{16}\.tmp")


def write(path: Path, pieces: Iterable[bytes | memoryview], mode: int = 0o600) -> None:
    """Writes a file beside `path`, syncs it, gives it the name. Raises OSError; what stood there before stands then."""
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(8)}.tmp")
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        with os.fdopen(os.open(temporary, flags, mode), "wb") as file:
            file.writelines(pieces)
            file.flush()
            os.fsync(file.fileno())
        temporary.rename(path)
    except BaseException:
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)
        raise
    sync_directory(path.parent)


def read(path: Path, most_bytes: int) -> bytes:
    """Of a small file its first bytes. Waits for nobody, as who opens a pipe would. Raises OSError, also for a link."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        return os.read(descriptor, most_bytes)
    finally:
        os.close(descriptor)


def sync_directory(directory: Path) -> None:
    """What was renamed or deleted in it stays so. Raises OSError."""
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def private_directory(path: Path) -> None:
    """Makes a directory for this user alone; one that is there stays as it is.

    Raises OSError; NotADirectoryError, too, where somebody has put a link.
    """
    with contextlib.suppress(FileExistsError):
        path.mkdir(mode=0o700)
    mode = path.lstat().st_mode
    if not stat.S_ISDIR(mode):
        what = "a symbolic link" if stat.S_ISLNK(mode) else "a file"
        raise NotADirectoryError(errno.ENOTDIR, f"{what} is in the way", str(path))


def why_not_made(path: Path, error: OSError | ValueError) -> str:
    """Of a directory that could not be made: what stands in its place, and what to do; else what the kernel said."""
    with contextlib.suppress(OSError, ValueError):
        for one in (path, *path.parents):
            if one.is_dir():
                break
            if one.exists():
                at = "" if one == path else f" at {one}"
                return f"a file is there{at}, and no directory: name another directory, or move that file away"
    said = getattr(error, "strerror", None) or str(error)  # the latter: a path that cannot be one
    may_not = isinstance(error, OSError) and error.errno in (errno.EACCES, errno.EPERM, errno.EROFS)
    return f"{said}: name a directory that this user may write in" if may_not else said


def remove_left_overs(directory: Path, but: str = "") -> None:
    """Deletes what a `write` left there whose process was killed. Only while nobody else writes, except the file `but`.
    Raises OSError."""
    for path in directory.iterdir():
        if _LEFT_OVER.fullmatch(path.name) and not (but and path.name.startswith(f".{but}.")):
            path.unlink(missing_ok=True)


def lock_file(path: Path) -> int:
    """A descriptor of a file, made if need be, that can be locked (`try_lock`). Raises OSError, also for a link."""
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)


def try_lock(descriptor: int) -> bool:
    """Whether this process holds it now: until the descriptor is closed."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def holder(path: Path) -> str | None:
    """Who holds the lock of that file, as its text says (a pid, alone or as the first of a JSON object; "" when it says
    nothing); None: nobody does.

    Others may look at the same time, and do not take one another for a holder. Raises PermissionError where this user
    may not look.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except (FileNotFoundError, NotADirectoryError):
        return None
    try:
        with contextlib.suppress(BlockingIOError):
            fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
            return None
        text = os.pread(descriptor, 20, 0).decode("ascii", "replace").strip()
        return found[1] if (found := _PID_FIRST.match(text)) else text
    finally:
        os.close(descriptor)
