"""Real file systems that fail as disks do: frozen, read-only, full, with sectors that are lost; and as a file server
does that is gone. They need root."""

from __future__ import annotations

import ctypes
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


class Disk:
    """An ext4 file system in a file, mounted at `path`."""

    def __init__(self, image: Path, path: Path, size_bytes: int) -> None:
        self.path, self._image, self._size_bytes = path, image, size_bytes
        self._freezer: subprocess.Popen[str] | None = None
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
        """From now on whatever would change the file system waits, until `thaw`, or this process ends: nobody could
        unmount it any more. Ctrl-C and `timeout` kill all processes of this one's group, but not the one that thaws."""
        freezes = 'fsfreeze -f "$1" && echo frozen; read -r _; fsfreeze -u "$1"'
        self._freezer = subprocess.Popen(
            ["sh", "-c", freezes, "sh", self.path],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        assert self._freezer.stdout is not None
        assert self._freezer.stdout.readline() == "frozen\n"

    def thaw(self) -> None:
        freezer, self._freezer = self._freezer, None
        if freezer is not None:
            freezer.communicate()  # the end of its input
            assert freezer.returncode == 0

    def read_only(self, yes: bool = True) -> None:
        subprocess.run(["mount", "-o", "remount,ro" if yes else "remount,rw", self.path], check=True)

    def fail(self) -> None:
        """Read-only from now on, until `remount`, as after an error of the device: also for who has files open."""
        subprocess.run(["mount", "-o", "remount,abort", self.path], check=True)

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
        try:
            self.thaw()
        finally:
            unmount(self.path)

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
def fusectl(connections: Path = Path("/sys/fs/fuse/connections")) -> Iterator[None]:
    """What the kernel says and is told of FUSE's connections, where init has not mounted it already."""
    mounts_it = not connections.is_mount()
    if mounts_it:
        subprocess.run(["mount", "-t", "fusectl", "none", connections], check=True)
    try:
        yield
    finally:
        if mounts_it:
            subprocess.run(["umount", connections], check=True)


def fill(disk: Path) -> Path:
    """Somebody else's file that takes all there is."""
    path = disk / "others"
    with path.open("wb", buffering=0) as file:
        try:
            while True:
                file.write(bytes(64 << 10))
        except OSError:
            return path


@contextmanager
def tmpfs(path: Path, size_bytes: int, files: int = 0) -> Iterator[Path]:
    """`files`: so many may be on it, directories too; 0: any number."""
    path.mkdir()
    options = f"size={size_bytes},nr_inodes={files},mode=0700"
    subprocess.run(["mount", "-t", "tmpfs", "-o", options, "none", path], check=True)
    try:
        yield path
    finally:
        unmount(path)


def unmount(path: Path) -> None:
    """Also where somebody still uses it: then it goes with them, and this raises CalledProcessError, that says so."""
    try:
        subprocess.run(["umount", path], check=True)
    except subprocess.CalledProcessError:
        subprocess.run(["umount", "--lazy", path], check=True)
        raise


@contextmanager
def dead(path: Path) -> Iterator[Path]:
    """A mount whose server answers nothing, not even the first question: who looks up a name in it hangs until the
    end of this."""
    path.mkdir()
    server = os.open("/dev/fuse", os.O_RDWR)
    try:
        options = f"fd={server},rootmode=40000,user_id=0,group_id=0".encode()
        libc = ctypes.CDLL(None, use_errno=True)
        if libc.mount(b"dead", bytes(path), b"fuse", 0, options):
            raise OSError(ctypes.get_errno(), "mount", str(path))
        try:
            yield path
        finally:
            os.close(server)  # those who hang are told that it is gone
            server = -1
            subprocess.run(["umount", "-l", path], check=True)
    finally:
        if server >= 0:
            os.close(server)
