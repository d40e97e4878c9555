"""Which file system a path is on, by name: what hangs there need not be somewhere else."""

from __future__ import annotations

import os
import re
import threading
import time
from collections.abc import Callable, Collection
from concurrent.futures import Future
from concurrent.futures import TimeoutError as NotYet
from pathlib import Path

from tfquiver.stores.hanging_file_systems.path_walk import walk

_MOUNTS = Path("/proc/self/mountinfo")
_HIDDEN = re.compile(r"\\([0-7]{3})")
_KNOWN_S, _MOST_KNOWN = 60.0, 4096
_ANSWERS_S = 1.0
_AT_ONCE = 256  # look-ups: each is a thread


def shown(text: str) -> str:
    """A field of mountinfo: the kernel writes blanks and such as octal numbers."""
    return _HIDDEN.sub(lambda found: chr(int(found[1], 8)), text)


def points(mountinfo: str) -> list[str]:
    """Where file systems are mounted, as the kernel says."""
    fields = [line.split(" ", 5) for line in mountinfo.split("\n")]
    return [shown(of[4]) for of in fields if len(of) > 5]


def mount_of(path: str, mount_points: Collection[str]) -> str:
    """The innermost of them that an absolute path is under; "/" where none is."""
    over = [point for point in mount_points if path == point or path.startswith(point.rstrip("/") + "/")]
    return max(over, key=len, default="/")


def mounted_now() -> frozenset[str]:
    """Asks the kernel alone, never a file system: it does not hang."""
    try:
        return frozenset(points(os.fsdecode(_MOUNTS.read_bytes())))
    except OSError:  # no Linux
        return frozenset()


class LookUp:
    """One walk along a directory's symbolic links, in a thread of its own."""

    def __init__(self, directory: str) -> None:
        self.directory = directory
        self.mount = directory  # the answer, as far as it is known
        self.ended: Future[None] = Future()


class Mounts:
    """Thread-safe. What it has looked up it knows for a minute.

    A directory is looked up through its symbolic links, which may lead to what hangs. Where that has not come to its
    end within `answers_s` the answer is the mount to which the path leads as far as it is known by then. Look-ups enter
    a mount one after the other, and none enters after one that has been there for `answers_s`: a dead mount holds one
    thread, whatever is asked of it, until it answers.
    """

    def __init__(
        self,
        link_at: Callable[[str], str] = os.readlink,
        mounted: Callable[[], Collection[str]] = mounted_now,
        clock: Callable[[], float] = time.monotonic,
        answers_s: float = _ANSWERS_S,
    ) -> None:
        self.answers_s = answers_s
        self._link_at, self._mounted, self._clock = link_at, mounted, clock
        self._lock = threading.Lock()
        self._known: dict[str, tuple[str, float]] = {}  # directory -> mount point, until
        self._under_way: dict[str, LookUp] = {}  # by directory
        self._inside: dict[str, float] = {}  # mount point -> since when one look-up is there
        self._left = threading.Condition(self._lock)

    def known(self, path: str) -> str | None:
        """What has been looked up; does not wait."""
        with self._lock:
            mount, until_s = self._known.get(os.path.dirname(path), (None, 0.0))  # noqa: PTH120 - of a hot path
        return mount if until_s > self._clock() else None

    def of(self, path: str) -> str:
        """The mount point. Blocks for `answers_s` at most."""
        if (mount := self.known(path)) is not None:
            return mount
        look_up = self.look_up(path)
        try:
            look_up.ended.result(self.answers_s)
        except NotYet:
            return self.late(look_up)
        return look_up.mount

    def look_up(self, path: str) -> LookUp:
        """Begun now, or by somebody before; does not wait. Who has waited `answers_s` for its end calls `late`."""
        directory = os.path.dirname(path)  # noqa: PTH120
        with self._lock:
            if (found := self._under_way.get(directory)) is not None:
                return found
            made = LookUp(directory)
            room = len(self._under_way) < _AT_ONCE
            if room:
                self._under_way[directory] = made
        if room:
            try:
                threading.Thread(target=self._run, args=(made,), name="look up a mount", daemon=True).start()
            except (RuntimeError, MemoryError):  # the machine has no thread to spare
                with self._lock:
                    del self._under_way[directory]
            else:
                return made
        # For this once its symbolic links are not looked at.
        made.mount = mount_of(directory, self._mounted())
        made.ended.set_result(None)
        return made

    def late(self, look_up: LookUp) -> str:
        """The mount to which it leads as far as it has come; who asks is told that one for a while."""
        self._knows(look_up)
        return look_up.mount

    def _knows(self, look_up: LookUp) -> None:
        with self._lock:
            if len(self._known) >= _MOST_KNOWN:
                self._known.clear()
            self._known[look_up.directory] = (look_up.mount, self._clock() + _KNOWN_S)

    def _run(self, look_up: LookUp) -> None:
        mount_points: Collection[str] = ()
        inside = ""

        def enter(directory: str, ahead: str) -> bool:
            nonlocal inside
            mount = mount_of(directory, mount_points)
            look_up.mount = mount_of(ahead, mount_points)
            if mount == inside:
                return True
            with self._left:
                self._leaves(inside)
                inside = ""
                while (since_s := self._inside.get(mount)) is not None:
                    if (left_s := since_s + self.answers_s - time.monotonic()) <= 0:
                        return False
                    self._left.wait(left_s)
                self._inside[mount] = time.monotonic()
                inside = mount
            return True

        try:
            mount_points = self._mounted()
            walk(look_up.directory, mount_points, enter, self._link_at)
        finally:
            with self._left:
                self._leaves(inside)
                del self._under_way[look_up.directory]
            self._knows(look_up)
            look_up.ended.set_result(None)

    def _leaves(self, mount: str) -> None:
        if self._inside.pop(mount, None) is not None:
            self._left.notify_all()
