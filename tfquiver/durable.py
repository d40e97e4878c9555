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

from tfquiver import errors

_PID_FIRST = re.compile(r'\{"pid": ([0-9]+)[,}]')
_LEFT_OVER = re.compile(r"\..+\.[0-9a-f]{16}\.tmp")
_OTHERS = ((stat.S_ISDIR, "a directory"), (stat.S_ISFIFO, "a pipe"), (stat.S_ISSOCK, "a socket"))
_NO_ROOM = frozenset({errno.ENOSPC, errno.EDQUOT})


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


def write_or_forget(path: Path, data: bytes, mode: int = 0o600) -> None:
    """As `write`, of a small file that would rather say nothing than what is no longer so: on a full disk its new
    content takes the place of the old one in the block that the file has, else the file goes. Raises OSError: it went,
    or stays as it was where the disk takes no change at all."""
    try:
        write(path, [data], mode)
    except OSError as error:
        if error.errno in _NO_ROOM and _written_over(path, data):
            return
        with contextlib.suppress(OSError):
            path.unlink(missing_ok=True)
        raise


def _written_over(path: Path, data: bytes) -> bool:
    """In one call, so that a kill does not leave half of it; who reads takes the spaces that may follow for nothing."""
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        before = os.fstat(descriptor)
        whole = data.ljust(before.st_size)
        # Room there is in the blocks that it has; to begin another one would fail halfway.
        return len(whole) <= 512 * before.st_blocks and os.pwrite(descriptor, whole, 0) == len(whole)
    except OSError:
        return False
    finally:
        os.close(descriptor)


def read(path: Path, most_bytes: int) -> bytes:
    """Of a small file its first bytes. Waits for nobody, as who opens a pipe would. Raises OSError, also for a link."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        return os.read(descriptor, most_bytes)
    finally:
        os.close(descriptor)


def check_file(path: Path) -> None:
    """A file, or nothing, is there: who opened a pipe would wait, and hear no signal; a device has no end.

    Raises InvalidArgumentError naming it; OSError: nobody can tell.
    """
    try:
        mode = path.stat().st_mode
    except FileNotFoundError:
        return
    if not stat.S_ISREG(mode):
        what = next((name for is_one, name in _OTHERS if is_one(mode)), "a device")
        raise errors.InvalidArgumentError(f"{path}: {what} is there, and no file: move it away")


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
            if one.is_symlink() and not one.exists():
                at, to = "in its place" if one == path else f"at {one}", one.readlink()
                return f"a link to {to}, which is not there, is {at}: make that, or name another directory"
            if one.exists():
                at = "" if one == path else f" at {one}"
                return f"a file is there{at}, and no directory: name another directory, or move that file away"
    said = getattr(error, "strerror", None) or str(error)  # the latter: a path that cannot be one
    number = error.errno if isinstance(error, OSError) else 0
    if number == errno.ENOENT and path.parent.is_dir():  # as in /proc
        return f"no directory can be made in {path.parent}: name another"
    may_not = number in (errno.EACCES, errno.EPERM, errno.EROFS)
    return f"{said}: name a directory that this user may write in" if may_not else said


def why_not_used(error: OSError | ValueError) -> str:
    """Of what is in a server's directory: what the kernel said, and whose it is where this user may not."""
    said = str(getattr(error, "strerror", None) or error)
    return f"{said}: the directory is another user's" if isinstance(error, PermissionError) else said


def remove_left_overs(directory: Path, but: str = "") -> None:
    """Deletes what a `write` left there whose process was killed. Only while nobody else writes, except the file `but`.
    Raises OSError."""
    for path in directory.iterdir():
        if _LEFT_OVER.fullmatch(path.name) and not (but and path.name.startswith(f".{but}.")):
            path.unlink(missing_ok=True)


def lock_file(path: Path) -> int:
    """A descriptor of a file, made if need be, that can be locked (`try_lock`). Raises OSError, also for a link, or
    what else is no file."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, 0o600)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):  # it could be locked, and nobody could say in it who has it
        os.close(descriptor)
        raise OSError(errno.EINVAL, "no file is in its place: move it away", str(path))
    return descriptor


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
