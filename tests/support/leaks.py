"""What this process holds (threads, open files, sockets and mounts) and which processes it has started."""

from __future__ import annotations

import contextlib
import gc
import os
import signal
import sys
import threading
import time
import traceback
from collections import Counter
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from tests.support import own_mounts

MARK = "TFQUIVER_TEST_RUN"
_GRACE_S = 20.0  # of what is left for ever nothing goes in that time either
# Threads that libraries start once for the life of the process, by a part of their names.
_FSSPEC = "fsspecIO"  # its loop looks host names up, in several threads of its executor where the machine is busy
_LASTING_THREADS = ("_poller", "pydevd", "pytest_timeout", "asyncio_0", _FSSPEC)
_LASTING_MOUNTS = ("/run/netns",)  # iproute2 makes it with the first namespace, and keeps it
# Processes and descriptors that a process of tests keeps until it ends (tests/support/warm.py).
_lasting_processes: set[int] = set()
_lasting_descriptors: set[int] = set()
# Not of these tests, looked at once and not before and after every test: which were there before this one, and which
# carry another mark, as all that the processes of tests beside this one start.
_others_processes: set[int] = set()
_KERNEL_OBJECTS = ("anon_inode:", "/dev/", "/proc/", "/sys/", "pipe:")


@dataclass(frozen=True)
class Held:
    threads: frozenset[threading.Thread]
    descriptors: frozenset[tuple[int, str]]
    processes: frozenset[tuple[int, str]]
    mounts: Counter[str]
    sockets: bool


def lasting(process: int, descriptor: int) -> None:
    _lasting_processes.add(process)
    _lasting_descriptors.add(descriptor)


def look(sockets: bool = True) -> Held:
    """`sockets` False: for tests that use TensorFlow here, which keeps its connections to servers."""
    return Held(
        frozenset(threading.enumerate()), frozenset(_descriptors(sockets)), frozenset(_processes()),
        _mounts(), sockets,
    )  # fmt: skip


def await_gone(before: Held, grace_s: float = _GRACE_S) -> list[str]:
    """What is still there, beyond `before`, when `grace_s` are over, in words. Ends processes that are left."""
    give_up_at, pause_s = time.monotonic() + grace_s, 0.01
    while left := _more_than(before):
        if time.monotonic() > give_up_at:
            for pid, _ in _processes() - before.processes:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            return left
        gc.collect()  # closes what only a cycle holds; a reference that lasts keeps its descriptor, and fails
        time.sleep(pause_s)
        pause_s = min(1.5 * pause_s, 0.15)  # that collection takes a tenth of a second beside TensorFlow
    return []


def _more_than(before: Held) -> list[str]:
    looks_up = any(_FSSPEC in thread.name for thread in threading.enumerate())
    lasting = (*_LASTING_THREADS, "asyncio_") if looks_up else _LASTING_THREADS
    threads = [
        f"thread {thread.name}{_where(thread)}"
        for thread in threading.enumerate()
        if thread not in before.threads and not any(part in thread.name for part in lasting)
    ]
    descriptors = [
        f"descriptor {fd} -> {target}" for fd, target in sorted(_descriptors(before.sockets) - before.descriptors)
    ]
    processes = [f"process {pid}: {command}" for pid, command in sorted(_processes() - before.processes)]
    mounts = [f"mount at {point}" for point in sorted((_mounts() - before.mounts).elements())]
    return threads + descriptors + processes + mounts


def _where(thread: threading.Thread) -> str:
    frame = sys._current_frames().get(thread.ident or 0)
    called = traceback.extract_stack(frame)[-3:] if frame is not None else []
    return "".join(f"\n    {one.filename}:{one.lineno} in {one.name}" for one in called)


def _mounts() -> Counter[str]:
    return Counter(point for point in own_mounts.points() if point not in _LASTING_MOUNTS)


def _descriptors(sockets: bool) -> set[tuple[int, str]]:
    found = set()
    for name in os.listdir("/proc/self/fd"):  # noqa: PTH208
        try:
            target = os.readlink(f"/proc/self/fd/{name}")  # noqa: PTH115
        except FileNotFoundError:
            continue
        if not target.startswith(_KERNEL_OBJECTS) and (sockets or not target.startswith("socket:")):
            found.add((int(name), target))
    return {(number, target) for number, target in found if number not in _lasting_descriptors}


@cache
def _own_start() -> int:
    return int(Path("/proc/self/stat").read_text().rpartition(") ")[2].split()[19])


def _processes() -> set[tuple[int, str]]:
    """Living processes that carry this run's mark, whoever their parent is now; zombies count when they are ours.

    Without `pathlib`, which was most of what this took: it is done twice for each test, of which most take less.
    """
    mark = f"{MARK}={os.environ.get(MARK, '')}".encode()
    found = set()
    there = {int(name) for name in os.listdir("/proc") if name.isdigit()}  # noqa: PTH208
    _others_processes.intersection_update(there)
    for pid in there - _others_processes - _lasting_processes - {os.getpid()}:
        try:
            fields = _read(f"/proc/{pid}/stat").rpartition(b") ")[2].split()
            if int(fields[19]) < _own_start():
                _others_processes.add(pid)
                continue
            zombie_of_ours = fields[0] == b"Z" and int(fields[1]) == os.getpid()
            environment = _read(f"/proc/{pid}/environ").split(b"\0")
            if zombie_of_ours or mark in environment:
                command = _read(f"/proc/{pid}/cmdline").replace(b"\0", b" ").decode(errors="replace")
                found.add((pid, command[:200].rstrip() or "(zombie)"))
            elif environment != [b""]:  # while a program takes the place of another the kernel shows none
                _others_processes.add(pid)
        except OSError:
            continue
    return {(pid, command) for pid, command in found if "resource_tracker" not in command}


def _read(path: str) -> bytes:
    with open(path, "rb", buffering=0) as file:  # noqa: PTH123
        return file.readall()
