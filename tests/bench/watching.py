"""What it costs to be watched: CPU of an idle cluster, and warm reads, with everybody looking and with nobody.

Everybody: Prometheus' requests of both servers at the interval of configs/prometheus/prometheus.yml, `tfquiver
dashboard` with a page that listens, `tfquiver status --watch`. They are stopped (SIGSTOP) where nobody is to look.

* Idle: CPU time of a coordinator and a node with everybody looking less that of another pair, which has no metrics port
  and at which nobody ever looks, in the same windows; and of those who look. As a part of a core. The windows are short
  ones, and in turn with others in which nobody looks: those say what the port alone takes. What a browser takes to draw
  is not in it.
* Warm reads of 256-byte records in batches of 256, as tests/bench/warm_read.py reads them: windows of whole epochs in
  pairs, in turn which comes first; the median of the pairs' quotients, beside their quartiles.

    python -m tests.bench.watching [--quick]

The last line is one JSON object; exit code 1 when a bar is missed.
"""

from __future__ import annotations

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

from tests.bench.bars import Bar, finish, quick_parser, run_bench
from tests.bench.warm_read import SMALL, cpu_s, epoch_s, write_files
from tests.support.cluster import Server, die_with_parent

CORE_BAR, THROUGHPUT_BAR = 0.01, 0.98
# Of a window, which has a whole number of scrapes, and of the looks there are where nothing happens.
IDLE_S, IDLE_PAIRS, IDLE_QUICK_PAIRS = 30.0, 4, 1
PAIRS, PAIRS_QUICK = 15, 9
READ_S = 4.0  # of a window, at least: two looks
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


def idle(
    watchers: Watchers, servers: dict[str, int], unwatched: dict[str, int], pairs: int
) -> tuple[dict[str, float], dict[str, dict[str, float]]]:
    """Parts of a core: what each server takes more than the one of the other pair, and what each who looks takes; and
    all of it, by whether anybody looks."""
    pids = servers | watchers.pids | {f"{name}, nobody's": pid for name, pid in unwatched.items()}
    spent: dict[bool, dict[str, list[float]]] = {False: {}, True: {}}
    for anybody in (False, True) * pairs:
        watchers.look(anybody)
        time.sleep(2)  # what they have missed is asked for at once
        before = {name: cpu_s(pid) for name, pid in pids.items()}
        began = time.monotonic()
        time.sleep(IDLE_S)
        took_s = time.monotonic() - began
        for name, pid in pids.items():
            spent[anybody].setdefault(name, []).append((cpu_s(pid) - before[name]) / took_s)
    watchers.look(False)
    means = {anybody: {name: statistics.mean(one) for name, one in all_.items()} for anybody, all_ in spent.items()}
    watched = means[True]
    more = {name: watched[name] - watched.get(f"{name}, nobody's", 0.0) for name in servers | watchers.pids}
    return more, {"somebody looks": watched, "nobody looks": means[False]}


def reading(
    watchers: Watchers, servers: dict[str, int], epoch: Callable[[], float], records: int, pairs: int
) -> tuple[list[float], dict[str, float]]:
    """Of each pair of windows the quotient of the rates, with everybody looking and with nobody; and what the looking
    took, in parts of a core: rates differ from window to window by more than it can cost."""
    pids = servers | watchers.pids
    spent = {name: {True: 0.0, False: 0.0} for name in pids}
    took_s = {True: 0.0, False: 0.0}

    def rate(anybody: bool) -> float:
        watchers.look(anybody)
        before, began = {name: cpu_s(pid) for name, pid in pids.items()}, time.monotonic()
        epochs = [epoch()]
        while sum(epochs) < READ_S:
            epochs.append(epoch())
        took_s[anybody] += time.monotonic() - began
        for name, pid in pids.items():
            spent[name][anybody] += cpu_s(pid) - before[name]
        return len(epochs) * records / sum(epochs)

    quotients = []
    for number in range(pairs):
        rates = {anybody: rate(anybody) for anybody in ((False, True), (True, False))[number % 2]}
        quotients.append(rates[True] / rates[False])
        print(f"records/s: {rates[False]:,.0f}, watched {rates[True]:,.0f}", file=sys.stderr)
    watchers.look(False)
    return quotients, {name: of[True] / took_s[True] - of[False] / took_s[False] for name, of in spent.items()}


def cluster(base: Path, stack: ExitStack, *more: str) -> tuple[Server, Server]:
    """A coordinator and a node; `more`: flags of both."""
    flags = ["--port=0", f"--work_dir={base / 'work'}", *more]
    coordinator = Server("tfquiver.service.coordinator.main", flags, base / "coordinator.log").start()
    stack.callback(coordinator.stop)
    flags = ["--port=0", f"--cache_dir={base / 'cache'}", "--quota=1GiB", f"--coordinator={coordinator.address}", *more]
    node = Server("tfquiver.service.node.main", flags, base / "node.log").start()
    stack.callback(node.stop, 30)
    return coordinator, node


def measure(base: Path, quick: bool, stack: ExitStack) -> tuple[dict[str, Any], float, list[float]]:
    """All figures; of them what being watched takes of a core, and the quotients of the readings."""
    import tfquiver

    records = write_files(base / "data", SMALL, SMALL.quick_bytes)
    coordinator, node = cluster(base, stack, "--metrics_address=localhost:0")
    with ExitStack() as for_idle:
        others = cluster(base / "unwatched", for_idle)
        watchers = Watchers(coordinator.address, [coordinator.ready["metrics"], node.ready["metrics"]], stack)
        names = ("coordinator", "node")
        servers, unwatched = (
            dict(zip(names, (one.process.pid for one in pair), strict=True)) for pair in ((coordinator, node), others)
        )
        more, parts = idle(watchers, servers, unwatched, IDLE_QUICK_PAIRS if quick else IDLE_PAIRS)
    data = tfquiver.dataset(
        f"{base}/data/part-*", service=coordinator.address, cache_dir=base / "cache", batch_size=SMALL.batch
    )
    for _ in range(2):  # fills cache and page cache
        epoch_s(data, records, SMALL.batch)
    pairs = PAIRS_QUICK if quick else PAIRS
    quotients, looking = reading(watchers, servers, lambda: epoch_s(data, records, SMALL.batch), records, pairs)
    assert watchers.scraper.is_alive() and watchers.scraper.scrapes >= 2
    assert watchers.dashboard.poll() is None and watchers.status.poll() is None
    figures = {
        "idle, parts of a core": {
            when: {name: round(part, 5) for name, part in all_.items()} for when, all_ in parts.items()
        },
        "idle, more than where nobody looks": {name: round(part, 5) for name, part in more.items()},
        "reading, parts of a core more than where nobody looks": {
            name: round(part, 5) for name, part in looking.items()
        },
        "watched / unwatched, each pair": [round(one, 4) for one in quotients],
        "their quartiles": [round(one, 4) for one in statistics.quantiles(quotients)],
    }  # fmt: skip
    return figures, sum(more.values()), quotients


def main() -> None:
    parser = quick_parser(__doc__, "fewer windows, three minutes")
    quick = parser.parse_args().quick
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    os.environ.setdefault("CUDA_VISIBLE_DEVICES", "-1")
    with tempfile.TemporaryDirectory(prefix="tfquiver-bench-") as base, ExitStack() as stack:
        figures, watched, quotients = measure(Path(base), quick, stack)
    bars = [
        Bar("idle: what being watched takes, of a core", watched, CORE_BAR, at_most=True),
        Bar("warm reads: watched / unwatched", statistics.median(quotients), THROUGHPUT_BAR),
    ]
    finish("watching", figures, bars, quick)


if __name__ == "__main__":
    run_bench(main)
