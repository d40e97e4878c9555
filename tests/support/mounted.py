"""Data sets mounted for a test by the command that people use, each served by a process of its own."""

from __future__ import annotations

import hashlib
import random
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.support import numbered, warm
from tests.support.daemons import end_daemons
from tfquiver.mounting import mount_points
from tfquiver.scanning import tfrecord

STARTS_S, ENDS_S = 90.0, 30.0


@dataclass(frozen=True)
class Mounted:
    """`log` grows while it is mounted."""

    point: Path
    process: subprocess.Popen[str]
    log: Path

    def logged(self, words: str, within_s: float = 30.0) -> None:
        """Waits until the log says so."""
        give_up_at = time.monotonic() + within_s
        while words not in (text := self.log.read_text()):
            assert time.monotonic() < give_up_at, text
            time.sleep(0.05)


def write_images(directory: Path, choose: random.Random, of_a_kind: int, most_bytes: int) -> None:
    for kind in ("cats", "dogs"):
        (directory / kind).mkdir(parents=True)
        for number in range(of_a_kind):
            (directory / kind / f"{number}.jpg").write_bytes(choose.randbytes(choose.randrange(1, most_bytes)))


def command(*arguments: object) -> list[str]:
    return [sys.executable, "-m", "tfquiver", *map(str, arguments)]


@contextmanager
def mounted(
    point: Path, cache_dir: Path, sources: list[str], *flags: str, own_daemon: bool = True
) -> Iterator[Mounted]:
    """In the foreground of a process; with the directory's own daemon, which ends with it."""
    point.mkdir(parents=True, exist_ok=True)
    log = point.with_name(f"{point.name}.log")
    with log.open("w") as stderr:
        process = warm.Popen(
            command("mount", "--foreground", f"--cache_dir={cache_dir}", *flags, *sources, point),
            stdout=subprocess.PIPE, stderr=stderr, text=True,
        )  # fmt: skip
    assert process.stdout is not None
    try:
        line = process.stdout.readline()  # "" when it has ended
        assert str(point) in line, log.read_text()
        yield Mounted(point, process, log)
        process.terminate()
        assert process.wait(ENDS_S) == 0, log.read_text()
        assert mount_points.at(point) is None
    finally:
        process.kill()
        process.wait()
        process.stdout.close()
        if mount_points.at(point) is not None:
            mount_points.unmount(point, lazy=True)
        if own_daemon:
            end_daemons(cache_dir)


def write_source(root: Path) -> Path:
    """Records in directories, an empty file, and one whose entries are stored compressed."""
    numbered.write(root / "a", 2, 1500, 1000)
    numbered.write(root / "b" / "c", 2, 1500, 1000, seed=1)  # equal files would share their shards
    text = b"".join(tfrecord.frame(b"number %d " % number * 100) for number in range(1500))  # its entries are zstd
    (root / "b" / "text.tfrecord").write_bytes(text)
    (root / "empty.tfrecord").touch()
    return root


def every(source: Path) -> list[str]:
    return [str(path) for path in sorted(source.rglob("*")) if path.is_file()]


def entries(cache_dir: Path) -> list[Path]:
    return [path for path in (cache_dir / "objects").rglob("*") if path.is_file()]


def sums(root: Path) -> dict[str, str]:
    """SHA-256 of every file, by path; not of what the mount says of itself."""
    found = {}
    for path in sorted(root.rglob("*")):
        name = str(path.relative_to(root))
        if path.is_file() and not name.startswith(".tfquiver"):
            with path.open("rb") as file:
                found[name] = hashlib.file_digest(file, "sha256").hexdigest()
    return found


def forget_pages() -> None:
    """The kernel forgets what it has read: the next reads come to the mount again. Needs root."""
    Path("/proc/sys/vm/drop_caches").write_text("1")
