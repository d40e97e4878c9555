"""Which file system a path is on, by name: what hangs there need not be somewhere else."""

from __future__ import annotations

import os
import re
import threading
import time
from collections.abc import Callable
from pathlib import Path

_MOUNTS = Path("/proc/self/mountinfo")
_HIDDEN = re.compile(r"\\([0-7]{3})")
_KNOWN_S, _MOST_KNOWN = 60.0, 4096
_ANSWERS_S = 1.0


def shown(text: str) -> str:
    """A field of mountinfo: the kernel writes blanks and such as octal numbers."""
    return _HIDDEN.sub(lambda found: chr(int(found[1], 8)), text)


def points(mountinfo: str) -> list[str]:
    """Where file systems are mounted, as the kernel says."""
    fields = [line.split(" ", 5) for line in mountinfo.split("\n")]
    return [shown(of[4]) for of in fields if len(of) > 5]


def mount_of(path: str, mount_points: list[str]) -> str:
    """The innermost of them that an absolute path is under; "/" where none is."""
    over = [point for point in mount_points if path == point or path.startswith(point.rstrip("/") + "/")]
    return max(over, key=len, default="/")


class Mounts:
    """Thread-safe. What it has looked up it knows for a minute.

    A directory is looked up through its symbolic links, which may lead to what hangs: after a second of that it counts
    as a file system of its own.
    """

    def __init__(
        self,
        real: Callable[[str], str] = os.path.realpath,
        clock: Callable[[], float] = time.monotonic,
        answers_s: float = _ANSWERS_S,
    ) -> None:
        self._real, self._clock, self._answers_s = real, clock, answers_s
        self._lock = threading.Lock()
        self._known: dict[str, tuple[str, float]] = {}  # directory -> mount point, until

    def known(self, path: str) -> str | None:
        """What has been looked up; does not wait."""
        with self._lock:
            mount, until_s = self._known.get(os.path.dirname(path), (None, 0.0))  # noqa: PTH120 - of a hot path
        return mount if until_s > self._clock() else None

    def of(self, path: str) -> str:
        """The mount point, or the directory itself where nothing says. Blocks for a second at most."""
        if (mount := self.known(path)) is not None:
            return mount
        directory = os.path.dirname(path)  # noqa: PTH120
        mount = self._looked_up(directory)
        with self._lock:
            if len(self._known) >= _MOST_KNOWN:
                self._known.clear()
            self._known[directory] = (mount, self._clock() + _KNOWN_S)
        return mount

    def _looked_up(self, directory: str) -> str:
        found: list[str] = []

        def look() -> None:
            try:
                text = os.fsdecode(_MOUNTS.read_bytes()) if _MOUNTS.exists() else ""
                found.append(mount_of(self._real(directory), points(text)))
            except (OSError, ValueError):
                found.append(directory)

        thread = threading.Thread(target=look, name="look up a mount", daemon=True)
        thread.start()
        thread.join(self._answers_s)
        return found[0] if found else directory
