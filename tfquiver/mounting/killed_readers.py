"""What a process waits for that was killed is given up, so that it can end. Needs trio.

A process that is killed (-9, or Ctrl-C where it does nothing about that) while a question of its own is with the mount
ends when that is answered, not before. Of an `open` the kernel says so (FUSE_INTERRUPT), which libfuse takes and
pyfuse3 gives to nobody; of a read past its pages (O_DIRECT) it says nothing. So it is looked for who is known to ask:
who opened a list of what to read next, or a file with O_DIRECT. Who reads through the kernel's pages waits for those,
and ends.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

import trio

_LOOKS_EVERY_S = 0.5
_SIGKILL = 1 << 8  # as in /proc: signal 9
_TROUBLE = (OSError, MemoryError, RuntimeError)


class KilledReaders:
    """Lives on one trio loop, on which `run` runs."""

    def __init__(self) -> None:
        self._waiting: dict[int, set[trio.CancelScope]] = {}
        self._begun = trio.Event()

    @contextmanager
    def ends_with(self, process: int) -> Iterator[None]:
        """What is in it is cancelled, and left without a word, when the process is killed. 0: one that nothing is known
        of."""
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
                    asked = [process for process in self._waiting if process]
                    for process in await trio.to_thread.run_sync(_killed, asked, abandon_on_cancel=True):
                        for scope in list(self._waiting.get(process, ())):
                            scope.cancel()
                await trio.sleep(_LOOKS_EVERY_S)


def _killed(processes: Iterable[int]) -> list[int]:
    return [process for process in processes if _is_killed(process)]


def _is_killed(process: int) -> bool:
    """It is to end, and has not yet: SIGKILL is pending for one of its threads."""
    try:
        for task in Path(f"/proc/{process}/task").iterdir():
            for line in (task / "status").read_bytes().split(b"\n"):
                if line.startswith(b"SigPnd:") and int(line[7:], 16) & _SIGKILL:
                    return True
    except OSError:  # it has ended
        pass
    return False
