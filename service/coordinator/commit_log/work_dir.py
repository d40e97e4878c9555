"""Who has a coordinator's directory: one process, until it ends. Blocking.

The kernel's lock says so on one machine. On a network file system a lock is lost when its holder has not been heard of
for a while, though the process may live: so the lock's file also names its holder, and who finds another name there has
been replaced, and writes nothing more (`check`).
"""

from __future__ import annotations

import fcntl
import json
import os
import socket
import time
from pathlib import Path

from tfquiver import durable, errors

# Whoever has seen its own name within so long holds the directory still: file servers keep the lock of a machine that
# they do not hear of for a minute or so.
TRUSTED_S = 5.0
_NAME = "lock"
_MOST_BYTES = 4096


class WorkDir:
    """Held from now on, until `release`.

    Raises AlreadyRunningError: another coordinator holds it; InvalidArgumentError: it cannot be used;
    ResourceExhaustedError: the disk is full; UnavailableError: the disk.
    """

    def __init__(self, path: Path, incarnation: str) -> None:
        """`incarnation`: unlike that of every other process."""
        self.path, self._lock_path = path, str(path / _NAME)
        own = {"pid": os.getpid(), "host": socket.gethostname(), "incarnation": incarnation}
        self._own = json.dumps(own).encode()
        try:
            path.mkdir(parents=True, mode=0o700, exist_ok=True)
            self._lock = durable.lock_file(path / _NAME)
        except OSError as error:
            raise errors.InvalidArgumentError(f"--work_dir={path}: {durable.why_not_made(path, error)}") from error
        try:
            if not durable.try_lock(self._lock):
                raise _held(path, self._lock)
            os.pwrite(self._lock, self._own, 0)
            os.ftruncate(self._lock, len(self._own))
            os.fsync(self._lock)
            durable.remove_left_overs(path)
        except OSError as error:
            os.close(self._lock)
            raise errors.from_os_error(error, f"work_dir {path}: lock") from error
        except BaseException:
            os.close(self._lock)
            raise
        self._seen_s = _now_s()

    def is_trusted(self) -> bool:
        """It was seen a moment ago whose it is. False: `check` before anything is decided; it may be that this process
        was stopped, or its file system has hung, and another one has it now."""
        return _now_s() < self._seen_s + TRUSTED_S

    def check(self) -> None:
        """Raises AlreadyRunningError: it is another's now; UnavailableError: nobody can tell just now."""
        looked_s = _now_s()
        try:
            # By its name: what an open file shows may be old where others write it through a network. In as few calls
            # as it takes: before each write of the log, and after each call a thread waits for the interpreter again.
            file = os.open(self._lock_path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
            try:
                found = os.read(file, _MOST_BYTES)
            finally:
                os.close(file)
        except FileNotFoundError:
            found = b""
        except OSError as error:
            raise errors.UnavailableError(f"work_dir {self.path}: lock: {error.strerror}") from error
        if found != self._own:
            raise errors.AlreadyRunningError(f"work_dir {self.path}: another coordinator has taken over{_named(found)}")
        self._seen_s = looked_s

    def release(self) -> None:
        os.close(self._lock)


def _now_s() -> float:
    """Also while the machine sleeps, where there is such a clock."""
    return time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))


def was_held(path: Path) -> bool:
    """Whether some coordinator has held it, ever, and none does now.

    Raises AlreadyRunningError: one does; UnavailableError: nobody can tell just now.
    """
    try:
        lock = os.open(path / _NAME, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    except OSError as error:
        raise errors.UnavailableError(f"work_dir {path}: lock: {error.strerror}") from error
    try:
        fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)  # not one that another who looks takes for a holder's
        return True
    except BlockingIOError:
        raise _held(path, lock) from None
    except OSError as error:
        raise errors.UnavailableError(f"work_dir {path}: lock: {error.strerror}") from error
    finally:
        os.close(lock)


def _held(path: Path, lock: int) -> errors.AlreadyRunningError:
    holder = _named(os.pread(lock, _MOST_BYTES, 0))
    return errors.AlreadyRunningError(f"work_dir {path}: another coordinator holds it{holder}")


def _named(text: bytes) -> str:
    """For messages; of a file that does not say it, nothing."""
    try:
        holder = json.loads(text[:_MOST_BYTES])
        return f" (pid {int(holder['pid'])} on {str(holder['host'])[:64]})"
    except (ValueError, TypeError, KeyError):
        return ""
