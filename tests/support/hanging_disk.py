"""A disk that hangs as a failing one, or a file server, does: all calls wait, reads too, and who waits can be killed.

A file system that passes on to a directory, in a process of its own (tests/support/passing_on.py), which is stopped. (A
frozen ext4 lets reads through, and holds who writes so that nothing ends them.) Needs pyfuse3, and what mounts need.
"""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil

from tests.support.cluster import wait_until


class HangingDisk:
    """Mounted at `path`."""

    def __init__(self, path: Path, process: subprocess.Popen[str]) -> None:
        self.path, self._process = path, process

    def hang(self) -> None:
        """Returns when it does."""
        self._process.send_signal(signal.SIGUSR1)
        process = psutil.Process(self._process.pid)
        wait_until(lambda: process.status() == psutil.STATUS_STOPPED, "the disk hangs")

    def go_on(self) -> None:
        self._process.send_signal(signal.SIGCONT)


@contextmanager
def hanging_disk(directory: Path) -> Iterator[HangingDisk]:
    behind, path = directory / "behind", directory / "disk"
    behind.mkdir()
    path.mkdir()
    command = [sys.executable, "-m", "tests.support.passing_on", str(behind), str(path)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, start_new_session=True)
    assert process.stdout is not None
    try:
        assert process.stdout.readline() == "mounted\n"
        yield HangingDisk(path, process)
    finally:
        process.send_signal(signal.SIGCONT)
        subprocess.run(["umount", path], check=True)
        process.wait(30)
        process.stdout.close()
