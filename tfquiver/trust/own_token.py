"""The token that this process shows to others."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from absl import logging

from tfquiver import errors

_MAX_TOKEN_BYTES = 4096


def read_token(path: str) -> str:
    """What this process shows: first line of the file, or "" when no file is named. Raises InvalidArgumentError."""
    if not path:
        return ""
    try:
        with Path(path).open("rb") as file:
            mode = os.fstat(file.fileno()).st_mode
            line = file.readline(_MAX_TOKEN_BYTES + 1).decode("ascii").strip()
    except UnicodeDecodeError as error:
        raise errors.InvalidArgumentError(f"--auth_token_file={path}: the first line is not ASCII text") from error
    except (OSError, ValueError) as error:
        what = getattr(error, "strerror", None) or str(error)
        raise errors.InvalidArgumentError(f"--auth_token_file={path}: {what}") from error
    if not line:
        raise errors.InvalidArgumentError(f"--auth_token_file={path}: the first line is empty")
    if len(line) > _MAX_TOKEN_BYTES or not line.isprintable():
        raise errors.InvalidArgumentError(
            f"--auth_token_file={path}: the first line is longer than {_MAX_TOKEN_BYTES} characters, or not printable"
        )
    if mode & stat.S_IROTH:
        logging.warning("--auth_token_file=%s can be read by every user of this machine: chmod 600", path)
    return line
