"""One stream of batches for four trainers, of which one is ten times slower: nobody is stalled, nobody loses data.

Each trainer is a process that sleeps for a step after each batch. First one alone, which makes its batches itself, then
four together. What is in the window is measured from outside, at the node's open descriptors.

    python -m tests.bench.one_stream [--quick]
"""

from __future__ import annotations

import argparse
import threading
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from tests.bench.bars import Bar, finish, run_bench
from tests.support import numbered
from tests.support.daemons import daemons, end_daemons
from tests.support.stream_trainers import Trainer

BATCH, RECORD_BYTES = 16, 8192
STEP_S, SLOWER = 0.08, 10
MEMORY_BATCHES, SPILL_BYTES = 24, 64 << 20  # one that is ten times slower is soon further behind
SAMPLE_S = 0.02
WINDOW_BYTES = MEMORY_BATCHES * (BATCH * (RECORD_BYTES + 16) + 1024)
SPEED_BAR, CALLS_BAR = 0.95, 1.02
LIMIT_S = 600


class Window:
    """The most that a node ever held of batches: bytes of memory, and of files without a name."""

    def __init__(self, cache_dir: Path) -> None:
        self.memory_bytes = self.disk_bytes = 0
        self._cache_dir, self._ended = cache_dir, threading.Event()
        self._thread = threading.Thread(target=self._watch)
        self._thread.start()

    def end(self) -> None:
        self._ended.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._ended.wait(SAMPLE_S):
            for node in daemons(self._cache_dir):
                held: dict[str, dict[int, int]] = {"memory": {}, "disk": {}}
                folder = Path(f"/proc/{node.pid}/fd")
                for descriptor in list(folder.iterdir()) if folder.exists() else ():
                    try:
                        target, found = str(descriptor.readlink()), descriptor.stat()
                    except OSError:  # it was closed meanwhile
                        continue
                    if "memfd:tfquiver-batch" in target and found.st_size > BATCH * RECORD_BYTES:  # no checkpoint
                        held["memory"][found.st_ino] = found.st_size
                    elif target.startswith(f"{self._cache_dir}/tmp/") and target.endswith("(deleted)"):
                        held["disk"][found.st_ino] = found.st_size
                self.memory_bytes = max(self.memory_bytes, sum(held["memory"].values()))
                self.disk_bytes = max(self.disk_bytes, sum(held["disk"].values()))


def train(folder: Path, paths: Sequence[Path], steps_s: Sequence[float], spill_bytes: int) -> dict[str, Any]:
    """One trainer for each step time, begun together; times are from a trainer's first batch to its last."""
    calls, cache_dir = folder / "calls", folder / "cache"
    calls.write_bytes(b"")
    trainers: list[Trainer] = []
    try:
        for step_s in steps_s:
            trainers.append(
                Trainer(
                    paths, cache_dir, calls, step_s=step_s, batch=BATCH, bytes=RECORD_BYTES, waits=True,
                    name=f"{folder.name}-{len(steps_s)}-{spill_bytes}",
                    window_bytes=WINDOW_BYTES, spill_bytes=spill_bytes,
                )
            )  # fmt: skip
        assert all(one.line() == "made" for one in trainers)
        watched = Window(cache_dir)
        for one in trainers:
            one.go()
        passes = [one.passes(LIMIT_S)[0] for one in trainers]
        watched.end()
    finally:
        for one in trainers:
            one.end()
        end_daemons(cache_dir)  # with its window, which would stay for a minute; what is cached stays
    return {
        "took_s": [one["took_s"] for one in passes],
        "batches": [one["batches"] for one in passes],
        "calls": calls.stat().st_size,
        "memory_bytes": watched.memory_bytes,
        "disk_bytes": watched.disk_bytes,
    }


def run(folder: Path, batches: int, falls_out: bool) -> tuple[dict[str, Any], list[Bar]]:
    records = batches * BATCH
    paths = numbered.write(folder / "data", 1, records, RECORD_BYTES)
    every = list(range(records))
    figures: dict[str, Any] = {}
    bars: list[Bar] = []
    try:
        alone = train(folder, paths, [STEP_S], 0)  # its first use of the files fills the cache before it begins
        scenarios = {"on the disk": SPILL_BYTES} | ({"made again": 0} if falls_out else {})
        for name, spill_bytes in scenarios.items():
            found = train(folder, paths, [STEP_S * SLOWER, STEP_S, STEP_S, STEP_S], spill_bytes)
            whole = sum(
                sorted(n for batch in one for n in batch) == every and one == found["batches"][0]
                for one in found["batches"]
            )
            speeds = [alone["took_s"][0] / took_s for took_s in found["took_s"][1:]]
            made = found["calls"] / records
            figures[name] = {
                "speed_of_the_fast": [round(speed, 3) for speed in speeds],
                "slow_one_took": round(found["took_s"][0] / alone["took_s"][0], 2),
                "preprocessed": round(made, 3),
                "memory_bytes": found["memory_bytes"],
                "disk_bytes": found["disk_bytes"],
            }
            bars += [
                Bar(f"{name}: trainers with every batch once, and the same", whole, 4),
                Bar(f"{name}: speed of the slowest fast one", min(speeds), SPEED_BAR),
                Bar(f"{name}: window in memory", found["memory_bytes"] / WINDOW_BYTES, 1.0, at_most=True),
                Bar(f"{name}: window on the disk", found["disk_bytes"] / max(1, spill_bytes), 1.0, at_most=True),
            ]
            if spill_bytes:
                bars.append(Bar(f"{name}: preprocessing of one job", made, CALLS_BAR, at_most=True))
    finally:
        end_daemons(folder / "cache")
    return figures | {"alone_s": round(alone["took_s"][0], 2), "batches": batches, "step_s": STEP_S}, bars


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--quick", action="store_true", help="fewer batches, and only with a window that is enough")
    arguments = parser.parse_args()
    with TemporaryDirectory() as folder:
        figures, bars = run(Path(folder), 36 if arguments.quick else 200, not arguments.quick)
    finish("one_stream", figures, bars, arguments.quick)


if __name__ == "__main__":
    run_bench(main)
