"""A node that hangs under a mount with a hundred readers: names and sizes are told, the reads end with EIO, and when it
goes on so do they."""

from __future__ import annotations

import errno
import mmap
import os
import random
import signal
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest

from tests.support import warm
from tests.support.cluster import wait_until
from tests.support.daemons import daemons
from tests.support.disks import fusectl
from tests.support.mounted import ENDS_S, forget_pages, mounted
from tests.support.privileges import needs_fuse, needs_mounts
from tfquiver.mounting.reading_ahead import kernel_read_ahead

READERS, FILE_BYTES, READ_BYTES = 100, 300_000, 128 << 10
PATIENCE_S = 6.0
# After the first have been given up: of what comes through its pages the kernel asks for 12 at a time, each twice.
QUEUED_S = PATIENCE_S + 2 * READERS / 12 * 1.0


def direct(path: Path) -> bytes:
    """Past the kernel's pages, each read a question of its own to the mount."""
    fd = os.open(path, os.O_RDONLY | os.O_DIRECT)
    try:
        with mmap.mmap(-1, READ_BYTES) as buffer:
            got = os.preadv(fd, [buffer], 0)
            return buffer[:got]
    finally:
        os.close(fd)


def buffered(path: Path) -> bytes:
    with path.open("rb", buffering=0) as file:
        return file.read(READ_BYTES)


def in_a_read() -> int:
    """Threads of this process: `read`, `preadv2`."""
    calls = []
    for task in Path("/proc/self/task").iterdir():
        with suppress(OSError):  # it has ended
            calls.append((task / "syscall").read_text().split()[0])
    return calls.count("0") + calls.count("327")


def reads(read: Callable[[Path], bytes], path: Path) -> bool:
    try:
        return bool(read(path))
    except OSError:
        return False


@pytest.mark.long
@needs_fuse
@pytest.mark.parametrize(
    ("read", "files", "limit_s", "all_at_once"),
    [
        pytest.param(direct, READERS, PATIENCE_S, True, marks=needs_mounts),
        pytest.param(direct, 1, PATIENCE_S, True, marks=needs_mounts),
        (buffered, READERS, QUEUED_S, False),
    ],
    ids=["all at once", "all at once, one file", "through pages"],
)
def test_names_are_told_and_a_hundred_reads_end(
    tmp_path: Path, seed: int, read: Callable[[Path], bytes], files: int, limit_s: float, all_at_once: bool
) -> None:
    """`all_at_once`: the kernel hands the mount as many reads as there are; else 12, as a rule."""
    source, point, cache_dir = tmp_path / "data", tmp_path / "mnt", tmp_path / "cache"
    source.mkdir()
    for number in range(files):
        (source / f"{number:03d}").write_bytes(random.Random(seed + number).randbytes(FILE_BYTES))
    names = sorted(path.name for path in source.iterdir())
    with ExitStack() as stack:
        if all_at_once:
            stack.enter_context(fusectl())
        mount = stack.enter_context(mounted(point, cache_dir, [str(source)], f"--patience_s={PATIENCE_S:g}"))
        if all_at_once:
            connection = kernel_read_ahead.connection(point.stat().st_dev)
            allowed = Path(kernel_read_ahead.OF_CONNECTION.format(connection))
            wait_until(lambda: int(allowed.read_text()) > READERS, "the kernel has been told")
        assert (point / names[0]).stat().st_size == FILE_BYTES
        [node] = daemons(cache_dir)
        with ThreadPoolExecutor(READERS) as threads:
            os.kill(node.pid, signal.SIGSTOP)
            try:
                began = time.monotonic()
                hung = [threads.submit(read, point / names[number % files]) for number in range(READERS)]
                wait_until(lambda: in_a_read() >= READERS, "all of them wait")
                listed = warm.run(
                    ["sh", "-c", f"ls -l {point} && stat {point}/{names[-1]} && stat -f {point}"],
                    capture_output=True, text=True, timeout=ENDS_S,
                )  # fmt: skip
                assert listed.returncode == 0, listed.stderr
                assert not any(one.done() for one in hung), "they did not hang"
                for one in hung:
                    error = one.exception(limit_s + ENDS_S)
                    assert isinstance(error, OSError)
                    assert error.errno == errno.EIO
                assert time.monotonic() - began < limit_s + ENDS_S
            finally:
                os.kill(node.pid, signal.SIGCONT)
            mount.logged("EIO")
            forget_pages()
            wait_until(lambda: reads(read, point / names[0]), "it is read again", 2 * PATIENCE_S)
            again = [threads.submit(read, point / name) for name in names]
            for name, one in zip(names, again, strict=True):
                assert one.result(ENDS_S) == (source / name).read_bytes()[:READ_BYTES]
