"""As test_alerts_fire.py, for what goes wrong where jobs read: a peer, a disk, the store, a limit, a server's call."""

from __future__ import annotations

import itertools
import shutil
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import grpc
import pytest

import tfquiver
from tests.support import node_calls, numbered, rotating
from tests.support.alert_world import CUT, AlertWorld, damage_entries
from tests.support.cluster import wait_until
from tests.support.disks import tmpfs
from tests.support.gcs_emulator import GcsEmulator, gcs_emulator
from tests.support.privileges import needs_mounts
from tests.support.prometheus_server import Prometheus
from tests.support.promtool import needs_prometheus
from tfquiver.grpc_plumbing import rpc
from tfquiver.proto.tfquiver.v1 import coordinator_pb2 as pb
from tfquiver.proto.tfquiver.v1 import coordinator_pb2_grpc, types_pb2
from tfquiver.stores.gcs import GcsStore

pytestmark = [needs_prometheus, needs_mounts, pytest.mark.long]
WINDOW = "15s"
SLOW_S = 6.0
STARVING_BYTES_PER_S = 400_000
CAUSES = {
    "TfquiverPeerMismatches", "TfquiverDiskRefuses", "TfquiverStoreSlow", "TfquiverJobStarved", "TfquiverCallsFail",
}  # fmt: skip


class World(AlertWorld):
    """Two nodes, and one on a disk that can be filled; a store that can become slow; a coordinator whose Python finds
    packages of others."""

    def __init__(self, base: Path, small_disk: Path, store: GcsEmulator) -> None:
        super().__init__(base)
        self.small_disk, self._store = small_disk, store
        self.fast = threading.Event()
        self.packages = base / "packages"
        self.packages.mkdir()

    def start(self) -> None:
        env = {"STORAGE_EMULATOR_HOST": self._store.address}
        self.decides = self.coordinator(self.base / "work", {"PYTHONPATH": str(self.packages)})
        self.one = self.node("one", self.base / "one", "1GiB", env)
        self.two = self.node("two", self.base / "two", "1GiB", env)
        self.small = self.node("small", self.small_disk / "cache", "1GiB", env)
        self.await_ready()

    def upload(self, name: str) -> types_pb2.Dataset:
        """A data set of the store, of which nothing is cached."""
        rotating.write(self.base / name, 8, seed=7)
        store = GcsStore({"endpoint": self._store.address})
        try:
            for path in (self.base / name).iterdir():
                store._client.bucket("bucket").blob(f"{name}/{path.name}").upload_from_filename(path)
            found = node_calls.ensure(self.one.ready["control"], f"gs://bucket/{name}/*", CUT, lambda _: store)
        finally:
            store.close()
        rotating.set_cache(self.decides.address, found, "none")
        return found

    def slow_down(self) -> None:
        """Each download takes `SLOW_S` longer, until `fast` is set."""
        self._store.weather = lambda: lambda _handler: self.fast.wait(SLOW_S) and False

    def call(self, method: str, request: Any) -> Any:
        with rpc.channel(self.decides.address) as channel:
            stub: Any = coordinator_pb2_grpc.CoordinatorStub(channel)
            return getattr(stub, method)(request, timeout=20)

    def limit(self, job: str, bytes_per_s: float) -> None:
        """Of what it reads from the store; 0: no limit."""
        self.call("AllocateRemoteIO", pb.AllocateRemoteIORequest(job=job, bytes_per_s=bytes_per_s))

    def fail_once(self) -> None:
        """A call that looks for policies among packages of which one is damaged."""
        damaged = self.packages / "theirs-1.0.dist-info"
        damaged.mkdir()
        (damaged / "METADATA").write_text("Metadata-Version: 2.1\nName: theirs\nVersion: 1.0\n")
        (damaged / "entry_points.txt").write_text("[tfquiver.policies]\nno entry point\n")
        with pytest.raises(grpc.RpcError) as failure:
            self.call("SetPolicy", pb.SetPolicyRequest(policy="theirs"))
        assert failure.value.code() is grpc.StatusCode.INTERNAL, failure.value


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    with ExitStack() as stack:
        store = stack.enter_context(gcs_emulator())
        small_disk = stack.enter_context(tmpfs(tmp_path / "small", 64 << 20, files=4000))
        world = World(tmp_path, small_disk, store)
        stack.callback(world.close)
        stack.callback(world.fast.set)
        world.start()
        yield world


class Job:
    """Training of a data set that is not cached, with a batch in a twentieth of a second where it gets them."""

    def __init__(self, world: World) -> None:
        paths = numbered.write(world.base / "numbered", files=4, records_a_file=1000, record_bytes=2048)
        found = node_calls.ensure(world.one.ready["control"], world.base / "numbered" / "*")
        rotating.set_cache(world.decides.address, found, "none")
        self._data = tfquiver.dataset(
            paths, service=world.decides.address, cache_dir=world.base / "one", batch_size=100, job="starved"
        )
        self._enough, self._pool = threading.Event(), ThreadPoolExecutor(1)
        self._running = self._pool.submit(self._run)

    def _run(self) -> None:
        for _ in self._data.repeat():
            if self._enough.wait(0.05):
                return

    def end(self) -> None:
        self._enough.set()
        self._running.result(60)
        self._pool.shutdown()


def fill(disk: Path) -> Path:
    """Somebody's files, as many as there may be."""
    others = disk / "others"
    others.mkdir()
    with pytest.raises(OSError, match="No space"):
        for number in itertools.count():
            (others / str(number)).touch()
    return others


@pytest.mark.timeout(280)
def test_alerts_of_reading_fire_when_there_is_a_cause_and_end_with_it(world: World, tmp_path: Path) -> None:
    world.read(world.one, "data")
    far = world.upload("far")
    prometheus = Prometheus(tmp_path / "prometheus", world.targets, WINDOW)
    try:
        wait_until(lambda: prometheus.values("sum(up)") == [4.0], "all are scraped", 60)
        wait_until(lambda: bool(prometheus.values("sum(tfquiver_node_peer_mismatches_total) == 0")), "and counted", 60)
        assert not CAUSES & prometheus.fired()

        world.limit("starved", STARVING_BYTES_PER_S)
        job = Job(world)
        try:
            others = fill(world.small_disk)
            damage_entries(tmp_path / "one")
            world.read(world.two, "data")
            world.read(world.small, "new")
            world.fail_once()
            world.slow_down()
            world.read_all(world.one, far)
            wait_until(lambda: prometheus.fired() >= CAUSES, "all have fired", 90)
            assert "TfquiverJobStarved" in prometheus.firing(), "whose cause lasts"

            shutil.rmtree(others)
            world.fast.set()
            world.limit("starved", 0)
            wait_until(lambda: not CAUSES & prometheus.firing(), "all are over", 90)
        finally:
            world.limit("starved", 0)
            job.end()
    finally:
        prometheus.close()
