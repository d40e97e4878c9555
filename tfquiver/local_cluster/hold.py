"""One `tfquiver up` a directory: its lock, and the end of whoever had the directory before."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from tfquiver import durable, errors
from tfquiver.local_cluster import plan, stopping
from tfquiver.node_daemon_and_notes_in_directories import daemon, up_file, whose_files
from tfquiver.plain_text import for_shell

_LOCK_S = 0.3  # somebody may just be looking whether it is held
_PREDECESSOR_S = 12.0  # the servers of an `up` that was killed take a few seconds to leave
_POLL_S = 0.05
_LEAVES = "--idle_exit_s="


@contextmanager
def held(directory: Path, say: Callable[[str], None]) -> Iterator[Callable[[], bool]]:
    """The directory, made if need be, is this process's to run a cluster in. Gives what says whether it still is: not
    once it was deleted, though another `up` may have made it again.

    A node that a training process has started for itself, and that would leave when it is idle, is stopped: those who
    read through it wait for the one of this cluster, which goes on with their epochs.

    Raises:
      InvalidArgumentError: it cannot be made or written.
      ResourceExhaustedError, or another typed error of a failed write: there is no room for its lock's few bytes.
      AlreadyRunningError: another `up` has it, or a node that is to stay; names its pid and what to do.
    """
    if warning := whose_files.beside(directory):
        say(f"{directory}: {warning}")
    try:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        durable.private_directory(directory / "log")
        lock = durable.lock_file(directory / up_file.LOCK_FILE)
    except (OSError, ValueError) as error:
        raise errors.InvalidArgumentError(f"up: {directory}: {durable.why_not_made(directory, error)}") from error
    try:
        with daemon.only_one_starts(directory, time.monotonic() + _PREDECESSOR_S):
            _take(directory, lock)
        _take_over(directory, say)
        _wait_for_predecessors(directory)
        yield lambda: _is_there(directory, lock)
    finally:
        os.close(lock)


def _take(directory: Path, lock: int) -> None:
    give_up_at = time.monotonic() + _LOCK_S
    while not durable.try_lock(lock):
        if time.monotonic() > give_up_at:
            pid = os.pread(lock, 20, 0).decode("ascii", "replace").strip() or "unknown"
            raise errors.AlreadyRunningError(
                f"{directory}: `tfquiver up` runs there already (pid {pid}); `tfquiver stop {for_shell(directory)}` "
                "stops it"
            )
        time.sleep(_POLL_S)
    if not _is_there(directory, lock):
        raise errors.AlreadyRunningError(f"{directory}: somebody is deleting it")
    try:
        os.ftruncate(lock, 0)
        os.pwrite(lock, f"{os.getpid()}\n".encode(), 0)
    except OSError as error:
        raise errors.from_os_error(error, str(directory / up_file.LOCK_FILE)) from error


def _is_there(directory: Path, lock: int) -> bool:
    try:
        return os.path.samestat(os.fstat(lock), (directory / up_file.LOCK_FILE).lstat())
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError:  # a disk that does not answer has lost nothing yet
        return True


def _take_over(directory: Path, say: Callable[[str], None]) -> None:
    lock = directory / stopping.NODE_LOCK
    pid = stopping.holder(lock)
    if pid is None or not any(one.startswith(_LEAVES) for one in stopping.arguments_of(pid)):
        return
    say(f"a training process had started a node here (pid {pid}): this cluster takes over")
    stopping.end(lock, pid, f"the node (pid {pid})", stopping.NODE_S)


def _wait_for_predecessors(directory: Path) -> None:
    give_up_at = time.monotonic() + _PREDECESSOR_S
    for name in plan.LOCKS:
        while (pid := _holder(directory / name)) is not None:
            if time.monotonic() > give_up_at:
                raise errors.AlreadyRunningError(
                    f"{directory}: another server has {name} (pid {_number_in(pid)}); "
                    f"`tfquiver stop {for_shell(directory)}` stops it if it is a node"
                )
            time.sleep(_POLL_S)


def _holder(lock: Path) -> str | None:
    try:
        return durable.holder(lock)
    except OSError as error:
        raise errors.from_os_error(error, str(lock)) from error


def _number_in(text: str) -> str:
    """The pid: alone, or as the first of what a coordinator's lock says."""
    found = re.search("[0-9]+", text)
    return found[0] if found else "unknown"
