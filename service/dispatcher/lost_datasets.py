"""Data sets that the dispatcher has taken, and that its disk has not, or takes long to: told to who keeps that disk.

TensorFlow does not look whether a graph was written (`kept_dataset` tells the trainer). Called by the dispatcher's
program, in whose process TensorFlow writes them: what is being written is open here.
"""

from __future__ import annotations

import contextlib
import os
import struct
from collections.abc import Sequence
from pathlib import Path

from absl import logging

from tfquiver.clock import Clock, SystemClock
from tfquiver.sizes_durations_amounts.amounts import many, of_bytes

_HEADER = struct.Struct("<QI")  # of a TFRecord: each file is one
_MOST_NAMED = 3
_FRAME_BYTES = _HEADER.size + 4
_OPEN_FILES = Path("/proc/self/fd")


class LostDatasets:
    """Not thread-safe."""

    def __init__(self, work_dir: Path, clock: Clock | None = None) -> None:
        self._directory, self._clock = work_dir / "datasets", clock or SystemClock()
        self._done = set[str]()  # it is whole, or has been told of
        self._seen_at: dict[str, float] = {}  # name -> when it was first seen not to be whole
        self._told_slow = set[str]()

    def begin(self) -> list[str]:
        """Before TensorFlow writes anything: names of those that were cut off in an earlier run. Raises OSError."""
        old = self._cut_off()
        self._done.update(old)
        if old:
            logging.info(
                "%s: of an earlier run, whose disk did not take %s (%s): nobody can read from what is there, and "
                "nothing needs it; the files may be deleted",
                self._directory, many(len(old), "data set"), _some(old),
            )  # fmt: skip
        return old

    def look(self) -> list[str]:
        """Names of those that are empty or cut off, each once: nobody writes them any more, or they are looked at for
        the second time. Of those that are still being written it is said that it takes long. Raises OSError."""
        now = self._clock.now()
        cut_off = self._cut_off()
        again = [name for name in cut_off if name in self._seen_at]
        self._seen_at = {name: self._seen_at.get(name, now) for name in cut_off}
        being_written = self._being_written() if again else set[str]()
        slow = [name for name in again if name in being_written and name not in self._told_slow]
        # One that was whole and closed since it was looked at, which the disk may have held up, is not open either.
        lost = [name for name in again if name not in being_written and _missing_bytes(self._directory / name)]
        if slow:
            self._told_slow.update(slow)
            logging.warning(
                "%s: the disk is slow, or hangs: it has not taken %s (%s) within %.0f s; who distributes one waits for "
                "that",
                self._directory.parent, many(len(slow), "data set"), _some(slow),
                now - min(self._seen_at[name] for name in slow),
            )  # fmt: skip
        if lost:
            self._done.update(lost)
            logging.error(
                "%s: the disk has not taken %s of trainers (%s): %s; who distributes one is told so",
                self._directory.parent, many(len(lost), "data set"), _some(lost), self._what_to_do(lost),
            )  # fmt: skip
        return lost

    def _cut_off(self) -> list[str]:
        """Those that are not done."""
        try:
            names = [entry.name for entry in os.scandir(self._directory) if entry.is_file(follow_symlinks=False)]
        except FileNotFoundError:
            return []
        found = []
        for name in sorted(set(names) - self._done):
            if _missing_bytes(self._directory / name):
                found.append(name)
            else:
                self._done.add(name)
        return found

    def _being_written(self) -> set[str]:
        found, directory = set[str](), self._directory.resolve()
        for one in _OPEN_FILES.iterdir():
            with contextlib.suppress(OSError):  # closed meanwhile
                if (file := one.readlink()).parent == directory:
                    found.add(file.name)
        return found

    def _what_to_do(self, names: Sequence[str]) -> str:
        there = os.statvfs(self._directory)
        free_bytes = there.f_bavail * there.f_frsize
        if free_bytes < max(_missing_bytes(self._directory / name) for name in names):
            return "make room there"
        return (
            f"{of_bytes(free_bytes)} are free there now: it was full then, has a quota, or fails (the "
            "kernel's log, `dmesg`, says so)"
        )


def _some(names: Sequence[str]) -> str:
    return ", ".join(names[:_MOST_NAMED]) + (", ..." if names[_MOST_NAMED:] else "")


def _missing_bytes(path: Path) -> int:
    """As far as can be told; 0: it is whole, or gone."""
    try:
        with path.open("rb") as file:
            size_bytes, header = os.fstat(file.fileno()).st_size, file.read(_HEADER.size)
    except FileNotFoundError:
        return 0
    if len(header) < _HEADER.size:
        return _FRAME_BYTES
    return max(0, int(_HEADER.unpack(header)[0]) + _FRAME_BYTES - size_bytes)
