"""The dashboard's page with a thousand nodes and two hundred jobs, looked at for a minute: heap flat, frames in time.

What the page is told is made up here, and changes with each event; server and page are those that ship. The page is
gone through meanwhile: every view, its tables scrolled. Frames count by the clock: 95 of 100 must come in time; what
the page's thread worked for one (`frame_work_ms`) tells a busy machine from a slow page.
"""

from __future__ import annotations

import asyncio
import math
import random
import threading
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from aiohttp import web

from tests.bench.bars import Bar, finish, quick_parser, run_bench
from tests.support.browser import browser
from tfquiver.cli.dashboard.feed import Feed
from tfquiver.cli.dashboard.web_server import application
from tfquiver.service.coordinator.history_of_the_last_day.past import Past
from tfquiver.service.coordinator.history_of_the_last_day.series import STEP_S

NODES, JOBS, DATASETS = 1000, 200, 40
KEY = "soak-soak-soak-soak"
DIGEST_ID = bytes(32)
FRAME_MS, HEAP_GROWTH = 50.0, 1.15
VIEWS = ("overview", "jobs", "data", "nodes", "decisions")
_MEASURE = """
window.soak = {frames: [], work: []};
let last = performance.now();
const tick = now => { soak.frames.push(now - last); last = now; requestAnimationFrame(tick); };
requestAnimationFrame(tick);
new PerformanceObserver(list => list.getEntries().forEach(one => soak.work.push(one.duration)))
  .observe({entryTypes: ['longtask']});
"""
_SCROLL = (
    "document.querySelectorAll('.rows').forEach(one => { one.scrollTop = (one.scrollTop + 700) % one.scrollHeight; })"
)


def made_up(rng: random.Random) -> dict[str, Any]:
    """As `tfquiver status` collects it."""
    nodes = [
        {
            "node_id": f"node-{number:08x}", "host": f"gpu-{number}", "labels": {"rack": f"r{number // 40}"},
            "quota_bytes": 10**12, "used_bytes": rng.randrange(10**12), "readers": rng.randrange(8),
            "hits": rng.randrange(10**6), "peer_hits": rng.randrange(10**5), "misses": rng.randrange(10**5),
            "store_bytes": rng.randrange(10**13), "served_bytes": rng.randrange(10**14),
        }
        for number in range(NODES)
    ]  # fmt: skip
    datasets = [
        {
            "name": f"dataset-{number}", "digest_id": f"{number:064x}", "shards": 10**5, "records": 10**8,
            "size_bytes": 10**12, "resident_bytes": rng.randrange(10**12), "chunks": 130,
            "resident_chunks": rng.randrange(130), "cache": {"mode": "cooperative"},
        }
        for number in range(DATASETS)
    ]  # fmt: skip
    sessions = [
        {
            "job": f"sweep-{number}-lr0.0{number % 9}", "session_key": "k", "dataset": f"dataset-{number % DATASETS}",
            "digest_id": f"{number % DATASETS:064x}", "epoch": rng.randrange(90), "readers": 8, "shards": 10**5,
            "acked": rng.randrange(10**5), "bytes_per_s": rng.randrange(10**9), "stall_share": rng.random(),
            "hit_share": rng.random(), "step_ms": 100 * rng.random(), "state": "open", "idle_ms": 0,
        }
        for number in range(JOBS)
    ]  # fmt: skip
    return {
        "coordinator": "made-up:5040", "problems": ["node gone-1 is lost"], "going_on": [], "hit_ratio": rng.random(),
        "saved": dict.fromkeys(("bytes", "requests", "served_bytes", "store_bytes"), rng.randrange(10**15)),
        "store": None, "nodes": nodes, "datasets": datasets, "sessions": sessions, "dispatchers": [],
        "lost_nodes": [nodes[0] | {"silent_ms": 9000}],
    }  # fmt: skip


def a_day(rng: random.Random) -> Past:
    past, now = Past(), time.time()
    jobs = {f"sweep-{number}-lr0.0{number % 9}": {"bytes_per_s": 1e8, "stall_share": 0.2} for number in range(JOBS)}
    looks = int(86_400 // STEP_S)
    for look in range(0, looks, 12):
        at = now - (looks - look) * STEP_S
        rate = 1e9 * (1.5 + math.sin(look / 500))
        reads = [(number, job, "data", DIGEST_ID, look // 700, 0.5) for number, job in enumerate(jobs)]
        past.look(at, {"read_bytes_per_s": rate, "store_bytes_per_s": rate / 5, "jobs": 200.0}, reads)
        for job, figures in jobs.items():
            past.job(at, job, figures)
        for number in range(4):
            past.chunks(at, f"{number:064x}", np.array([rng.random() for _ in range(130)]))
    return past


class Server(threading.Thread):
    def __init__(self) -> None:
        super().__init__(daemon=True)
        self._rng, self._ready, self.link = random.Random(7), threading.Event(), ""
        self._past = a_day(self._rng)

    def run(self) -> None:
        asyncio.run(self._serve())

    def begun(self) -> str:
        self.start()
        if not self._ready.wait(60):
            raise TimeoutError("the server is not ready in a minute")
        return self.link

    async def _serve(self) -> None:
        feed = Feed(lambda: made_up(self._rng))
        runner = web.AppRunner(application(feed, self._told, KEY), access_log=None)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        self.link = f"http://127.0.0.1:{runner.addresses[0][1]}/?key={KEY}"
        self._ready.set()
        await asyncio.Event().wait()

    def _told(self, day: bool, jobs: list[str], digest_id: str) -> dict[str, Any]:
        return self._past.told(time.time(), day, jobs, digest_id) | {"decisions": []}


def wait_for(condition: Callable[[], bool], what: str) -> None:
    give_up_at = time.monotonic() + 120
    while not condition():
        if time.monotonic() > give_up_at:
            raise TimeoutError(what)
        time.sleep(0.1)


def heap_bytes(driver: Any) -> int:
    driver.execute_cdp_cmd("HeapProfiler.collectGarbage", {})
    return int(driver.execute_cdp_cmd("Runtime.getHeapUsage", {})["usedSize"])


def task_s(driver: Any) -> float:
    told = driver.execute_cdp_cmd("Performance.getMetrics", {})["metrics"]
    return float(next(one["value"] for one in told if one["name"] == "TaskDuration"))


def looked_at(seconds: float) -> tuple[dict[str, Any], list[Bar]]:
    link = Server().begun()
    with browser(1280, 900) as driver:
        driver.get(link)
        wait_for(lambda: "asking" not in driver.page_source, "the first event")
        driver.execute_cdp_cmd("Performance.enable", {"timeDomain": "threadTicks"})
        heaps, frames, works = list[int](), list[float](), list[float]()
        driver.execute_script(_MEASURE)
        began, at, worked_s = time.monotonic(), 0, task_s(driver)
        while (now := time.monotonic()) < began + seconds:
            view = VIEWS[at % len(VIEWS)]
            driver.execute_script(f"location.hash = '#tab={view}&span={'day' if at // len(VIEWS) % 2 else 'hour'}'")
            while time.monotonic() < now + 2:
                driver.execute_script(_SCROLL)
                time.sleep(0.25)
            at += 1
            if at % len(VIEWS) == 0:
                heaps.append(heap_bytes(driver))
        spent_s, worked_s = time.monotonic() - began, task_s(driver) - worked_s
        told = driver.execute_script("return soak")
        frames, works = sorted(told["frames"]), sorted(told["work"])
        errors = [entry["message"] for entry in driver.get_log("browser") if entry["level"] == "SEVERE"]
    settled = heaps[len(heaps) // 3 :]  # every view was drawn, with an hour and with a day
    growth = min(settled[len(settled) // 2 :]) / max(min(settled[: len(settled) // 2] or settled), 1)
    work_ms = 1000 * worked_s / max(len(frames), 1)
    frame_p95_ms = round(frames[int(0.95 * len(frames))], 1)
    figures = {
        "nodes": NODES, "jobs": JOBS, "seconds": round(spent_s, 1), "views": at, "frames": len(frames),
        "frame_work_ms": round(work_ms, 2), "frame_p50_ms": round(frames[len(frames) // 2], 1),
        "frame_p95_ms": frame_p95_ms, "long_tasks": len(works),
        "longest_task_ms": round(works[-1], 1) if works else 0.0, "heap_mb": [round(one / 1e6, 2) for one in heaps],
        "heap_growth": round(growth, 3), "errors": errors,
    }  # fmt: skip
    bars = [
        Bar("ms in which 95 of 100 frames come", frame_p95_ms, FRAME_MS, at_most=True),
        Bar("heap, later / settled", growth, HEAP_GROWTH, at_most=True),
        Bar("errors of the page", len(errors), 0, at_most=True),
    ]
    return figures, bars


def main() -> None:
    quick = quick_parser(__doc__, "20 seconds").parse_args().quick
    try:
        figures, bars = looked_at(20.0 if quick else 60.0)
    except pytest.skip.Exception as missing:  # no Chromium, or nothing to drive it with
        finish("dashboard_soak", {}, [], quick, skipped=str(missing))
    finish("dashboard_soak", figures, bars, quick)


if __name__ == "__main__":
    run_bench(main)
