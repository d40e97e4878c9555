"""The demo's steps: a store, a cluster and three trials; each trains through the cache, then directly from the store.

The trials are the same processes in both rounds, and begin each together: what is measured is reading and training,
not how long TensorFlow takes to be imported.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tfquiver import errors
from tfquiver.cli.status_asked_watched_explained import status
from tfquiver.demo import op
from tfquiver.demo.processes import Child, Processes
from tfquiver.demo.report import DemoResult, RoundResult, TrialResult
from tfquiver.demo.show import Bar, Show
from tfquiver.testing.emulated_store import StoreClient
from tfquiver.testing.throttled_store import Traffic

BUCKET, PREFIX = "demo", "digits/train-"
LEARNING_RATES = (3e-4, 1e-3, 3e-3)
WORKERS = (1, 2)
_ENV = {"TF_CPP_MIN_LOG_LEVEL": "2", "CUDA_VISIBLE_DEVICES": "-1", "PYTHONWARNINGS": "ignore"}
_STARTING = 4 + len(WORKERS) + len(LEARNING_RATES)  # digits, store, coordinator, dispatcher
_ROUND_S = 600.0
_LOOK_S = 0.2
_TELL_S = 5.0  # where there are no bars


@dataclass(frozen=True)
class Scale:
    records: int
    epochs: int
    bytes_per_s: float


# The store is what training waits for: directly, three trials take trials times epochs times the data through this
# rate, a minute and half a minute. Once through it, as with the cache, are 7 and 5 seconds.
FULL = Scale(records=4000, epochs=3, bytes_per_s=512 << 10)
QUICK = Scale(records=1600, epochs=2, bytes_per_s=256 << 10)


async def demo(scale: Scale, scratch: Path, show: Show) -> DemoResult:
    """Runs all of it, with what it makes under `scratch`. Raises TfquiverError when a process fails or hangs."""
    log = scratch / "log"
    log.mkdir()
    with show:
        async with Processes(log, _ENV) as servers:
            if not op.is_brought():
                show.step("looking for tfquiver's op; at the first use it is compiled: a few minutes, once")
                compiling = await servers.start("op", "tfquiver.demo.op", with_children=True)
                bar = show.bar("compiling", None)
                async with _told(show, lambda: "still being compiled"):
                    await compiling.ready(op.COMPILING_S)
                bar.at(1, "done", of=1)
            show.step("preparing digits and a slow store")
            starting = _Starting(show)
            preparing = await servers.start(
                "digits", "tfquiver.demo.digits", str(scratch / "digits"), f"--records={scale.records}"
            )
            emulator = await servers.start(
                "store", "tfquiver.testing.emulated_store", f"--bytes_per_s={scale.bytes_per_s}"
            )
            store = StoreClient.of(await starting.ready(emulator))
            env = {**_ENV, "STORAGE_EMULATOR_HOST": store.url, "TMPDIR": str(scratch)}
            async with Processes(log, env) as cluster, Processes(log, env) as jobs:
                show.step("starting coordinator, dispatcher, two workers and three trials")
                trials = [await _trial(jobs, number, scale, scratch) for number in range(len(LEARNING_RATES))]
                addresses: dict[str, str] = {}
                async with _told(show, lambda: f"{starting.far}; to import TensorFlow takes a while"):
                    await _all(
                        [
                            _upload(preparing, starting, store, scratch / "digits"),
                            _cluster(cluster, starting, scratch, addresses),
                            *(_ready(trial, starting) for trial in trials),
                        ],
                        _ROUND_S,
                    )
                dataset_bytes = sum(path.stat().st_size for path in (scratch / "digits").glob("train-*"))
                run = _Run(scale, dataset_bytes, trials, store, show)
                cached = await run.round("cached", addresses)
                cached.hit_ratio = (await asyncio.to_thread(status.collect, addresses["coordinator"]))["hit_ratio"]
                rounds = [cached, await run.round("direct", {})]
    return DemoResult(scale.records, dataset_bytes, scale.epochs, scale.bytes_per_s, rounds)


class _Starting:
    """How many of the processes are ready."""

    def __init__(self, show: Show) -> None:
        self._bar = show.bar("starting", _STARTING, f"0 of {_STARTING}")
        self._done = 0

    @property
    def far(self) -> str:
        return f"{self._done} of {_STARTING} are ready"

    def one_more(self) -> None:
        self._done += 1
        self._bar.at(self._done, f"{self._done} of {_STARTING}")

    async def ready(self, child: Child) -> dict[str, Any]:
        fields = await child.ready()
        self.one_more()
        return fields


async def _ready(child: Child, starting: _Starting) -> None:
    await starting.ready(child)


async def _upload(preparing: Child, starting: _Starting, store: StoreClient, digits: Path) -> None:
    await preparing.done()
    await asyncio.to_thread(_put_all, store, digits)
    starting.one_more()


def _put_all(store: StoreClient, digits: Path) -> None:
    store.make_bucket(BUCKET)
    for path in sorted(digits.glob("train-*")):
        store.put(BUCKET, PREFIX + path.name.removeprefix("train-"), path.read_bytes())


async def _cluster(servers: Processes, starting: _Starting, scratch: Path, addresses: dict[str, str]) -> None:
    """Starts what a cluster consists of; fills in `addresses`."""
    coordinator = await servers.start(
        "coordinator", "tfquiver.service.coordinator.main", "--port=0", f"--work_dir={scratch / 'coordinator'}"
    )
    addresses["coordinator"] = f"localhost:{(await starting.ready(coordinator))['port']}"
    dispatcher = await servers.start(
        "dispatcher",
        "tfquiver.service.dispatcher.main",
        "--port=0",
        f"--work_dir={scratch / 'dispatcher'}",
        f"--coordinator={addresses['coordinator']}",
    )
    addresses["dispatcher"] = f"localhost:{(await starting.ready(dispatcher))['port']}"
    workers = [
        await servers.start(
            f"worker-{number}",
            "tfquiver.service.worker.main",
            "--port=0",
            f"--dispatcher={addresses['dispatcher']}",
            f"--coordinator={addresses['coordinator']}",
            f"--cache_dir={scratch / f'cache-{number}'}",
            "--quota=1GiB",
        )
        for number in WORKERS
    ]
    await asyncio.gather(*(starting.ready(worker) for worker in workers))


async def _trial(jobs: Processes, number: int, scale: Scale, scratch: Path) -> Child:
    name = f"trial-{number + 1}"
    downloads = scratch / "downloads" / name
    downloads.mkdir(parents=True)
    return await jobs.start(
        name,
        "tfquiver.demo.trial",
        f"--name={name}",
        f"--bucket={BUCKET}",
        f"--prefix={PREFIX}",
        f"--held_out={scratch / 'digits' / 'held-out'}",
        f"--scratch={downloads}",
        f"--learning_rate={LEARNING_RATES[number]}",
        f"--epochs={scale.epochs}",
        f"--seed={number}",
        listens=True,
    )


@dataclass
class _Run:
    scale: Scale
    dataset_bytes: int
    trials: list[Child]
    store: StoreClient
    show: Show

    async def round(self, way: str, addresses: dict[str, str]) -> RoundResult:
        """Three trials at once; the bytes that leave the store meanwhile."""
        self.show.step("three trials read " + ("through tfquiver" if addresses else "the store directly"))
        results = [TrialResult(trial.name, rate) for trial, rate in zip(self.trials, LEARNING_RATES, strict=True)]
        in_all = self.scale.records * self.scale.epochs
        bars = [self.show.bar(f"{way}  {result.name}", in_all, f"epoch 1 of {self.scale.epochs}") for result in results]
        egress = self.show.bar(f"{way}  left the store", len(results) * self.scale.epochs * self.dataset_bytes)
        before = await asyncio.to_thread(self.store.traffic)
        started = time.monotonic()
        made = RoundResult(way, results, 0.0, Traffic())

        def look(traffic: Traffic) -> None:
            made.traffic = traffic - before
            left = made.traffic.payload_bytes
            made.left_store.append((time.monotonic() - started, left))
            egress.at(left, far())

        def far() -> str:
            left = made.traffic.payload_bytes
            return f"{left / 1e6:5.2f} MB, {left / self.dataset_bytes:.2f} x the data"

        async def watch() -> None:
            while True:
                look(await asyncio.to_thread(self.store.traffic))
                await asyncio.sleep(_LOOK_S)

        for trial in self.trials:
            trial.tell({"way": way, **addresses})
        watching = asyncio.create_task(watch())
        try:
            following = [self._follow(*one) for one in zip(self.trials, results, bars, strict=True)]
            async with _told(self.show, lambda: f"left the store: {far().lstrip()}"):
                await _all(following, _ROUND_S)
        finally:
            watching.cancel()
            egress.stop()
        made.wall_s = max(result.wall_s for result in results)
        look(await asyncio.to_thread(self.store.traffic))
        return made

    async def _follow(self, child: Child, result: TrialResult, bar: Bar) -> None:
        async for message in child.messages():
            before = sum(result.records_per_epoch)
            if message["event"] == "step":
                self._note(bar, before + message["records"], len(result.records_per_epoch) + 1)
            elif message["event"] == "epoch":
                result.records_per_epoch.append(message["records"])
                result.distinct_per_epoch.append(message["distinct"])
                result.epoch_ends_s.append(message["at_s"])
                accuracy = message["training_accuracy"]
                self.show.without_bars(f"{child.name}: an epoch is done; training accuracy {accuracy:.3f}")
                self._note(bar, before + message["records"], min(len(result.epoch_ends_s) + 1, self.scale.epochs))
            elif message["event"] == "done":
                result.accuracy = message["accuracy"]
                return
        raise errors.UnavailableError(f"{child.name} ended before it had trained")

    def _note(self, bar: Bar, records: int, epoch: int) -> None:
        bar.at(records, f"epoch {epoch} of {self.scale.epochs}")


@asynccontextmanager
async def _told(show: Show, what: Callable[[], str]) -> AsyncIterator[None]:
    """Meanwhile those who see no bars are told `what`, again and again."""

    async def tell() -> None:
        while True:
            await asyncio.sleep(_TELL_S)
            show.without_bars(what())

    telling = asyncio.create_task(tell())
    try:
        yield
    finally:
        telling.cancel()


async def _all(work: list[Coroutine[Any, Any, None]], limit_s: float) -> None:
    """Awaits all; the first that fails cancels the others, and its error is the error."""
    try:
        async with asyncio.timeout(limit_s), asyncio.TaskGroup() as group:
            for one in work:
                group.create_task(one)
    except* errors.TfquiverError as failures:
        failed = failures.exceptions
    except* TimeoutError:
        failed = (errors.DeadlineError(f"it took more than {limit_s:.0f} s"),)
    else:
        return
    raise failed[0]
