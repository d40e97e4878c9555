"""What each argument of the public functions may be; errors name the argument."""

from __future__ import annotations

import numbers
import os
from pathlib import Path

from tfquiver import errors
from tfquiver.sizes_durations_amounts import sizes

_MAX_BYTES = 1 << 50
_MAX_NAME_BYTES = 256
_MAX_PATH_BYTES = 4096
_MAX_WAIT_S = 24 * 3600


def check_integer(name: str, value: object, least: int, most: int) -> int:
    if not isinstance(value, bool) and isinstance(value, numbers.Integral) and least <= int(value) <= most:
        return int(value)
    raise errors.InvalidArgumentError(f"{name}={value!r}: must be an integer from {least} to {most}")


def check_flag(name: str, value: object) -> None:
    if not isinstance(value, bool):
        raise errors.InvalidArgumentError(f"{name}={value!r}: must be True or False")


def check_seconds(name: str, value: object) -> None:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= _MAX_WAIT_S:
        raise errors.InvalidArgumentError(f"{name}={value!r}: must be a number of seconds from 0 to {_MAX_WAIT_S}")


def check_name(name: str, value: object) -> None:
    if value is None:
        return
    if not isinstance(value, str) or not value or not value.isprintable():  # a lone surrogate is not printable
        raise errors.InvalidArgumentError(f"{name}={value!r}: must be text of printable characters, and not empty")
    if (size_bytes := len(value.encode())) > _MAX_NAME_BYTES:
        raise errors.InvalidArgumentError(
            f"{name}={value[:40]!r}...: {size_bytes} bytes in UTF-8; the limit is {_MAX_NAME_BYTES}"
        )


def directory(name: str, value: object) -> Path:
    """The absolute path of a directory that need not be there. Raises InvalidArgumentError naming the argument."""
    text = os.fspath(value) if isinstance(value, str | os.PathLike) else value
    if not isinstance(text, str) or not text.strip() or "\0" in text:
        raise errors.InvalidArgumentError(f"{name}={value!r}: must be the path of a directory, and not empty")
    if len(os.fsencode(text)) > _MAX_PATH_BYTES:
        raise errors.InvalidArgumentError(f"{name}={text[:40]!r}...: longer than {_MAX_PATH_BYTES} bytes")
    return _whole(name, text)


def absolute(name: str, path: object) -> str:
    """The absolute path; "" for None. Raises InvalidArgumentError naming the argument."""
    if path is None:
        return ""
    if not isinstance(path, str | os.PathLike) or not isinstance(os.fspath(path), str) or not os.fspath(path):
        raise errors.InvalidArgumentError(f"{name}={path!r}: must be a path")
    return str(_whole(name, path))


def _whole(name: str, path: str | os.PathLike[str]) -> Path:
    """Raises InvalidArgumentError: there is no such home, or no directory any more that this process is in."""
    try:
        return Path(path).expanduser().absolute()
    except (RuntimeError, OSError) as error:
        lost = errors.of_lost_place(error) if isinstance(error, FileNotFoundError) else None
        what = lost or getattr(error, "strerror", None) or error
        raise errors.InvalidArgumentError(f"{name}={os.fspath(path)!r}: {what}") from error


def quota(value: object) -> int | None:
    """Of `quota=`, in bytes; None: none is given."""
    if isinstance(value, str) and sizes.is_size(value) and (why := sizes.too_little_room(value)):
        raise errors.InvalidArgumentError(f"quota={value!r}: {why}")
    return None if value is None else size("quota", value, 1)


def size(name: str, value: object, least: int) -> int:
    """Bytes; `value` is a number of them, or text such as "64MiB"."""
    if isinstance(value, str):
        try:
            value = sizes.parse_bytes(value)
        except errors.InvalidArgumentError as error:
            raise errors.InvalidArgumentError(f"{name}: {error}") from error
    return check_integer(name, value, least, _MAX_BYTES)
