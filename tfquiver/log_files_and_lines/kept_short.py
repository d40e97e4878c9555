"""The log of a process that runs for months, kept short by that process: what Python and libraries write to standard
error, and to standard output where that is the same file, goes to a file that is put aside when it is long, and on to
the next one."""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import MutableMapping, Sequence
from pathlib import Path

from tfquiver.log_files_and_lines import log_file

VARIABLE = "TFQUIVER_LOG"  # in the environment of who is started: the file that its standard error goes to
_STANDARD_OUTPUT, _STANDARD_ERROR = 1, 2
_LOOK_S = 1.0


def begin(environment: MutableMapping[str, str] = os.environ) -> None:
    """Where `VARIABLE` says so, and it is true. Takes it away: children of this process have logs of their own."""
    path = Path(environment.pop(VARIABLE, ""))
    if not _goes_to(_STANDARD_ERROR, path):
        return
    descriptors = [one for one in (_STANDARD_ERROR, _STANDARD_OUTPUT) if _goes_to(one, path)]
    # A thread of its own, for the disk may hang.
    threading.Thread(target=_keep, args=(path, descriptors), name="log", daemon=True).start()


def look(path: Path, descriptor: int = _STANDARD_ERROR) -> None:
    """What is written to the descriptor goes to the file at `path`, also when this one, or another process that writes
    there, has put the last one aside. Raises OSError; it goes where it went then."""
    if os.fstat(descriptor).st_size > log_file.MOST_BYTES:
        log_file.put_aside(path)
    try:
        if os.path.samestat(os.fstat(descriptor), path.lstat()):
            return
    except FileNotFoundError:
        pass
    with log_file.opened(path) as another:
        os.dup2(another.fileno(), descriptor)


def _goes_to(descriptor: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), path.lstat())
    except OSError:
        return False


def _keep(path: Path, descriptors: Sequence[int]) -> None:
    never = threading.Event()
    while not never.wait(_LOOK_S):
        with contextlib.suppress(OSError):
            for descriptor in descriptors:
                look(path, descriptor)
