"""Deletes what a cache directory keeps while no node runs in it: the entries; digests, settings and identity stay."""

from __future__ import annotations

import os
import time
from pathlib import Path

from tfquiver import durable, errors
from tfquiver.cli.status_asked_watched_explained import cold

_LOCK_S = 0.3


def clear(directory: Path) -> tuple[int, int]:
    """How many entries were deleted, and their bytes.

    Holds the node's lock meanwhile, so that none starts. Killed in the middle it leaves fewer entries, and no harm.

    Raises:
      AlreadyRunningError: a node runs there: ask it.
      PermissionError_: this user may not delete there; names the file.
    """
    try:
        lock = durable.lock_file(directory / "node.lock")
    except OSError as error:
        raise errors.PermissionError_(f"{directory}: {error.strerror}") from error
    try:
        give_up_at = time.monotonic() + _LOCK_S
        while not durable.try_lock(lock):
            if time.monotonic() > give_up_at:
                raise errors.AlreadyRunningError(f"{directory}: a node runs there, or is just starting: try again")
            time.sleep(_LOCK_S / 10)
        return _delete(directory)
    finally:
        os.close(lock)


def _delete(directory: Path) -> tuple[int, int]:
    entries = size_bytes = 0
    try:
        for found in cold.entries_in(directory):
            its_bytes = cold.disk_bytes(found)
            os.unlink(found.path)  # noqa: PTH108 - of a million a path each takes longer than to delete them
            entries, size_bytes = entries + 1, size_bytes + its_bytes
    except OSError as error:
        raise errors.PermissionError_(f"{error.filename or directory}: {error.strerror}") from error
    return entries, size_bytes
