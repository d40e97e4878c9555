"""What it costs to be watched: CPU of an idle cluster, and warm reads, with everybody looking and with nobody.

Everybody: Prometheus' requests of both servers at the interval of configs/prometheus/prometheus.yml, `tfquiver
dashboard` with a page that listens, `tfquiver status --watch`. They are stopped (SIGSTOP) where nobody is to look.

* Idle, of a coordinator and a node: CPU time of the servers with everybody looking less that with nobody, and of those
  who look, as a part of a core; windows of both in turn. What a browser takes to draw is not in it.
* Warm reads of 256-byte records in batches of 256, as tests/bench/warm_read.py reads them: windows of whole epochs in
  pairs, in turn which comes first; the median of the pairs' quotients.

    python -m tests.bench.watching [--quick]

The last line is one JSON object; exit code 1 when a bar is missed.
"""

from __future__ import annotations

import argparse
import http.client
import os
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from tests.bench.bars import Bar, finish, run_bench
from tests.bench.warm_read import SMALL, cpu_s, epoch_s, write_files
from tests.support.cluster import Server, die_with_parent

CORE_BAR, THROUGHPUT_BAR = 0.01, 0.98
IDLE_S, IDLE_QUICK_S, IDLE_PAIRS = 60.0, 15.0, 2
PAIRS, PAIRS_QUICK = 9, 3
READ_S, READ_QUICK_S = 10.0, 4.0  # of a window, at least
CONFIG = Path(__file__).resolve().parents[2] / "configs" / "prometheus" / "prometheus.yml"


class Scraper(threading.Thread):
    """Asks as Prometheus does, while `looking` is set. Its own time is this process's: Prometheus' is not counted."""

    def __init__(self, targets: Sequence[str]) -> None:
        super().__init__(daemon=True)
        [interval] = re.findall(r"scrape_interval: (\d+)s", CONFIG.read_text())
        self._interval_s, self._targets = float(interval), targets
        self.looking, self.scrapes = threading.Event(), 0
        self.start()

    def run(self) -> None:
        while self.looking.wait():
            for target in self._targets:
                with urllib.request.urlopen(f"http://{target}/metrics", timeout=20) as reply:
                    reply.read()
            self.scrapes += 1
            time.sleep(self._interval_s)


class Watchers:
    """Everybody who looks; to begin with nobody does."""

    def __init__(self, coordinator: str, metrics: Sequence[str], stack: ExitStack) -> None:
        self.scraper = Scraper(metrics)
        self.dashboard = stack.enter_context(_command("dashboard", coordinator, "--no_browser"))
        assert self.dashboard.stdout is not None
        self._page(urlsplit(self.dashboard.stdout.readline().strip()))
        self.status = stack.enter_context(_command("status", coordinator, "--watch"))
        assert self.status.stdout is not None
        assert "node" in self.status.stdout.readline()
        threading.Thread(target=self.status.stdout.read, daemon=True).start()
        self.look(False)

    @property
    def pids(self) -> dict[str, int]:
        return {"dashboard": self.dashboard.pid, "status --watch": self.status.pid}

    def look(self, anybody: bool) -> None:
        for pid in self.pids.values():
            os.kill(pid, signal.SIGCONT if anybody else signal.SIGSTOP)
        (self.scraper.looking.set if anybody else self.scraper.looking.clear)()

    def _page(self, link: Any) -> None:
        connection = http.client.HTTPConnection(link.netloc, timeout=60)
        connection.request("GET", f"/?{link.query}")
        answer = connection.getresponse()
        cookie = answer.headers["Set-Cookie"].partition(";")[0]
        answer.read()
        connection = http.client.HTTPConnection(link.netloc)
        connection.request("GET", "/events", headers={"Cookie": cookie})
        events = connection.getresponse()
        assert events.readline().startswith(b"data: ")
        threading.Thread(target=lambda: all(iter(events.readline, b"")), daemon=True).start()


@contextmanager
def _command(*arguments: str) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-m", "tfquiver.cli.main", *arguments]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, preexec_fn=die_with_parent) as process:
        try:
            yield process
        finally:
            process.kill()


def idle(watchers: Watchers, servers: dict[str, int], window_s: float) -> dict[str, float]:
    """Parts of a core: what each server takes more, and what each who looks takes."""
    spent: dict[bool, dict[str, list[float]]] = {False: {}, True: {}}
    pids = servers | watchers.pids
    for anybody in (False, True) * IDLE_PAIRS:
        watchers.look(anybody)
        time.sleep(2)  # what they have missed is asked for at once
        before = {name: cpu_s(pid) for name, pid in pids.items()}
        began = time.monotonic()
        time.sleep(window_s)
        took_s = time.monotonic() - began
        for name, pid in pids.items():
            spent[anybody].setdefault(name, []).append((cpu_s(pid) - before[name]) / took_s)
    watchers.look(False)
    print(f"idle, parts of a core: {spent}", file=sys.stderr)
    return {name: statistics.mean(spent[True][name]) - statistics.mean(spent[False][name]) for name in pids}


def reading(watchers: Watchers, epoch: Callable[[], float], records: int, pairs: int, window_s: float) -> list[float]:
    """Of each pair of windows the quotient of the rates, with everybody looking and with nobody."""

    def rate(anybody: bool) -> float:
        watchers.look(anybody)
        epochs = [epoch()]
        while sum(epochs) < window_s:
            epochs.append(epoch())
        return len(epochs) * records / sum(epochs)

    quotients = []
    for number in range(pairs):
        rates = {anybody: rate(anybody) for anybody in ((False, True), (True, False))[number % 2]}
        quotients.append(rates[True] / rates[False])
        print(f"records/s: {rates[False]:,.0f}, watched {rates[True]:,.0f}", file=sys.stderr)
    watchers.look(False)
    return quotients


def measure(base: Path, quick: bool, stack: ExitStack) -> tuple[dict[str, float], list[float]]:
    import tfquiver

    records = write_files(base / "data", SMALL, SMALL.quick_bytes)
    metrics = "--metrics_address=localhost:0"
    flags = ["--port=0", f"--work_dir={base / 'work'}", metrics]
    coordinator = Server("tfquiver.service.coordinator.main", flags, base / "coordinator.log").start()
    stack.callback(coordinator.stop)
    flags = ["--port=0", f"--cache_dir={base / 'cache'}", "--quota=1GiB", f"--coordinator={coordinator.address}"]
    node = Server("tfquiver.service.node.main", [*flags, metrics], base / "node.log").start()
    stack.callback(node.stop, 30)
    targets = [coordinator.ready["metrics"], node.ready["metrics"]]
    watchers = Watchers(coordinator.address, targets, stack)
    servers = {"coordinator": coordinator.process.pid, "node": node.process.pid}
    parts = idle(watchers, servers, IDLE_QUICK_S if quick else IDLE_S)
    data = tfquiver.dataset(
        f"{base}/data/part-*", service=coordinator.address, cache_dir=base / "cache", batch_size=SMALL.batch
    )
    for _ in range(2):  # fills cache and page cache
        epoch_s(data, records, SMALL.batch)
    quotients = reading(
        watchers, lambda: epoch_s(data, records, SMALL.batch), records,
        PAIRS_QUICK if quick else PAIRS, READ_QUICK_S if quick else READ_S,
    )  # fmt: skip
    assert watchers.scraper.is_alive() and watchers.scraper.scrapes >= 2
    assert watchers.dashboard.poll() is None and watchers.status.poll() is None
    return parts, quotients


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="shorter and fewer windows, two minutes")
    quick = parser.parse_args().quick
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    os.environ.setdefault("CUDA_VISIBLE_DEVICES", "-1")
    with tempfile.TemporaryDirectory(prefix="tfquiver-bench-") as base, ExitStack() as stack:
        parts, quotients = measure(Path(base), quick, stack)
    figures = {
        "idle, parts of a core": {name: round(part, 5) for name, part in parts.items()},
        "watched / unwatched, each pair": [round(one, 4) for one in quotients],
    }
    bars = [
        Bar("idle: what being watched takes, of a core", sum(parts.values()), CORE_BAR, at_most=True),
        Bar("warm reads: watched / unwatched", statistics.median(quotients), THROUGHPUT_BAR),
    ]
    finish("watching", figures, bars, quick)


if __name__ == "__main__":
    run_bench(main)
