"""Real file systems that fail as disks do: frozen, read-only, full, with sectors that are lost. They need root."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


class Disk:
    """An ext4 file system in a file, mounted at `path`."""

    def __init__(self, image: Path, path: Path, size_bytes: int) -> None:
        self.path, self._image, self._size_bytes = path, image, size_bytes
        self._frozen = False
        path.mkdir()
        with image.open("wb") as file:
            file.truncate(size_bytes)
        # No lazy initialising: nothing writes to the file system but the test.
        subprocess.run(
            ["mkfs.ext4", "-q", "-b", "4096", "-O", "^has_journal", "-E", "lazy_itable_init=0,nodiscard", image],
            check=True,
        )
        self._mount()

    def freeze(self) -> None:
        """From now on whatever would change the file system waits, until `thaw`."""
        subprocess.run(["fsfreeze", "-f", self.path], check=True)
        self._frozen = True

    def thaw(self) -> None:
        if self._frozen:
            subprocess.run(["fsfreeze", "-u", self.path], check=True)
        self._frozen = False

    def read_only(self, yes: bool = True) -> None:
        subprocess.run(["mount", "-o", "remount,ro" if yes else "remount,rw", self.path], check=True)

    def remount(self) -> None:
        """Nothing of it is in the page cache any more."""
        subprocess.run(["umount", self.path], check=True)
        self._mount()

    def lose_sectors(self, marker: bytes) -> int:
        """The part of the disk from the first 4 KiB block on that begins so cannot be read any more (EIO): its size."""
        data = self._image.read_bytes()
        at = next(at for at in range(0, len(data), 4096) if data.startswith(marker, at))
        os.truncate(self._image, at)
        return len(data) - at

    def close(self) -> None:
        self.thaw()
        subprocess.run(["umount", self.path], check=True)

    def _mount(self) -> None:
        subprocess.run(["mount", "-o", "loop,noatime", self._image, self.path], check=True)


@contextmanager
def ext4(directory: Path, size_bytes: int = 16 << 20) -> Iterator[Disk]:
    disk = Disk(directory / "disk.img", directory / "disk", size_bytes)
    try:
        yield disk
    finally:
        disk.close()


@contextmanager
def tmpfs(path: Path, size_bytes: int) -> Iterator[Path]:
    path.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size_bytes},mode=0700", "none", path], check=True)
    try:
        yield path
    finally:
        subprocess.run(["umount", path], check=True)
