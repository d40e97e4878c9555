"""Ends what runs in a directory on this machine: `tfquiver up` with all its servers, a node by itself, or the
coordinator or dispatcher whose --work_dir it is."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path

from tfquiver import durable, errors
from tfquiver.node_daemon_and_notes_in_directories import server_file, up_file
from tfquiver.sizes_durations_amounts.amounts import many

NODE_LOCK = "node.lock"
KEPT = "--die_with_parent"  # whoever started this node ends with it, and starts it again
_UP_S, NODE_S = 40.0, 30.0  # each of up's servers may take a while; a node has --drain_s
_AGAIN_S = 1.0
_KILLED = (
    ". Readers of a training that was killed, or hangs, count until that is noticed: some seconds, through tf.data "
    "service two or three minutes"
)
_POLL_S = 0.05
_MOST_PID = 1 << 22  # Linux has none above


def stop(directory: Path, readers: Callable[[], int], force: bool) -> str:
    """What was stopped, for people; "": nothing runs there.

    Args:
      readers: how many read through what runs there now.
      force: whoever reads.

    Raises:
      InUseError: they read through it, and would only start it again.
      PermissionError_: it is another user's.
      DeadlineError: it does not end.
    """
    lock = directory / up_file.LOCK_FILE
    if (pid := holder(lock)) is not None:
        if not force and (count := readers()):
            raise errors.InUseError(
                f"{directory}: {_readers(count)} in an epoch through `tfquiver up` (pid {pid}), and trainings behind "
                f"its tf.data service would wait until it is started again; --force stops it anyway{_KILLED}"
            )
        end(lock, pid, f"`tfquiver up` (pid {pid})", _UP_S)
        return f"`tfquiver up` (pid {pid}) and all its servers"
    if server := server_file.running(directory):
        return _stop_server(directory, server, readers, force)
    lock = directory / NODE_LOCK
    if (pid := holder(lock)) is None:
        return ""
    if KEPT in arguments_of(pid):
        raise errors.InUseError(
            f"{directory}: the node (pid {pid}) is kept running by the server that started it: stop that"
        )
    if not force and (count := readers()):
        raise errors.InUseError(
            f"{directory}: {_readers(count)} in an epoch and would start the node again; --force stops it "
            f"anyway{_KILLED}"
        )
    end(lock, pid, f"the node (pid {pid})", NODE_S)
    again = "" if _stays_stopped(lock) else "; a process that has a data set there has started another one"
    return f"the node (pid {pid}){again}"


def _stop_server(directory: Path, server: server_file.Server, readers: Callable[[], int], force: bool) -> str:
    if KEPT in arguments_of(server.pid):
        raise errors.InUseError(
            f"{directory}: the {server.called} is kept running by what started it, as `tfquiver up` does: stop that"
        )
    if not force and (count := readers()):
        raise errors.InUseError(
            f"{directory}: {_readers(count)} in an epoch of the cluster of this {server.called}, and would wait until "
            "it is started again; --force stops it anyway"
        )
    end(directory / server_file.LOCKS[server.server], server.pid, f"the {server.called}", _UP_S)
    return f"the {server.called}"


def _stays_stopped(lock: Path) -> bool:
    give_up_at = time.monotonic() + _AGAIN_S
    while time.monotonic() < give_up_at:
        if durable.holder(lock) is not None:
            return False
        time.sleep(_POLL_S)
    return True


def holder(lock: Path) -> int | None:
    """Its pid; None: nobody. Raises PermissionError_; UnavailableError: whoever has it has not said yet who it is."""
    try:
        text = durable.holder(lock)
    except OSError as error:
        raise errors.PermissionError_(f"{lock}: {durable.why_not_used(error)}") from error
    if text is None:
        return None
    if not text.isdecimal() or not 0 < int(text) <= _MOST_PID:
        raise errors.UnavailableError(f"{lock}: somebody is just starting there: try again")
    return int(text)


def arguments_of(pid: int) -> list[str]:
    """Of a process of this machine; none when it does not say."""
    try:
        return [os.fsdecode(one) for one in Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")]
    except OSError:
        return []


def _has_open(pid: int, path: Path) -> bool:
    """True, too, where it cannot be told: of another user's process, which no signal of this one reaches."""
    try:
        file = path.stat()
        for one in Path(f"/proc/{pid}/fd").iterdir():
            with contextlib.suppress(OSError):  # closed meanwhile
                if os.path.samestat(one.stat(), file):
                    return True
    except PermissionError:
        return True
    except OSError:  # it has ended
        return False
    return False


def end(lock: Path, pid: int, what: str, within_s: float) -> None:
    """SIGTERM; returns when the lock is free. Only to the process that holds it: numbers are used again, and mean
    something else in another container.

    Raises PermissionError_, DeadlineError; UnavailableError: the number is that of a process that does not hold it.
    """
    try:
        process = os.pidfd_open(pid)
    except ProcessLookupError:
        if holder(lock) != pid:
            return
        raise errors.UnavailableError(
            f"{lock}: there is no pid {pid} here: the holder is in another container, or just starting"
        ) from None
    try:
        if holder(lock) != pid:
            return
        if not _has_open(pid, lock):
            if holder(lock) != pid:  # it has just ended
                return
            raise errors.UnavailableError(
                f"{lock}: pid {pid} is another process here: the holder is in another container, or just starting"
            )
        signal.pidfd_send_signal(process, signal.SIGTERM)
    except ProcessLookupError:
        return
    except PermissionError as error:
        raise errors.PermissionError_(f"{what} belongs to another user: {error.strerror}") from error
    finally:
        os.close(process)
    give_up_at = time.monotonic() + within_s
    while durable.holder(lock) == str(pid):  # or another one that is just starting
        if time.monotonic() > give_up_at:
            raise errors.DeadlineError(f"{what} has not ended {within_s:.0f} s after SIGTERM; kill -9 {pid} ends it")
        time.sleep(_POLL_S)


def _readers(count: int) -> str:
    return many(count, "reader is", "readers are")
