"""How fast a mounted data set is read, against the least that the same binding does: a loop that passes reads through.

* sequential, random: files that are cached here, the kernel's own pages of them dropped before each round; against a
  mount of pyfuse3 whose `read` is `os.pread` of the source. Both in turn, in one run, by the same reader. Sequential
  ones once more with the kernel's own 128 KiB at a time, which is what a mount of who is not root has.
* cold: a store behind a byte rate, nothing cached; against that rate, and a download of the same objects, one after the
  other.

    python -m tests.bench.fuse_read [--quick]

Needs root, /dev/fuse and the extra `fuse`. The last line is one JSON object; exit code 1 when a bar is missed.
"""

from __future__ import annotations

import argparse
import errno
import os
import random
import stat
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil

from tests.bench.bars import Bar, finish, run_bench
from tests.support.mounted import command, mounted
from tests.support.privileges import cannot_mount_fuse
from tfquiver.mounting import mount_points
from tfquiver.mounting.reading_ahead import kernel_read_ahead
from tfquiver.testing.emulated_store import EmulatedStore

FILES = 4
PIECE_BYTES = 1 << 20
RANDOM_BYTES = 64 << 10
SEQUENTIAL_BAR, RANDOM_BAR, COLD_BAR = 0.7, 0.5, 0.9
ROUNDS = 5
BDI, NARROW_KIB = "/sys/class/bdi/{}:{}/read_ahead_kb", 128  # the kernel's own, which only root may widen


def pass_through(source: Path, point: Path) -> None:
    """Serves the files of one directory until it is unmounted."""
    import pyfuse3
    import trio

    names = sorted(path.name for path in source.iterdir())
    opened = [os.open(source / name, os.O_RDONLY) for name in names]

    class PassThrough(pyfuse3.Operations):  # type: ignore[misc, unused-ignore]
        async def getattr(self, inode: Any, ctx: Any) -> Any:
            told = pyfuse3.EntryAttributes()
            told.st_ino, told.attr_timeout, told.entry_timeout = inode, 3600, 3600
            if inode == pyfuse3.ROOT_INODE:
                told.st_mode = stat.S_IFDIR | 0o555
            else:
                told.st_mode, told.st_size = stat.S_IFREG | 0o444, os.fstat(opened[inode - 2]).st_size
            return told

        async def lookup(self, parent_inode: Any, name: Any, ctx: Any) -> Any:
            if name.decode() not in names:
                raise pyfuse3.FUSEError(errno.ENOENT)
            return await self.getattr(names.index(name.decode()) + 2, ctx)

        async def open(self, inode: Any, flags: Any, ctx: Any) -> Any:
            return pyfuse3.FileInfo(fh=opened[inode - 2], keep_cache=True)

        async def read(self, fh: Any, off: int, size: int) -> bytes:
            return os.pread(fh, size, off)

    pyfuse3.init(PassThrough(), str(point), {"default_permissions", "ro", "subtype=tfquiver", "fsname=pass-through"})
    print("ready", flush=True)
    try:
        trio.run(pyfuse3.main)
    finally:
        pyfuse3.close(unmount=True)


@contextmanager
def passed_through(source: Path, point: Path) -> Iterator[int]:
    """The process's id."""
    point.mkdir()
    line = [sys.executable, "-m", "tests.bench.fuse_read", "--serve", str(source), str(point)]
    with subprocess.Popen(line, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        try:
            yield process.pid
        finally:
            mount_points.unmount(point)


def files(point: Path) -> list[Path]:
    return [point / f"part-{number}" for number in range(FILES)]


def forget(path: Path) -> int:
    """An open descriptor, of whose file the kernel has no pages."""
    fd = os.open(path, os.O_RDONLY)
    os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
    return fd


def sequential(point: Path) -> tuple[float, int]:
    began, total = time.perf_counter(), 0
    for path in files(point):
        fd = forget(path)
        while piece := os.read(fd, PIECE_BYTES):
            total += len(piece)
        os.close(fd)
    return time.perf_counter() - began, total


def randomly(point: Path, reads: int, seed: int) -> tuple[float, int]:
    choose = random.Random(seed)
    fds = [forget(path) for path in files(point)]
    for fd in fds:
        os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_RANDOM)
    places = [(choose.choice(fds), choose.randrange(1 << 30)) for _ in range(reads)]
    began, total = time.perf_counter(), 0
    for fd, place in places:
        total += len(os.pread(fd, RANDOM_BYTES, place % (os.fstat(fd).st_size - RANDOM_BYTES)))
    seconds = time.perf_counter() - began
    for fd in fds:
        os.close(fd)
    return seconds, total


def in_turn(
    read: Callable[[Path], tuple[float, int]], ours: tuple[Path, int], theirs: tuple[Path, int]
) -> dict[str, Any]:
    """Medians of the rates, and of the CPU seconds of the two serving processes for each GB."""
    rates: dict[str, list[float]] = {"ours": [], "theirs": []}
    costs: dict[str, list[float]] = {"ours": [], "theirs": []}
    for number in range(ROUNDS + 1):
        for name, (point, pid) in (("ours", ours), ("theirs", theirs)):
            before = psutil.Process(pid).cpu_times()
            seconds, total = read(point)
            after = psutil.Process(pid).cpu_times()
            if number:  # the first one warms up
                rates[name].append(total / seconds)
                costs[name].append((after.user + after.system - before.user - before.system) / total * 1e9)
    return {
        "bytes_per_s": round(statistics.median(rates["ours"])),
        "pass_through_bytes_per_s": round(statistics.median(rates["theirs"])),
        "ratio": round(statistics.median(a / b for a, b in zip(rates["ours"], rates["theirs"], strict=True)), 3),
        "cpu_s_per_gb": round(statistics.median(costs["ours"]), 3),
        "pass_through_cpu_s_per_gb": round(statistics.median(costs["theirs"]), 3),
    }


def downloaded(url: str) -> float:
    """Seconds."""
    began = time.perf_counter()
    for number in range(FILES):
        with urllib.request.urlopen(
            f"{url}/download/storage/v1/b/data/o/part-{number}?alt=media", timeout=300
        ) as reply:
            while reply.read(PIECE_BYTES):
                pass
    return time.perf_counter() - began


def cold(base: Path, size_bytes: int, bytes_per_s: float) -> dict[str, Any]:
    """Scanned at full speed, cleared, and then read through the limit."""
    with EmulatedStore.start(keeps=True) as store:
        store.make_bucket("data")
        for number in range(FILES):
            store.put("data", f"part-{number}", random.Random(number).randbytes(size_bytes // FILES))
        os.environ["STORAGE_EMULATOR_HOST"] = store.url
        source, cache_dir = ["gs://data/*"], base / "cold-cache"
        with mounted(base / "cold", cache_dir, source):
            pass
        subprocess.run(command("clear", cache_dir), check=True, stdout=subprocess.DEVNULL)
        store.change_rate(bytes_per_s)
        downloaded_s = downloaded(store.url)
        before = store.traffic().payload_bytes
        with mounted(base / "cold", cache_dir, source) as mount:
            seconds, total = sequential(mount.point)
        sent = store.traffic().payload_bytes - before
    return {
        "bytes_per_s": round(total / seconds),
        "store_bytes_per_s": round(bytes_per_s),
        "download_bytes_per_s": round(total / downloaded_s),
        "ratio": round(downloaded_s / seconds, 3),
        "of_the_stores_rate": round(total / seconds / bytes_per_s, 3),
        "store_bytes_per_byte": round(sent / total, 3),
    }


def warm(base: Path, size_bytes: int, reads: int) -> dict[str, Any]:
    source = base / "source"
    source.mkdir()
    for number in range(FILES):
        (source / f"part-{number}").write_bytes(random.Random(number).randbytes(size_bytes // FILES))
    with mounted(base / "ours", base / "cache", [str(source)]) as mount, passed_through(source, base / "raw") as pid:
        ours, theirs = (mount.point, mount.process.pid), (base / "raw", pid)
        figures = {
            "sequential": in_turn(sequential, ours, theirs),
            "random": in_turn(lambda point: randomly(point, reads, seed=3), ours, theirs),
        }
        device = kernel_read_ahead.device(mount.point)
        Path(BDI.format(os.major(device), os.minor(device))).write_text(str(NARROW_KIB))
        return {**figures, "sequential_narrow": in_turn(sequential, ours, theirs)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="less data, under a minute")
    parser.add_argument("--serve", nargs=2, type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.serve:
        pass_through(*arguments.serve)
        return
    if why := cannot_mount_fuse():
        finish("fuse_read", {}, [], arguments.quick, skipped=why)
    size_bytes = (128 if arguments.quick else 512) << 20
    rate = float((16 if arguments.quick else 32) << 20)
    with tempfile.TemporaryDirectory(prefix="fuse-read-") as base:
        figures = warm(Path(base), size_bytes, 1000 if arguments.quick else 4000)
        figures["cold"] = cold(Path(base), (32 if arguments.quick else 256) << 20, rate)
    bars = [
        Bar("sequential, of a pass-through", figures["sequential"]["ratio"], SEQUENTIAL_BAR),
        Bar("sequential, 128 KiB at a time, of a pass-through", figures["sequential_narrow"]["ratio"], SEQUENTIAL_BAR),
        Bar("random 64 KiB, of a pass-through", figures["random"]["ratio"], RANDOM_BAR),
        Bar("cold, of a plain download's rate", figures["cold"]["ratio"], COLD_BAR),
        Bar("cold, of the store's rate", figures["cold"]["of_the_stores_rate"], COLD_BAR),
    ]
    finish("fuse_read", figures, bars, arguments.quick)


if __name__ == "__main__":
    run_bench(main)
