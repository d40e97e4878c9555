"""Deletes what a cache directory keeps while no node runs in it: the entries; digests, settings and identity stay."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from pathlib import Path

from tfquiver import durable, errors
from tfquiver.cli.status_asked_watched_explained import cold

_LOCK_S = 0.3


@dataclass(slots=True)
class Cleared:
    """`entries`: deleted, `size_bytes`: of the disk. `left`: the disk does not let go of so many, of the first of which
    `why` says the reason."""

    entries: int = 0
    size_bytes: int = 0
    left: int = 0
    why: str = ""


def clear(directory: Path) -> Cleared:
    """What cannot be deleted keeps nothing else.

    Holds the node's lock meanwhile, so that none starts. Killed in the middle it leaves fewer entries, and no harm.

    Raises:
      AlreadyRunningError: a node runs there: ask it.
      PermissionError_, or another typed error: this user may not look there.
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


def _delete(directory: Path) -> Cleared:
    done = Cleared()
    try:
        for found in cold.entries_in(directory):
            try:
                its_bytes = cold.disk_bytes(found)
                os.unlink(found.path)  # noqa: PTH108 - of a million a path each takes longer than to delete them
            except FileNotFoundError:  # somebody else has deleted it
                continue
            except OSError as error:
                done.left, done.why = done.left + 1, done.why or f"{found.path}: {error.strerror}"
                continue
            done.entries, done.size_bytes = done.entries + 1, done.size_bytes + its_bytes
    except OSError as error:
        raise errors.from_os_error(error, str(error.filename or directory)) from error
    return done
