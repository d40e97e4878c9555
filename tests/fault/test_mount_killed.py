"""A mount whose process is killed under its readers: they are told, and the place is free for the next mount."""

from __future__ import annotations

import errno
import os
import random
import signal
import threading
from contextlib import suppress
from pathlib import Path

import pytest

from tests.support import warm
from tests.support.mounted import ENDS_S, command, mounted, sums
from tests.support.privileges import needs_fuse
from tfquiver.mounting import mount_points

pytestmark = [needs_fuse]
DEAD = (errno.ENOTCONN, errno.ECONNABORTED)
FILE_BYTES, READ_BYTES = 8 << 20, 256 << 10


@pytest.fixture
def source(tmp_path: Path, seed: int) -> Path:
    root = tmp_path / "data"
    root.mkdir()
    for number in range(2):
        (root / f"{number}.bin").write_bytes(random.Random(seed + number).randbytes(FILE_BYTES))
    return root


class Reader(threading.Thread):
    """Reads one file again and again, past the kernel's pages, until it is told why it cannot; keeps it open."""

    def __init__(self, path: Path, wanted: bytes) -> None:
        super().__init__(daemon=True)
        self.fd = os.open(path, os.O_RDONLY)
        self._wanted = wanted
        self.reads, self.told, self.wrong = threading.Event(), 0, False

    def run(self) -> None:
        try:
            while True:
                for at in range(0, FILE_BYTES, READ_BYTES):
                    os.posix_fadvise(self.fd, 0, 0, os.POSIX_FADV_DONTNEED)
                    got = os.pread(self.fd, READ_BYTES, at)  # less, where the rest of it could not be had any more
                    self.wrong |= not got or got != self._wanted[at : at + len(got)]
                    self.reads.set()
        except OSError as error:
            self.told = error.errno or 0


@pytest.mark.parametrize("unmounts", [True, False], ids=["unmounted", "mounted over it"])
def test_readers_are_told_and_the_next_mount_is_whole(tmp_path: Path, source: Path, unmounts: bool) -> None:
    point, cache_dir = tmp_path / "mnt", tmp_path / "cache"
    with mounted(point, cache_dir, [str(source)]) as mount:
        readers = [Reader(point / path.name, path.read_bytes()) for path in sorted(source.iterdir())]
        try:
            for reader in readers:
                reader.start()
                assert reader.reads.wait(30)
            mount.process.send_signal(signal.SIGKILL)
            mount.process.wait(ENDS_S)
            for reader in readers:
                reader.join(ENDS_S)
                assert reader.told in DEAD, "it waits for ever, or was given bytes"
                assert not reader.wrong
            with pytest.raises(OSError, match="not connected"):
                next(point.iterdir())
            found = mount_points.at(point)
            assert found is not None
            assert mount_points.trouble(found) == "stale"
            if unmounts:  # while those who were told have not closed their files
                done = warm.run(command("unmount", point), capture_output=True, text=True)
                assert done.returncode == 0, done.stderr
                assert mount_points.at(point) is None
                assert not list(point.iterdir())
            again = command("mount", f"--cache_dir={cache_dir}", source, point)
            done = warm.run(again, capture_output=True, text=True)
            assert done.returncode == 0, done.stderr
            assert len([one for one in mount_points.mounts() if one.path == str(point)]) == 1
            assert sums(point) == sums(source)
            for reader in readers:  # what was opened before is not of this mount
                with pytest.raises(OSError, match="not connected"):
                    os.pread(reader.fd, READ_BYTES, 0)
        finally:
            for reader in readers:
                with suppress(OSError):  # closed all the same
                    os.close(reader.fd)
        done = warm.run(command("unmount", point), capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        mount.process.returncode = 0
