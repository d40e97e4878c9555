"""What a process waits for that was killed is given up, so that it can end. Needs trio.

A process that is killed (-9, or Ctrl-C where it does nothing about that) while a question of its own is with the mount
ends when that is answered, not before. Of an `open` the kernel says so (FUSE_INTERRUPT), which libfuse takes and
pyfuse3 gives to nobody; of a read past its pages (O_DIRECT) it says nothing. So it is looked for who is known to ask:
who opened a list of what to read next, or a file with O_DIRECT. The kernel tells which thread that was, which may have
ended when another one of its process reads: so its process is remembered. Who reads through the kernel's pages waits
for those, and ends.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import trio

PROC = Path("/proc")
_LOOKS_EVERY_S = 0.5
_SIGKILL = 1 << 8  # as in /proc: signal 9
_MOST_BYTES = 1 << 16  # of what /proc says of one
_STARTED = 19  # what follows the name in /proc/PID/stat
_TROUBLE = (OSError, MemoryError, RuntimeError)


@dataclass(frozen=True, slots=True)
class Process:
    """`started`: as no other that has had its number before or has it later."""

    id: int
    started: bytes


def process_of(thread: int) -> Process | None:
    """Of a thread, by its number as the kernel says it to this process. None: nothing is known of it: it is in another
    PID namespace (0), it may not be looked at, or /proc is that of another namespace."""
    try:
        if not thread or (PROC / "self").readlink().name != str(os.getpid()):
            return None
        process = int(_field(f"{thread}/status", b"\nTgid:"))
        return Process(process, _started(process))
    except (OSError, ValueError, IndexError):
        return None


class KilledReaders:
    """Lives on one trio loop, on which `run` runs."""

    def __init__(self) -> None:
        self._waiting: dict[Process, set[trio.CancelScope]] = {}
        self._begun = trio.Event()

    @contextmanager
    def ends_with(self, process: Process | None) -> Iterator[None]:
        """What is in it is cancelled, and left without a word, when the process is killed."""
        if process is None:
            yield
            return
        with trio.CancelScope() as scope:
            scopes = self._waiting.setdefault(process, set())
            scopes.add(scope)
            self._begun.set()
            try:
                yield
            finally:
                scopes.discard(scope)
                if not scopes:
                    self._waiting.pop(process, None)

    async def run(self) -> None:
        """Until it is cancelled."""
        while True:
            await self._begun.wait()
            self._begun = trio.Event()
            await trio.sleep(_LOOKS_EVERY_S)
            while self._waiting:
                with contextlib.suppress(*_TROUBLE):
                    for process in await trio.to_thread.run_sync(killed, list(self._waiting), abandon_on_cancel=True):
                        for scope in list(self._waiting.get(process, ())):
                            scope.cancel()
                await trio.sleep(_LOOKS_EVERY_S)


def killed(processes: Iterable[Process]) -> list[Process]:
    """Those that are to end, and have not yet."""
    return [process for process in processes if _is_killed(process)]


def _is_killed(process: Process) -> bool:
    """SIGKILL is pending for one of its threads."""
    try:
        if _started(process.id) != process.started:
            return False  # it has ended, and another one has its number
        return any(
            int(_field(f"{process.id}/task/{thread}/status", b"\nSigPnd:"), 16) & _SIGKILL
            for thread in os.listdir(PROC / f"{process.id}/task")  # noqa: PTH208 - of a thousand threads twice a second
        )
    except (OSError, ValueError, IndexError):  # it has ended
        return False


def _field(path: str, name: bytes) -> bytes:
    return _read(path).partition(name)[2].partition(b"\n")[0]


def _started(process: int) -> bytes:
    return _read(f"{process}/stat").rpartition(b")")[2].split()[_STARTED]


def _read(path: str) -> bytes:
    fd = os.open(f"{PROC}/{path}", os.O_RDONLY | os.O_CLOEXEC)
    try:
        return os.read(fd, _MOST_BYTES)
    finally:
        os.close(fd)
