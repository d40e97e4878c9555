"""Every server of a cluster is restarted, one after the other, while two jobs train: what is lost, and what it costs.

One job reads in its trainer, the other through tf.data service (`exactly_once`); steps take a fixed time. Servers have
the flags that they have by default. The rate of a window in which all are restarted (SIGTERM, then started again with
the same command) is compared with that of the window behind it, of the same length.

    python -m tests.bench.rolling_restart [--quick]

The window begins at an epoch's end, and the next one cannot begin before the coordinator is back: 1.2 s. With --quick,
in a window of ten seconds, that is more than the bar allows by itself; there it is 0.85.
"""

from __future__ import annotations

import os
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from tests.bench.bars import Bar, finish, quick_parser, run_bench
from tests.support import numbered
from tests.support.cluster import Server, wait_until

FILES, RECORDS, RECORD_BYTES, BATCH = 8, 2000, 4096, 32
TOTAL = FILES * RECORDS
STEP_S = 0.02
BETWEEN_S, BETWEEN_QUICK_S = 5.0, 1.0  # after a server is ready, before the next one is stopped
STOP_S = 30.0
RATE_BAR, RATE_BAR_QUICK = 0.95, 0.85


class Trainer:
    """Epoch after epoch in a thread, until told that this is the last one."""

    def __init__(self, name: str, epoch: Callable[[], object]) -> None:
        self.name, self._epoch = name, epoch
        self.at_s: list[float] = []
        self.records: list[int] = []
        self.longest_wait_s = 0.0
        self.epochs: list[numbered.Numbers] = []
        self.error: BaseException | None = None
        self._last = threading.Event()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def between(self, began_s: float, ended_s: float) -> float:
        """Records a second."""
        read = np.interp([began_s, ended_s], self.at_s, self.records)
        return float(read[1] - read[0]) / (ended_s - began_s)

    def longest_wait_between(self, began_s: float, ended_s: float) -> float:
        at = np.array(self.at_s)
        at = at[(at >= began_s) & (at <= ended_s)]
        return float(np.diff(at).max(initial=0.0))

    def finish(self, deadline_s: float) -> None:
        self._last.set()
        self._thread.join(deadline_s)
        if self.error:
            raise self.error
        if self._thread.is_alive():
            raise TimeoutError(f"{self.name}: its last epoch has not ended within {deadline_s:.0f} s")

    def _run(self) -> None:
        count = 0
        try:
            while not self._last.is_set():
                parts = []
                due = time.monotonic()
                for batch in self._epoch():  # type: ignore[attr-defined]
                    parts.append(numbered.numbers(batch))
                    count += len(parts[-1])
                    self.at_s.append(time.monotonic())
                    self.records.append(count)
                    due = max(due + STEP_S, time.monotonic())
                    time.sleep(max(0.0, due - time.monotonic()))
                self.epochs.append(np.concatenate(parts))
        except BaseException as error:  # noqa: BLE001 - handed to whoever waits
            self.error = error


class Servers:
    """A coordinator, two nodes, a dispatcher, two workers beside the first node."""

    def __init__(self, base: Path) -> None:
        self.base, self.all = base, list[Server]()
        self.coordinator = self._start("coordinator", [f"--work_dir={base / 'coordinator'}"])
        where = f"--coordinator={self.coordinator.address}"
        self.cache_dirs = [base / f"cache-{number}" for number in range(2)]
        for directory in self.cache_dirs:
            self._start("node", [f"--cache_dir={directory}", "--quota=1GiB", where])
        self.dispatcher = self._start("dispatcher", [f"--work_dir={base / 'dispatcher'}", where])
        for number in range(2):
            ours = [f"--dispatcher={self.dispatcher.address}", f"--node_dir={self.cache_dirs[0]}"]
            self._start("worker", ours, f"worker-{number}")

    def stop(self) -> None:
        for server in reversed(self.all):
            server.stop(STOP_S)

    def _start(self, kind: str, arguments: Sequence[str], name: str = "") -> Server:
        log = self.base / "log" / f"{name or kind}-{len(self.all)}.log"
        server = Server(f"tfquiver.service.{kind}.main", ["--port=0", *arguments], log)
        self.all.append(server)
        return server.start()


def epochs(servers: Servers) -> dict[str, Callable[[], object]]:
    """Of each job, by what it is called."""
    import tfquiver

    read, served = (
        tfquiver.dataset(
            f"{servers.base}/data/part-*",
            service=servers.coordinator.address,
            cache_dir=cache_dir,
            batch_size=BATCH,
        )
        for cache_dir in reversed(servers.cache_dirs)
    )
    served = served.apply(tfquiver.distribute(servers.dispatcher.address, guarantee="exactly_once"))
    return {"in the trainer": read.as_numpy_iterator, "through tf.data service": served.as_numpy_iterator}


def measure(base: Path, between_s: float) -> tuple[list[Trainer], list[float], dict[str, float]]:
    numbered.write(base / "data", FILES, RECORDS, RECORD_BYTES)
    servers = Servers(base)
    try:
        trainers = [Trainer(name, epoch) for name, epoch in epochs(servers).items()]
        wait_until(lambda: all(one.error or one.epochs for one in trainers), "the first epochs", 180.0)
        took: dict[str, float] = {}
        began = time.monotonic()
        for server in servers.all:
            at = time.monotonic()
            server.stop(STOP_S)
            server.restart()
            took[f"{server.log.stem}, s"] = round(time.monotonic() - at, 2)
            time.sleep(between_s)
        ended = time.monotonic()
        wait_until(lambda: time.monotonic() >= 2 * ended - began, "as long again", 10 + ended - began)
        for one in trainers:
            one.finish(180.0)
        return trainers, [began, ended], took
    finally:
        servers.stop()


def main() -> None:
    parser = quick_parser(__doc__, "less time between restarts, less than 60 s")
    arguments = parser.parse_args()
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    os.environ.setdefault("CUDA_VISIBLE_DEVICES", "-1")
    with tempfile.TemporaryDirectory(prefix="tfquiver-bench-") as base:
        trainers, (began, ended), took = measure(Path(base), BETWEEN_QUICK_S if arguments.quick else BETWEEN_S)
    figures: dict[str, object] = {"restarts": took, "window_s": round(ended - began, 1)}
    bars, rate_bar = [], RATE_BAR_QUICK if arguments.quick else RATE_BAR
    for one in trainers:
        during, after = one.between(began, ended), one.between(ended, 2 * ended - began)
        counts = [np.bincount(epoch, minlength=TOTAL) for epoch in one.epochs]
        lost = int(sum((count == 0).sum() for count in counts))
        twice = int(sum(np.maximum(count - 1, 0).sum() for count in counts))
        figures[one.name] = {
            "records_per_s": {"while all are restarted": round(during), "behind": round(after)},
            "longest_wait_s": round(one.longest_wait_between(began, ended), 2),
            "epochs": len(one.epochs),
            "lost": lost,
            "twice": twice,
        }
        print(one.name, figures[one.name], file=sys.stderr)
        bars += [
            Bar(f"{one.name}: records/s while all are restarted / behind", during / after, rate_bar),
            Bar(f"{one.name}: records lost", lost, 0, at_most=True),
            Bar(f"{one.name}: records twice", twice, 0, at_most=True),
        ]
    finish("rolling_restart", figures, bars, arguments.quick)


if __name__ == "__main__":
    run_bench(main)
