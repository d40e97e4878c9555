"""`tfquiver demo`: a coordinator, a dispatcher, two workers and three trials over a slow store; then without them."""

from __future__ import annotations

import argparse
import asyncio
import json
import signal
import tempfile
import time
from collections.abc import Coroutine
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

from tfquiver import errors
from tfquiver.cli import status
from tfquiver.demo.processes import Child, Processes
from tfquiver.demo.report import DemoResult, RoundResult, TrialResult, table
from tfquiver.testing.emulated_store import StoreClient

BUCKET, PREFIX = "demo", "digits/train-"
LEARNING_RATES = (3e-4, 1e-3, 3e-3)
_ENV = {"TF_CPP_MIN_LOG_LEVEL": "2", "CUDA_VISIBLE_DEVICES": "-1", "PYTHONWARNINGS": "ignore"}
_INTERRUPTED = 130
_ROUND_S = 600.0


@dataclass(frozen=True)
class Scale:
    records: int
    epochs: int
    bytes_per_s: float


# Direct reading takes three trials times the epochs times the data through this rate: one minute in full.
FULL = Scale(records=4000, epochs=3, bytes_per_s=512 << 10)
QUICK = Scale(records=800, epochs=2, bytes_per_s=1 << 20)


def add_parser(subparsers: Any) -> None:
    parser = subparsers.add_parser("demo", help="three Keras trials share one cache; then the same three without it")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the figures to FILE")
    parser.add_argument("--quick", action="store_true", help="less data and fewer epochs")
    parser.set_defaults(run=_run)


def _run(arguments: argparse.Namespace) -> int:
    console = Console()
    scale = QUICK if arguments.quick else FULL
    try:
        with tempfile.TemporaryDirectory(prefix="tfquiver-demo-") as scratch:
            result = asyncio.run(_demo(scale, Path(scratch), console))
    except KeyboardInterrupt:
        console.print("interrupted; everything has been stopped and removed")
        return _INTERRUPTED
    console.print(table(result))
    if arguments.json:
        arguments.json.write_text(json.dumps(result.as_json(), indent=2) + "\n")
    if not result.complete:
        console.print("[red]a trial did not see every record exactly once in every epoch")
        return 1
    return 0


async def _demo(scale: Scale, scratch: Path, console: Console) -> DemoResult:
    task = asyncio.current_task()
    assert task is not None
    stopped = False

    def stop() -> None:
        nonlocal stopped
        stopped = True
        task.cancel()

    # SIGTERM is Ctrl-C without a terminal.
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stop)
    try:
        return await _demo_steps(scale, scratch, _Show(console, scale))
    except asyncio.CancelledError:
        if stopped:
            raise KeyboardInterrupt from None
        raise


async def _demo_steps(scale: Scale, scratch: Path, show: _Show) -> DemoResult:
    (scratch / "log").mkdir()
    with show:
        async with Processes(scratch / "log", _ENV) as outer:
            show.step("preparing digits and the store")
            preparing = await outer.start(
                "digits", "tfquiver.demo.digits", str(scratch / "digits"), f"--records={scale.records}"
            )
            emulator = await outer.start(
                "store", "tfquiver.testing.emulated_store", f"--bytes_per_s={scale.bytes_per_s}"
            )
            store = StoreClient.of(await emulator.ready())
            await preparing.done()
            dataset_bytes = await asyncio.to_thread(_upload, store, scratch / "digits")
            env = {**_ENV, "STORAGE_EMULATOR_HOST": store.url, "TMPDIR": str(scratch)}
            rounds = [await _shared(scale, scratch, env, store, show), await _direct(scale, scratch, env, store, show)]
    return DemoResult(scale.records, dataset_bytes, scale.epochs, scale.bytes_per_s, rounds)


def _upload(store: StoreClient, digits: Path) -> int:
    store.make_bucket(BUCKET)
    size_bytes = 0
    for path in sorted(digits.glob("train-*")):
        store.put(BUCKET, PREFIX + path.name.removeprefix("train-"), path.read_bytes())
        size_bytes += path.stat().st_size
    return size_bytes


async def _shared(scale: Scale, scratch: Path, env: dict[str, str], store: StoreClient, show: _Show) -> RoundResult:
    async with Processes(scratch / "log", env) as servers:
        show.step("starting coordinator, dispatcher and two workers")
        first = await servers.start(
            "coordinator", "tfquiver.service.coordinator.main", "--port=0", f"--work_dir={scratch / 'coordinator'}"
        )
        coordinator = f"localhost:{(await first.ready())['port']}"
        second = await servers.start(
            "dispatcher",
            "tfquiver.service.dispatcher.main",
            "--port=0",
            f"--work_dir={scratch / 'dispatcher'}",
            f"--coordinator={coordinator}",
        )
        dispatcher = f"localhost:{(await second.ready())['port']}"
        workers = [
            await servers.start(
                f"worker-{number}",
                "tfquiver.service.worker.main",
                "--port=0",
                f"--dispatcher={dispatcher}",
                f"--coordinator={coordinator}",
                f"--cache_dir={scratch / f'cache-{number}'}",
                "--quota=1GiB",
            )
            for number in (1, 2)
        ]
        await asyncio.gather(*(worker.ready() for worker in workers))
        where = [f"--coordinator={coordinator}", f"--dispatcher={dispatcher}"]
        result = await _round("cached", where, scale, scratch, env, store, show)
        result.hit_ratio = (await asyncio.to_thread(status.collect, coordinator))["hit_ratio"]
        return result


async def _direct(scale: Scale, scratch: Path, env: dict[str, str], store: StoreClient, show: _Show) -> RoundResult:
    return await _round("direct", [], scale, scratch, env, store, show)


async def _round(
    way: str, where: list[str], scale: Scale, scratch: Path, env: dict[str, str], store: StoreClient, show: _Show
) -> RoundResult:
    """Three trials at once; the bytes that left the store meanwhile."""
    show.step("three trials read " + ("through tfquiver" if where else "the store directly"))
    before = await asyncio.to_thread(store.traffic)
    started = time.monotonic()
    results = [TrialResult(f"trial-{number}", rate) for number, rate in enumerate(LEARNING_RATES, start=1)]
    async with Processes(scratch / "log", env) as trials:
        following = []
        for number, result in enumerate(results):
            reading = where
            if not where:
                downloads = scratch / "downloads" / result.name
                downloads.mkdir(parents=True)
                reading = [f"--scratch={downloads}"]
            child = await trials.start(
                f"{result.name}-{'shared' if where else 'direct'}",
                "tfquiver.demo.trial",
                f"--name={result.name}",
                f"--bucket={BUCKET}",
                f"--prefix={PREFIX}",
                f"--held_out={scratch / 'digits' / 'held-out'}",
                f"--learning_rate={result.learning_rate}",
                f"--epochs={scale.epochs}",
                f"--seed={number}",
                *reading,
            )
            following.append(_follow(child, result, show.trial(f"{result.name}, {way}")))
        await _all(following)
    wall_s = time.monotonic() - started
    traffic = await asyncio.to_thread(store.traffic) - before
    return RoundResult(way, results, wall_s, traffic)


async def _all(work: list[Coroutine[Any, Any, None]]) -> None:
    """Awaits all; the first that fails cancels the others, and its error is the error."""
    try:
        async with asyncio.timeout(_ROUND_S), asyncio.TaskGroup() as group:
            for one in work:
                group.create_task(one)
    except* errors.TfquiverError as failures:
        failed = failures.exceptions
    except* TimeoutError:
        failed = (errors.DeadlineError(f"three trials took more than {_ROUND_S:.0f} s"),)
    else:
        return
    raise failed[0]


async def _follow(child: Child, result: TrialResult, bar: _Bar) -> None:
    async for message in child.messages():
        if message["event"] == "epoch":
            result.records_per_epoch.append(message["records"])
            result.distinct_per_epoch.append(message["distinct"])
            bar.epoch_done(message["training_accuracy"])
        elif message["event"] == "done":
            result.wall_s, result.accuracy = message["wall_s"], message["accuracy"]


class _Bar:
    def __init__(self, show: _Show, task: TaskID | None, name: str) -> None:
        self._show, self._task, self._name = show, task, name

    def epoch_done(self, accuracy: float) -> None:
        if self._task is None:
            self._show.line(f"{self._name}: an epoch is done; training accuracy {accuracy:.3f}")
        else:
            self._show.advance(self._task)


class _Show:
    """Progress bars on a terminal, plain lines elsewhere."""

    def __init__(self, console: Console, scale: Scale) -> None:
        self._console = console
        self._epochs = scale.epochs
        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TextColumn("epochs"))
        self._progress = Progress(*columns, TimeElapsedColumn(), console=console) if console.is_terminal else None
        self._started = time.monotonic()

    def __enter__(self) -> None:
        (self._progress or nullcontext()).__enter__()

    def __exit__(self, *error: Any) -> None:
        (self._progress or nullcontext()).__exit__(*error)

    def step(self, text: str) -> None:
        self.line(f"[bold]{text}")

    def line(self, text: str) -> None:
        self._console.print(f"{time.monotonic() - self._started:6.1f} s  {text}", highlight=False)

    def trial(self, name: str) -> _Bar:
        task = self._progress.add_task(name, total=self._epochs) if self._progress else None
        return _Bar(self, task, name)

    def advance(self, task: TaskID) -> None:
        assert self._progress is not None
        self._progress.advance(task)
