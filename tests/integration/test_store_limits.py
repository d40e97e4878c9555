"""What jobs may read from the store, measured at the store: real coordinator, node and store emulator."""

from __future__ import annotations

import asyncio
import signal
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.support import node_calls, rotating
from tests.support.cluster import Server, wait_until
from tests.support.rotating import ENTRY_BYTES, Job
from tfquiver.cli.main import main
from tfquiver.cli.status_asked_watched_explained import status
from tfquiver.proto.tfquiver.v1 import types_pb2
from tfquiver.scanning.cutting import CutPolicy
from tfquiver.service.coordinator.server import CoordinatorServer
from tfquiver.stores.gcs import GcsStore
from tfquiver.testing.emulated_store import EmulatedStore

pytestmark = pytest.mark.long

ONE_RECORD = CutPolicy(1, 1, 1)
SHARDS = 400
RATE = 300_000
MEASURED_S = 10.0


class Place:
    """A coordinator, one node, and a data set in a store whose traffic is counted."""

    def __init__(self, coordinator: Server, node: Server, store: EmulatedStore, dataset: types_pb2.Dataset) -> None:
        self.coordinator, self.node, self.store, self.dataset = coordinator, node, store, dataset
        self._jobs: list[Job] = []

    def start(self, name: str, step_s: float = 0.0) -> Job:
        job = Job(self.node.ready["socket"], self.dataset, name, 1000, step_s)
        job.start()
        self._jobs.append(job)
        return job

    def stop(self) -> None:
        for job in self._jobs:
            job.enough = True
            self.limit(job.name, "none")
        for job in self._jobs:
            job.finish()

    def limit(self, job: str, rate: str) -> None:
        assert main(["limit", job, rate, "--service", self.coordinator.address]) == 0

    def left_store_per_s(self, seconds: float = MEASURED_S) -> float:
        before, began = self.store.traffic().payload_bytes, time.monotonic()
        time.sleep(seconds)
        return (self.store.traffic().payload_bytes - before) / (time.monotonic() - began)

    def keeps_to(self, rate: float) -> bool:
        """Within 5 %. A machine that is busy with other things may get less out of the store for a while; more it must
        never be."""
        for _ in range(8):
            measured = self.left_store_per_s()
            assert measured <= 1.05 * rate
            if measured >= 0.95 * rate:
                return True
        return False

    def told(self) -> dict[str, dict[str, Any]]:
        return {one["job"]: one for one in status.collect(self.coordinator.address)["remote_io"]}


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Place]:
    with _place(tmp_path, monkeypatch, ["--node_timeout_ms=5000"], ["--hot=0", "--lease_ahead=64KiB"]) as made:
        yield made


@pytest.fixture
def place_by_default(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Place]:
    """Servers are told where they are, and how much room there is, and nothing else. An epoch takes half a minute:
    between two nobody reads for a moment, and what comes in then is lost."""
    with _place(tmp_path, monkeypatch, [], [], 5 * SHARDS) as made:
        yield made


@contextmanager
def _place(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    coordinator_flags: list[str],
    node_flags: list[str],
    shards: int = SHARDS,
) -> Iterator[Place]:
    with EmulatedStore.start() as store:
        store.make_bucket("bucket")
        rotating.write(tmp_path / "data", shards)
        for path in (tmp_path / "data").iterdir():
            store.put("bucket", path.name, path.read_bytes())
        monkeypatch.setenv("STORAGE_EMULATOR_HOST", store.url)
        arguments = ["--port=0", f"--work_dir={tmp_path / 'coordinator'}", *coordinator_flags]
        coordinator = Server("tfquiver.service.coordinator.main", arguments, tmp_path / "coordinator.log").start()
        flags = [
            f"--cache_dir={tmp_path / 'cache'}", f"--quota={SHARDS // 5 * ENTRY_BYTES}",
            f"--coordinator={coordinator.address}", *node_flags,
        ]  # fmt: skip
        node = Server("tfquiver.service.node.main", flags, tmp_path / "node.log").start()
        try:
            client = GcsStore()  # not that of this process, which may have met another emulator
            dataset = node_calls.ensure(node.ready["control"], "gs://bucket/part-*", ONE_RECORD, lambda _: client)
            client.close()
            made = Place(coordinator, node, store, dataset)
            yield made
            made.stop()
        finally:
            codes = [server.stop() for server in (node, coordinator)]
    assert set(codes) <= {0, -signal.SIGKILL}


def test_a_job_keeps_to_its_rate_also_after_the_coordinator_was_killed(place: Place) -> None:
    rotating.set_cache(place.coordinator.address, place.dataset, "none")
    place.limit("job", f"{RATE}")
    place.start("job")
    time.sleep(1)
    assert place.keeps_to(RATE)
    place.coordinator.kill()
    place.coordinator.restart()
    wait_until(lambda: place.told()["job"]["used_bytes_per_s"] > 0.5 * RATE, "it reads on", 30)
    assert place.keeps_to(RATE)
    place.limit("job", "none")
    assert not place.told()
    assert place.left_store_per_s(3) > 2 * RATE


def test_what_one_job_leaves_unused_is_lent_to_the_other(place: Place) -> None:
    rotating.set_cache(place.coordinator.address, place.dataset, "none")
    for job in ("idle", "hungry"):
        place.limit(job, f"{RATE}")
    place.start("idle", step_s=0.5)
    place.start("hungry")
    wait_until(lambda: place.told()["hungry"]["effective_bytes_per_s"] >= 1.7 * RATE, "the idle one lends")
    assert place.keeps_to((1 + 7 / 8) * RATE + 2 * rotating.RECORD_BYTES), (
        "its own, what is lent, and what the other reads"
    )


def test_rates_are_kept_and_lent_with_the_flags_that_servers_have_by_default(place_by_default: Place) -> None:
    place = place_by_default
    rotating.set_cache(place.coordinator.address, place.dataset, "none")
    for job in ("idle", "hungry"):
        place.limit(job, f"{RATE}")
    hungry = place.start("hungry")
    wait_until(lambda: place.told()["hungry"]["used_bytes_per_s"] > 0.5 * RATE, "it reads", 30)
    assert place.keeps_to(RATE), "nobody lends who does not read"
    place.start("idle", step_s=0.5)
    wait_until(lambda: place.told()["hungry"]["effective_bytes_per_s"] >= 1.7 * RATE, "the idle one lends")
    lent = (1 + 7 / 8) * RATE

    def read_per_s() -> float:
        before, began = hungry.shards, time.monotonic()
        time.sleep(MEASURED_S)
        return (hungry.shards - before) * rotating.RECORD_BYTES / (time.monotonic() - began)

    assert any(read_per_s() == pytest.approx(lent, rel=0.05) for _ in range(4)), "as in `keeps_to`: the machine is busy"
    place.limit("hungry", f"{2 * RATE}")
    wait_until(lambda: place.told()["hungry"]["effective_bytes_per_s"] >= 2.7 * RATE, "and lends on")


def test_the_store_works_while_a_job_computes_on_what_is_cached(place: Place) -> None:
    """SiloD, equation 4: an epoch takes what its missing part takes at the rate, where computing takes less."""
    rotating.set_cache(place.coordinator.address, place.dataset, "uniform")
    place.limit("job", f"{RATE}")
    ends: list[float] = []
    job = Job(place.node.ready["socket"], place.dataset, "job", 3, 0.015, lambda _: ends.append(time.monotonic()))
    job.start()
    job.finish()
    missing = SHARDS - node_calls.status(place.node.ready["control"]).entries
    assert missing > SHARDS / 2
    fastest_s = min(ends[1] - ends[0], ends[2] - ends[1])
    assert fastest_s == pytest.approx(missing * rotating.RECORD_BYTES / RATE, rel=0.08)


def test_jobs_of_one_cooperative_data_set_pay_for_what_they_share(place: Place) -> None:
    """What the store gives is what they have together, though both are given all of it."""
    rotating.set_cache(place.coordinator.address, place.dataset, "cooperative")
    jobs = [place.start(name) for name in ("one", "two")]
    place.limit("one", f"{RATE / 2:.0f}")
    place.limit("two", f"{RATE / 2:.0f}")
    wait_until(lambda: place.left_store_per_s(1.0) <= 1.1 * RATE, "nodes have been told")
    shards, before = sum(job.shards for job in jobs), place.store.traffic().payload_bytes
    assert place.keeps_to(RATE)
    read_bytes = (sum(job.shards for job in jobs) - shards) * rotating.RECORD_BYTES
    assert read_bytes > 1.7 * (place.store.traffic().payload_bytes - before), "each of them is given all of it"


@contextmanager
def coordinator_in_this_process(work_dir: Path) -> Iterator[tuple[CoordinatorServer, str, Callable[..., None]]]:
    """It, its address, and what has something called on its loop."""
    loop, server = asyncio.new_event_loop(), CoordinatorServer()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()

    def on_loop(call: Callable[..., object], *arguments: object) -> None:
        done: Future[None] = Future()
        loop.call_soon_threadsafe(lambda: (call(*arguments), done.set_result(None)))
        done.result(10)

    asyncio.run_coroutine_threadsafe(server.start(work_dir, "localhost:0"), loop).result(20)
    try:
        yield server, f"localhost:{server.bound_port}", on_loop
    finally:
        asyncio.run_coroutine_threadsafe(server.stop(), loop).result(20)
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


def test_a_job_that_is_probed_reads_everything_from_the_store_and_others_nothing(tmp_path: Path) -> None:
    rotating.write(tmp_path / "data", SHARDS)
    with coordinator_in_this_process(tmp_path / "coordinator") as (server, address, on_loop):
        flags = [f"--cache_dir={tmp_path / 'cache'}", f"--quota={2 * SHARDS * ENTRY_BYTES}", f"--coordinator={address}"]
        node = Server("tfquiver.service.node.main", flags, tmp_path / "node.log").start()
        try:
            dataset = node_calls.ensure(node.ready["control"], tmp_path / "data" / "part-*", ONE_RECORD)
            control, coordinator = node.ready["control"], server._coordinator
            assert coordinator
            wait_until(lambda: node_calls.status(control).entries == SHARDS, "all of it is cached")

            def epoch(*names: str) -> tuple[int, int]:
                before = node_calls.status(control)
                jobs = [Job(node.ready["socket"], dataset, name, 1) for name in names]
                for job in jobs:
                    job.start()
                assert all(sum(job.finish()[0].values()) == SHARDS for job in jobs)
                after = node_calls.status(control)
                return after.store_bytes - before.store_bytes, after.bypasses - before.bypasses

            assert epoch("warm") == (0, 0)
            on_loop(coordinator.probed.add, ("probed", dataset.digest_id))
            assert epoch("probed", "other") == (dataset.size_bytes, SHARDS)
            on_loop(coordinator.probed.clear)
            assert epoch("probed", "other") == (0, 0)
            assert node_calls.status(control).entries == SHARDS
        finally:
            assert node.stop() == 0
