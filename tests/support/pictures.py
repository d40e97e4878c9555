"""Takes the pictures of docs/guide/dashboard.md anew, of a real cluster: `python -m tests.support.pictures FOLDER`.

Four minutes: a store of 20 MB/s, four nodes in two racks, a sweep of three over one data set and a job over another,
larger than its part of the cache; then a node is killed; then the jobs end. Look at each picture before you commit.
"""

from __future__ import annotations

import argparse
import io
import os
import pty
import random
import re
import struct
import subprocess
import sys
import tempfile
import termios
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from fcntl import ioctl
from pathlib import Path
from typing import Any

import tfquiver
import tfquiver.reader
from tests.support.browser import browser
from tests.support.cluster import Cluster, Server, die_with_parent, wait_until
from tests.support.dashboard_served import seen, served
from tfquiver.scanning import tfrecord
from tfquiver.testing.emulated_store import EmulatedStore

STORE_BYTES_PER_S, QUOTA = 20e6, "30MB"
RECORD_BYTES, BATCH = 15_000, 32
DATA = {"imagenet": 4000, "openimages": 6000}  # records
JOBS = {  # after so many seconds; how long a step takes
    "sweep-lr0.1": ("imagenet", 0.0, 0.10), "sweep-lr0.01": ("imagenet", 20.0, 0.12),
    "sweep-lr0.001": ("imagenet", 45.0, 0.15), "segmentation": ("openimages", 10.0, 0.10),
}  # fmt: skip
BUSY_S, AFTER_THE_KILL_S = 150.0, 20.0
COLUMNS, LINES = 104, 62


def read(job: str, dataset: str, service: str, cache_dir: str, step_s: float) -> None:
    """A training, until it is killed."""
    batches = tfquiver.reader.records(dataset, service=service, cache_dir=cache_dir, job=job, batch_size=BATCH)
    while True:
        for _ in batches:
            time.sleep(step_s)


def fill(store: EmulatedStore) -> None:
    noise = random.Random(0)
    store.make_bucket("bucket")
    for name, records in DATA.items():
        for part in range(8):
            framed = b"".join(tfrecord.frame(noise.randbytes(RECORD_BYTES)) for _ in range(records // 8))
            store.put("bucket", f"{name}/train-{part:05}-of-00008", framed)


@contextmanager
def training(job: str, cluster: Cluster, cache_dir: Path) -> Iterator[None]:
    dataset, _, step_s = JOBS[job]
    where = [cluster.coordinator.address, str(cache_dir), str(step_s)]
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.support.pictures", "--read", job, dataset, *where], preexec_fn=die_with_parent
    )
    try:
        yield
    finally:
        process.terminate()
        process.wait()


def watched(address: str, seconds: float) -> str:
    """What `tfquiver status --watch` has on a terminal at last, as HTML."""
    from rich.console import Console
    from rich.text import Text

    words = ["status", address, "--watch", "--store_price", "90", "--request_price", "0.4"]
    pid, terminal = pty.fork()
    if not pid:
        os.execve(sys.executable, [sys.executable, "-m", "tfquiver.cli.main", *words], os.environ | {"TERM": "xterm"})
    ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", LINES, COLUMNS, 0, 0))
    until, shown = time.monotonic() + seconds, b""
    while time.monotonic() < until:
        shown += os.read(terminal, 65536)
    os.write(terminal, b"q")
    last = shown.decode().replace("\r\n", "\n").split("\x1b[H")[-2]
    os.close(terminal)
    os.waitpid(pid, 0)
    console = Console(record=True, width=COLUMNS, file=io.StringIO(), force_terminal=True)
    console.print(Text.from_ansi(re.sub(r"\x1b\[\?\d+[hl]", "", last).rstrip()))
    return console.export_svg(title=f"tfquiver {' '.join(words[:1] + words[2:])}")


class Pictures:
    def __init__(self, folder: Path, link: str) -> None:
        self.folder, self._link = folder, link

    def take(self, name: str, tab: str, *, words: str, size: tuple[int, int] = (1200, 900), dark: bool = False) -> None:
        with browser(*size, dark) as driver:
            driver.get(self._link)
            driver.execute_script(f"location.hash = 'tab={tab}'")
            seen(driver, name, lambda text: words in text)
            self.save(driver, name, "document.querySelector('main').getBoundingClientRect().bottom - 16", size)

    def terminal(self, name: str, svg: str) -> None:
        with browser(1000, 800) as driver, tempfile.NamedTemporaryFile("w", suffix=".svg") as file:
            file.write(svg)
            file.flush()
            driver.get(f"file://{file.name}")
            box = driver.execute_script(
                "const b = document.documentElement.viewBox.baseVal; return [b.width, b.height]"
            )
            width, height = 1000, round(1000 * box[1] / box[0])
            self.save(driver, name, str(height), (width, height))

    def save(self, driver: Any, name: str, bottom: str, size: tuple[int, int]) -> None:
        """As high as the page is, in 128 colours: they are for a page, and in the repository."""
        from PIL import Image

        time.sleep(1.0)  # the charts come a moment after the figures
        height = min(max(int(driver.execute_script(f"return {bottom}")), 300), 1400)
        metrics = {"width": size[0], "height": height, "deviceScaleFactor": 1, "mobile": size[0] < 700}
        driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
        time.sleep(1.0)
        path = self.folder / f"{name}.png"
        driver.save_screenshot(str(path))
        Image.open(path).convert("RGB").quantize(128, dither=Image.Dither.NONE).save(path, optimize=True)
        print(f"{path}: {path.stat().st_size // 1024} KiB", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", nargs="?", type=Path)
    parser.add_argument("--read", nargs=5, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.read:
        job, dataset, service, cache_dir, step_s = arguments.read
        read(job, dataset, service, cache_dir, float(step_s))
    elif arguments.folder:
        with tempfile.TemporaryDirectory() as base, ExitStack() as held:
            take_all(arguments.folder, Path(base), held)


def is_quiet(told: dict[str, Any]) -> bool:
    return not told["problems"] and all(session["readers"] == 0 for session in told["sessions"])


def take_all(folder: Path, base: Path, held: ExitStack) -> None:
    store = held.enter_context(EmulatedStore.start())
    fill(store)
    env = {"STORAGE_EMULATOR_HOST": store.url}
    flags = {"node": ["--labels=rack=r1,disk=nvme"]}
    cluster = held.enter_context(Cluster(base / "cluster", workers=0, quota=QUOTA, env=env, flags=flags))
    where = [f"--coordinator={cluster.coordinator.address}", f"--quota={QUOTA}"]
    dirs = [cluster.cache_dir, *(base / f"cache-{number}" for number in range(3))]
    labels = [f"--labels=rack=r{rack},disk=nvme" for rack in (2, 1, 2)]
    nodes = [
        Server(
            "tfquiver.service.node.main",
            ["--port=0", *where, f"--cache_dir={cache_dir}", its], base / f"{cache_dir.name}.log", env,
        )
        for cache_dir, its in zip(dirs[1:], labels, strict=True)
    ]  # fmt: skip
    for node in nodes:
        held.callback(node.start().stop)
    for name in DATA:
        subprocess.run(
            [sys.executable, "-m", "tfquiver.cli.main", "dataset", "create", name, "--source", f"gs://bucket/{name}/*",
             "--wait", "--service", cluster.coordinator.address], check=True,
        )  # fmt: skip
    store.change_rate(STORE_BYTES_PER_S)
    pictures = Pictures(folder, held.enter_context(served(cluster.coordinator.address)))
    jobs = held.enter_context(ExitStack())
    began = time.monotonic()
    for number, (job, (_, after_s, _)) in enumerate(sorted(JOBS.items(), key=lambda one: one[1][1])):
        time.sleep(max(began + after_s - time.monotonic(), 0))
        jobs.enter_context(training(job, cluster, dirs[number % 2]))
    time.sleep(max(began + BUSY_S - time.monotonic(), 0))
    pictures.take("dashboard-busy", "overview", words="Epochs")
    pictures.take("dashboard-dark", "jobs", words="Waits for data", dark=True)
    pictures.take("dashboard-data", "data", words="over time")
    pictures.take("dashboard-phone", "overview", words="Epochs", size=(390, 844))
    pictures.terminal("status-watch", watched(cluster.coordinator.address, 7.0))
    nodes[-1].kill()
    time.sleep(AFTER_THE_KILL_S)
    pictures.take("dashboard-failure", "nodes", words="is lost")
    jobs.close()
    nodes[-1].restart()
    wait_until(lambda: is_quiet(tfquiver.status(cluster.coordinator.address)), "nobody reads", 90, 1)
    time.sleep(30)  # so much of nothing is seen
    pictures.take("dashboard-idle", "overview", words="Epochs")


if __name__ == "__main__":
    main()
