"""The token that this process shows to others."""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping
from pathlib import Path

from absl import logging

from tfquiver import errors, named_files

VARIABLE = "TFQUIVER_AUTH_TOKEN_FILE"
_MAX_TOKEN_BYTES = 4096


def of_user(
    path: str | os.PathLike[str] | None,
    environment: Mapping[str, str] = os.environ,
    named_by: str = "auth_token_file",
) -> str:
    """What a person's command or a training process shows: of the file `path`, else of the one that the environment's
    TFQUIVER_AUTH_TOKEN_FILE names; "": neither names one. Servers go by their flag alone.

    Raises InvalidArgumentError naming what named the file.
    """
    if path:
        return read_token(os.fspath(path), named_by)
    return read_token(environment.get(VARIABLE, ""), VARIABLE)


def read_token(path: str, named_by: str = "--auth_token_file") -> str:
    """What this process shows: first line of the file, or "" when no file is named. Raises InvalidArgumentError."""
    if not path:
        return ""
    try:
        named = Path(path).expanduser()
    except RuntimeError as error:
        raise errors.InvalidArgumentError(f"{named_by}={path}: {error}") from error
    try:
        with named.open("rb") as file:
            mode = os.fstat(file.fileno()).st_mode
            line = file.readline(_MAX_TOKEN_BYTES + 1).decode("ascii").strip()
    except UnicodeDecodeError as error:
        raise errors.InvalidArgumentError(f"{named_by}={path}: the first line is not ASCII text") from error
    except (OSError, ValueError) as error:
        why = named_files.why_not_read(named, error)
        raise errors.InvalidArgumentError(f"{named_by}={path}: {why}") from error
    if not line:
        raise errors.InvalidArgumentError(f"{named_by}={path}: the first line is empty")
    if len(line) > _MAX_TOKEN_BYTES or not line.isprintable():
        raise errors.InvalidArgumentError(
            f"{named_by}={path}: the first line is longer than {_MAX_TOKEN_BYTES} characters, or not printable"
        )
    if mode & stat.S_IROTH:
        logging.warning("%s=%s can be read by every user of this machine: chmod 600", named_by, path)
    return line
