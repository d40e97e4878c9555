"""A data set of a million small files (`--format bytes`): its one scan, killed half-way, and what is mounted of it.

One coordinator and one node, as processes, with their default flags; files of 1 to 4 kB in directories of a thousand.
Half-way the node is killed (-9) and started again: it is to go on from what it had written down, without reading the
files that were done. Four times a second both servers are asked for their status: how long that takes says what holds
their loops up. Then the data set is mounted: until it is there, `ls` of everything, `.tfquiver/next`, and files read.

    python -m tests.bench.many_files [--quick] [--files=N] [--distinct=N]

Needs 17 GB on the disk and 3 million inodes for a million files. With --distinct=N files repeat N contents, which are
an entry each: less room. Bars: what is read of the source after the kill <= 0.51 of the data set; a server's longest
answer <= 2 s.
"""

from __future__ import annotations

import argparse
import os
import random
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import grpc
import psutil

from tests.bench.bars import Bar, finish, run_bench
from tests.support import node_calls
from tests.support.cluster import Server, wait_until
from tests.support.mounted import command, mounted
from tests.support.named_place import Place
from tests.support.privileges import cannot_mount_fuse
from tfquiver.proto.tfquiver.v1 import named_datasets_pb2 as pb
from tfquiver.proto.tfquiver.v1 import types_pb2

MILLION, QUICK_FILES, IN_A_DIRECTORY = 1_000_000, 6_000, 1000
LEAST_BYTES, MOST_BYTES = 1000, 4000
AFTER_BAR, ANSWER_BAR_S = 0.51, 2.0
ASK_EVERY_S, SCAN_S = 0.25, 7200.0
READ = 1000  # of the files, through the mount


def write(root: Path, files: int, distinct: int) -> int:
    """Their bytes."""
    noise, total = random.Random(1).randbytes(1 << 20), 0
    for number in range(files):
        folder = root / f"{number // IN_A_DIRECTORY:04d}"
        if number % IN_A_DIRECTORY == 0:
            folder.mkdir(parents=True)
        content = number % distinct
        at, length = content * 7919 % (len(noise) - MOST_BYTES), content * 104729 % (MOST_BYTES - LEAST_BYTES)
        data = b"%08d" % content + noise[at : at + LEAST_BYTES + length]
        descriptor = os.open(folder / f"{number:07d}.jpg", os.O_WRONLY | os.O_CREAT | os.O_EXCL)
        os.write(descriptor, data)
        os.close(descriptor)
        total += len(data)
    return total


class Watch(threading.Thread):
    """How long a server takes to answer, and its peak memory over all its lives."""

    def __init__(self, server: Server, ask: Callable[[], object]) -> None:
        super().__init__(daemon=True)
        self._server, self._ask, self._over = server, ask, threading.Event()
        self.answers_s: list[float] = []
        self.longest, self._began = (0.0, 0.0), time.perf_counter()  # how long, and how long after the beginning
        self.starting = False  # who asks then waits for its start, which is a figure of its own
        self.peak_bytes, self.cpu_s, self._lives = 0, 0.0, 0.0
        self._pid = 0

    def run(self) -> None:
        while not self._over.wait(ASK_EVERY_S):
            began, pid, starting = time.perf_counter(), self._server.process.pid, self.starting
            try:
                self._ask()
                if pid == self._server.process.pid and not starting:  # else it was killed meanwhile
                    self.answers_s.append(time.perf_counter() - began)
                    self.longest = max(self.longest, (self.answers_s[-1], began - self._began))
                self._look()
            except (grpc.RpcError, psutil.Error, OSError):
                continue  # it has been killed

    def _look(self) -> None:
        pid = self._server.process.pid
        if pid != self._pid:
            self._pid, self._lives = pid, self.cpu_s
        process = psutil.Process(pid)
        peak = next(line for line in Path(f"/proc/{pid}/status").read_text().splitlines() if line.startswith("VmHWM"))
        self.peak_bytes = max(self.peak_bytes, int(peak.split()[1]) << 10)
        times = process.cpu_times()
        self.cpu_s = self._lives + times.user + times.system

    def figures(self) -> dict[str, Any]:
        self._over.set()
        self.join()
        answers = sorted(self.answers_s)
        return {
            "peak_mb": round(self.peak_bytes / 1e6), "cpu_s": round(self.cpu_s, 1), "asked": len(answers),
            "answer_p99_s": round(answers[len(answers) * 99 // 100], 3), "answer_longest_s": round(answers[-1], 3),
            "longest_after_s": round(self.longest[1], 1),
        }  # fmt: skip


def got(place: Place) -> pb.NamedDataset | None:
    """None: the coordinator does not answer just now."""
    try:
        found: pb.NamedDataset = place.call("Get", pb.GetNamedDatasetRequest(name="images"))
    except grpc.RpcError:
        return None
    assert found.state != pb.NamedDataset.STATE_FAILED, found.reason
    return found


def until(place: Place, what: str, enough: Callable[[pb.NamedDataset], bool]) -> None:
    def is_so() -> bool:
        found = got(place)
        return found is not None and enough(found)

    wait_until(is_so, what, SCAN_S, 0.25)


def scan(place: Place, source: Path, size_bytes: int) -> dict[str, Any]:
    node = place.nodes[0]
    watches = {
        "coordinator": Watch(place.coordinator, lambda: node_calls.nodes(place.coordinator.address)),
        "node": Watch(node, lambda: node_calls.status(node.ready["control"])),
    }
    for watch in watches.values():
        watch.start()
    began = time.perf_counter()
    place.call("Create", pb.DatasetSpec(name="images", sources=[str(source)], format=types_pb2.DATASET_FORMAT_BYTES))
    until(place, "half of it is scanned", lambda found: found.done_bytes >= size_bytes // 2)
    half_s = time.perf_counter() - began
    watches["node"].starting = True
    node.kill()
    killed = time.perf_counter()
    node.restart()
    there_s, watches["node"].starting = time.perf_counter() - killed, False
    until(place, "it goes on", lambda found: found.done_bytes > size_bytes * 0.51 or found.HasField("dataset"))
    goes_on_s = time.perf_counter() - killed
    until(place, "it is scanned", lambda found: found.HasField("dataset"))
    all_s = time.perf_counter() - began
    store_bytes = node_calls.status(node.ready["control"]).store_bytes
    return {
        "seconds": round(all_s, 1), "half_s": round(half_s, 1), "node_is_back_s": round(there_s, 2),
        "past_half_again_s": round(goes_on_s, 1), "read_after_the_kill": round(store_bytes / size_bytes, 4),
        **{name: watch.figures() for name, watch in watches.items()},
    }  # fmt: skip


def shown(place: Place, base: Path, source: Path, files: int) -> dict[str, Any]:
    began = time.perf_counter()
    with mounted(
        base / "mnt", base / "cache0", ["images"], f"--service={place.coordinator.address}", own_daemon=False
    ) as mount:
        mounted_s = time.perf_counter() - began
        began = time.perf_counter()
        listed = sum(len(os.listdir(folder)) for folder in sorted(mount.point.iterdir()))  # noqa: PTH208 - no Path each
        ls_s = time.perf_counter() - began
        began = time.perf_counter()
        names = (mount.point / ".tfquiver" / "next").read_bytes().splitlines()
        next_s = time.perf_counter() - began
        assert listed == len(names) == len(set(names)) == files
        began = time.perf_counter()
        for name in map(os.fsdecode, names[:READ]):
            assert (mount.point / name).read_bytes() == (source / name).read_bytes()
        read_s = time.perf_counter() - began
        peak = psutil.Process(mount.process.pid).memory_info().rss
    return {
        "mounted_s": round(mounted_s, 2), "ls_s": round(ls_s, 2), "next_s": round(next_s, 2),
        "files_read_per_s": round(READ / read_s), "resident_mb": round(peak / 1e6),
    }  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help=f"{QUICK_FILES} files, less than 60 s")
    parser.add_argument("--files", type=int, default=0, help=f"how many ({MILLION})")
    parser.add_argument(
        "--distinct", type=int, default=0, help="so many have contents of their own (all); equal ones share an entry"
    )
    arguments = parser.parse_args()
    files = arguments.files or (QUICK_FILES if arguments.quick else MILLION)
    distinct = arguments.distinct or files
    figures: dict[str, Any] = {"files": files, "distinct": distinct}
    with tempfile.TemporaryDirectory(prefix="many-files-") as own:
        base = Path(own)
        source = base / "source"
        figures["size_bytes"] = size_bytes = write(source, files, distinct)
        print(f"{files} files, {size_bytes} bytes", file=sys.stderr, flush=True)
        place = Place(base, 1, quota="32GiB")
        try:
            figures["scan"] = scan(place, source, size_bytes)
            print(figures, file=sys.stderr, flush=True)
            if cannot_mount_fuse():
                figures["mount"] = cannot_mount_fuse()
            else:
                figures["mount"] = shown(place, base, source, files)
            began = time.perf_counter()
            done = subprocess.run(command("dataset", "list", "--service", place.coordinator.address),
                                  capture_output=True, text=True)  # fmt: skip
            assert done.returncode == 0 and "images" in done.stdout, done.stderr
            figures["list_s"] = round(time.perf_counter() - began, 2)
        finally:
            place.stop()
    scanned = figures["scan"]
    bars = [
        Bar("read after the kill, of the data set", scanned["read_after_the_kill"], AFTER_BAR, True),
        Bar("coordinator's longest answer, s", scanned["coordinator"]["answer_longest_s"], ANSWER_BAR_S, True),
        Bar("node's longest answer, s", scanned["node"]["answer_longest_s"], ANSWER_BAR_S, True),
    ]
    finish("many_files", figures, bars, arguments.quick)


if __name__ == "__main__":
    run_bench(main)
