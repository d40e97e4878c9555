"""Batches on the disk: files without a name, so that nothing of them is left when the node is killed."""

from __future__ import annotations

import asyncio
import errno
import os
import threading
import uuid
from collections.abc import Callable, Sequence
from pathlib import Path

from absl import logging

from tfquiver.service.node.disk import free_room
from tfquiver.sizes_durations_amounts.amounts import of_bytes

_PIECE_BYTES = 8 << 20
_NO_UNNAMED = (errno.EOPNOTSUPP, errno.EISDIR, errno.EINVAL)
_PREFIX = "stream-"
_SHARE = 8  # of the quota, one part in so many


class SpillFiles:
    """All may wait for the disk, and are called in threads.

    Args:
      set_aside: told, before it is so, how many bytes they are going to take of the quota. May wait.
    """

    def __init__(self, directory: Path, limit_bytes: int, set_aside: Callable[[int], None]) -> None:
        self._directory, self.limit_bytes, self._set_aside = directory, limit_bytes, set_aside
        self._lock = threading.Lock()

    def remove_left_over(self) -> None:
        """What a kill left between the making of a file and the taking away of its name. May wait."""
        for path in self._directory.glob(f"{_PREFIX}*.part"):
            path.unlink(missing_ok=True)

    def write(self, descriptors: Sequence[int], size_bytes: int, in_use: Callable[[], int]) -> int:
        """A descriptor of a new file, to be read only, with all of these memory files, of so many bytes together.

        `in_use`: bytes of all files now, this one included. Raises OSError.
        """
        self.settle(in_use)
        free_bytes, kept_bytes = free_room.look(self._directory)
        if free_bytes - size_bytes < kept_bytes:
            free, kept = of_bytes(free_bytes), of_bytes(kept_bytes)
            raise OSError(errno.ENOSPC, f"{free} of the disk are free, of which {kept} stay so")
        fd = self._unnamed()
        try:
            written = 0
            for source in descriptors:
                offset = 0
                while piece := os.pread(source, _PIECE_BYTES, offset):
                    view = memoryview(piece)
                    while view:
                        view = view[os.write(fd, view) :]
                    offset += len(piece)
                written += offset
            if written != size_bytes:
                raise OSError(errno.EIO, f"{written} bytes of batches, not {size_bytes}")
            return os.open(f"/proc/self/fd/{fd}", os.O_RDONLY | os.O_CLOEXEC)
        finally:
            os.close(fd)

    def settle(self, in_use: Callable[[], int]) -> None:
        """So many bytes are in use now. May wait."""
        with self._lock:  # else who looked before, and waited, would take back what another has set aside since
            self._set_aside(in_use())

    def _unnamed(self) -> int:
        try:
            return os.open(self._directory, os.O_TMPFILE | os.O_RDWR | os.O_CLOEXEC, 0o600)
        except OSError as error:
            if error.errno not in _NO_UNNAMED:
                raise
        path = self._directory / f"{_PREFIX}{uuid.uuid4().hex}.part"
        fd = os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_CLOEXEC, 0o600)
        try:
            path.unlink()
        except OSError as error:
            logging.warning("%s: %s", path, error.strerror)
        return fd


async def in_directory(cache: Path, quota_bytes: int, set_aside: Callable[[int, str], None]) -> SpillFiles:
    """`cache`: the cache directory. `set_aside`: of its DiskCache."""
    files = SpillFiles(cache / "tmp", quota_bytes // _SHARE, lambda size_bytes: set_aside(size_bytes, "streams"))
    await asyncio.to_thread(files.remove_left_over)
    return files
