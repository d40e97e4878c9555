"""Files that a person names, to be read or written: whether that can be, before anything long begins; else what to do
about it."""

from __future__ import annotations

import argparse
import contextlib
import difflib
import errno
import itertools
import os
import pwd
import secrets
import stat
from pathlib import Path

from tfquiver import durable, errors, plain_text

_DENIED = (errno.EACCES, errno.EPERM)
_NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_LOOKED_AT = 10_000  # names of a directory, for one that is near
_NEAR = 0.8  # of 1: the same name
_ELSEWHERE = "name a file elsewhere"


def typed_path(text: str) -> Path:
    """An argument's `type`: of `--flag=~/x` the shell makes nothing. Raises ArgumentTypeError: no such user."""
    try:
        return Path(text).expanduser()
    except RuntimeError as error:
        raise argparse.ArgumentTypeError(f"{text}: {error}") from error


def not_read(error: OSError | ValueError, what: str, path: str | os.PathLike[str]) -> errors.TfquiverError:
    """`what`: the file in the message, as it was typed: `--trace=x`, or its path alone."""
    return _typed(error, what, why_not_read(Path(path), error))


def not_written(error: OSError | ValueError, what: str, path: str | os.PathLike[str]) -> errors.TfquiverError:
    """`what`: as of `not_read`."""
    return _typed(error, what, why_not_written(Path(path), error))


def check_output(what: str, path: Path, new: bool = False, replaced: bool = True) -> None:
    """A file of that name can be made there, which is tried; nothing is left of it.

    Raises TfquiverError, which says what to do.

    Args:
      what: as of `not_read`.
      new: there must be nothing of that name.
      replaced: what is written takes the place of what is there, as `durable.write` does, which must be a file; else it
        is written into, and may be a device or a pipe.
    """
    if not path.name:
        raise errors.InvalidArgumentError(f"{what}: give the name of a file")
    try:
        mode = _mode(path)
        if mode is not None and stat.S_ISDIR(mode):
            raise errors.InvalidArgumentError(f"{what}: is a directory: give the name of a file")
        if new and os.path.lexists(path):
            raise errors.InvalidArgumentError(f"{what}: there already: give the name of a new file")
        if replaced and mode is not None and not stat.S_ISREG(mode):
            raise errors.InvalidArgumentError(f"{what}: is no file, and another would take its place: {_ELSEWHERE}")
        if replaced:
            _check_may_go(path)
        if replaced or not os.path.lexists(path):
            _try_to_make(path.with_name(f".{path.name}.{secrets.token_hex(8)}.tmp") if replaced else path)
        elif mode is not None and stat.S_ISREG(mode):
            os.close(os.open(path, os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC))
    except (OSError, ValueError) as error:
        raise not_written(error, what, path) from error


def check_directory(what: str, path: Path) -> None:
    """A directory is there, or can be made, and files in it: which is tried; nothing is left of it. Raises
    InvalidArgumentError, which says what to do. `what`: as of `not_read`."""
    try:
        there = next(one for one in (path, *path.absolute().parents) if one.exists())
        if not there.is_dir():
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR))
        _try_to_make(there / f".tfquiver.{secrets.token_hex(8)}.tmp")
    except (OSError, ValueError) as error:
        raise errors.InvalidArgumentError(f"{what}: {durable.why_not_made(path, error)}") from error


def why_not_read(path: Path, error: OSError | ValueError) -> str:
    """What the kernel said, and what to do."""
    number, said = _said(error)
    hint = ""
    with contextlib.suppress(OSError, ValueError):
        if number == errno.ENOENT:
            hint = _where_it_ends(path)
        elif number == errno.ENOTDIR:
            hint = _file_above(path)
        elif number in _DENIED:
            hint = _whose(path)
        elif number == errno.EISDIR:
            return "is a directory: name a file"
    return f"{said}: {hint}" if hint else said


def why_not_written(path: Path, error: OSError | ValueError) -> str:
    """What the kernel said, and what to do."""
    number, said = _said(error)
    with contextlib.suppress(OSError, ValueError):
        if path.is_dir():
            return "is a directory: give the name of a file"
        if number == errno.ENOENT and (lost := _lost_place(path)):
            return lost
        if number == errno.ENOENT and not path.parent.is_dir():
            return f"there is no directory {path.parent}: make it, or name another"
        if number == errno.ENOENT:  # as in /proc
            return f"no file can be made in {path.parent}: name another directory"
        if number in (errno.ENOTDIR, errno.EEXIST) and (hint := _file_above(path)):
            return f"{hint}: name another directory"
    if number in _DENIED:
        over_it = os.path.lexists(path) and os.access(path.parent, os.W_OK | os.X_OK)
        return f"{said}: {_me()} may not write {'over it' if over_it else f'in {path.parent.absolute()}'}: {_ELSEWHERE}"
    if number == errno.EROFS:
        return f"{said}: {_ELSEWHERE}"
    if number in _NO_ROOM:
        return f"{said}: make room there, or {_ELSEWHERE}"
    return f"{said}: give a shorter name" if number == errno.ENAMETOOLONG else said


def _typed(error: OSError | ValueError, what: str, why: str) -> errors.TfquiverError:
    number, _ = _said(error)
    if number in (0, errno.EISDIR, errno.EEXIST):
        return errors.InvalidArgumentError(f"{what}: {why}")
    return errors.from_os_error(OSError(number, why), what)


def _said(error: OSError | ValueError) -> tuple[int, str]:
    return getattr(error, "errno", None) or 0, getattr(error, "strerror", None) or str(error)


def _mode(path: Path) -> int | None:
    """None: nothing is there, or a link to nothing. Raises OSError, ValueError: that cannot be."""
    try:
        return path.stat().st_mode
    except FileNotFoundError:
        return None


def _try_to_make(path: Path) -> None:
    """Raises OSError."""
    os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600))
    path.unlink()


def _check_may_go(path: Path) -> None:
    """Raises OSError: in a directory such as /tmp nobody gives the name of another's file to one of theirs."""
    place = path.parent.stat()
    mine = not place.st_mode & stat.S_ISVTX or not os.path.lexists(path)
    if not mine and os.geteuid() not in (0, place.st_uid, path.lstat().st_uid):
        raise PermissionError(errno.EPERM, os.strerror(errno.EPERM))


def _where_it_ends(path: Path) -> str:
    """Of a file that is not there, what there is of its path, and a name that is near."""
    if lost := _lost_place(path):
        return lost
    if path.is_symlink():
        return f"it is a link to {path.readlink()}, which is not there"
    missing = path
    while not missing.parent.exists():
        missing = missing.parent
    if missing != path:
        return f"there is no directory {missing}"
    with os.scandir(path.parent) as entries:
        names = [entry.name for entry in itertools.islice(entries, _LOOKED_AT)]
    near = difflib.get_close_matches(path.name, names, n=1, cutoff=_NEAR)
    return f"did you mean {path.with_name(near[0])}?" if near else f"{path.parent.absolute()} has no such file"


def _lost_place(path: Path) -> str:
    lost = None if path.is_absolute() else errors.of_lost_place(FileNotFoundError())
    return str(lost or "")


def _file_above(path: Path) -> str:
    above = next((one for one in path.parents if one.exists()), path)
    return "" if above.is_dir() else f"{above} is a file, and no directory"


def _whose(path: Path) -> str:
    for one in reversed(path.absolute().parents):
        if not os.access(one, os.X_OK):
            return f"{_me()} may not look into {one}, which is {_user(one.stat().st_uid)}'s: {_ELSEWHERE}"
    if os.access(path, os.R_OK):
        return ""  # something else was denied: it was to be written, say
    owner = path.stat().st_uid
    if owner == os.geteuid():
        return f"it is yours, and not to be read: chmod u+r {plain_text.for_shell(path)}"
    return f"it is {_user(owner)}'s, and {_me()} may not read it: have that changed (chmod), or name a copy"


def _me() -> str:
    return _user(os.geteuid())


def _user(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return f"user {uid}"
