"""Shipped alerts on a running cluster, each with its real cause: it fires while that is there, and ends with it.

The rules are the shipped ones with other durations (tests/support/prometheus_server.py). Not here: TfquiverWorkerSilent
(test_prometheus.py has workers); TfquiverCallsFail, whose cause is a fault of a server; TfquiverPeerMismatches, whose
cause is a node that lies; TfquiverJobStarved and TfquiverStoreSlow, which take a store that stays slow for longer than
a test may. Those have Prometheus' own rule tester alone (tests/contract/test_alert_rules.py).
"""

from __future__ import annotations

import os
import re
import signal
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.support import node_calls, rotating
from tests.support.cluster import Server, wait_until
from tests.support.disks import Disk, ext4, tmpfs
from tests.support.privileges import needs_disks, needs_mounts
from tests.support.prometheus_server import CONFIGS, Prometheus, quick_rules
from tests.support.promtool import needs_prometheus
from tests.support.reader_client import ReaderClient
from tfquiver.proto.tfquiver.v1 import coordinator_pb2, coordinator_pb2_grpc
from tfquiver.scanning.cutting import CutPolicy
from tfquiver.wire import addresses, rpc

pytestmark = [needs_prometheus, needs_disks, needs_mounts]
WINDOW = "15s"
SHARDS = 40
CUT = CutPolicy(1, 1, 1)
# Not of TfquiverDiskRefuses: on a disk that is full the node often finds room for entries as small as these.
CAUSES = {"TfquiverServerDown", "TfquiverNodeLost", "TfquiverCommitLogSlow", "TfquiverCorruptEntries"}


class World:
    """A coordinator whose log is on a disk that can be frozen, a node, one on a small disk, and one that is killed."""

    def __init__(self, base: Path, log_disk: Disk, small_disk: Path) -> None:
        self._base, self.log_disk, self.small_disk = base, log_disk, small_disk
        self.servers: list[Server] = []
        work_dir = f"--work_dir={log_disk.path / 'work'}"
        self.coordinator = self._server("coordinator", "coordinator", work_dir, "--node_timeout_ms=3000")
        self.node = self._node("node", base / "cache", "1GiB")
        self.small = self._node("small", small_disk / "cache", "1GiB")
        self.killed = self._node("killed", base / "killed", "64MiB")

    def _server(self, kind: str, name: str, *flags: str) -> Server:
        metrics = f"--metrics_address=127.0.0.1:{addresses.free_port(['127.0.0.1'])}"  # the same when it comes again
        module, log = f"tfquiver.service.{kind}.main", self._base / f"{name}.log"
        server = Server(module, ["--port=0", metrics, *flags], log)
        self.servers.append(server)
        return server.start()

    def _node(self, name: str, cache_dir: Path, quota: str) -> Server:
        where = f"--coordinator={self.coordinator.address}"
        return self._server("node", name, f"--cache_dir={cache_dir}", f"--quota={quota}", where)

    def read(self, node: Server, name: str) -> None:
        """An epoch of a data set that is scanned there first."""
        if not (self._base / name).exists():
            rotating.write(self._base / name, SHARDS)
        dataset = node_calls.ensure(node.ready["control"], self._base / name / "part-*", CUT)
        client = ReaderClient(node.ready["socket"], dataset.digest_id)
        assert len(list(client.records())) == SHARDS
        client.close()


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    with ExitStack() as stack:
        log_disk = stack.enter_context(ext4(tmp_path, 128 << 20))
        small_disk = stack.enter_context(tmpfs(tmp_path / "small", 16 << 20))
        made: list[World] = []
        stack.callback(lambda: [server.kill() for one in made for server in reversed(one.servers)])
        made.append(World(tmp_path, log_disk, small_disk))
        yield made[0]


def decide_on_a_frozen_disk(world: World) -> None:
    """The disk of the commit log answers a second and a half late."""
    request = coordinator_pb2.AllocateRemoteIORequest(job="j", bytes_per_s=1000)
    with ThreadPoolExecutor(1) as pool, rpc.channel(world.coordinator.address) as channel:
        stub: Any = coordinator_pb2_grpc.CoordinatorStub(channel)
        world.log_disk.freeze()
        try:
            waiting = pool.submit(stub.AllocateRemoteIO, request, timeout=30)
            threading.Event().wait(1.5)
            assert not waiting.done()
        finally:
            world.log_disk.thaw()
        waiting.result()


def damage_entries(node: Server, cache_dir: Path) -> None:
    """A byte of each, while the node is not there to see it."""
    assert node.stop(30) == 0
    entries = [path for path in (cache_dir / "objects").rglob("*") if path.is_file()]
    assert entries
    for path in entries:
        path.chmod(0o600)
        with path.open("r+b") as file:
            file.seek(-1, os.SEEK_END)
            last = file.read(1)
            file.seek(-1, os.SEEK_END)
            file.write(bytes([last[0] ^ 1]))
    node.restart()


@pytest.mark.timeout(280)
def test_alerts_fire_when_there_is_a_cause_and_end_with_it(world: World, tmp_path: Path) -> None:
    world.read(world.node, "data")
    damage_entries(world.node, tmp_path / "cache")
    prometheus = Prometheus(tmp_path / "prometheus", [one.ready["metrics"] for one in world.servers], WINDOW)
    try:
        wait_until(lambda: prometheus.values("sum(up)") == [4.0], "all are scraped", 60)
        wait_until(lambda: bool(prometheus.values("sum(tfquiver_node_corrupt_entries_total) == 0")), "and counted", 60)
        assert not CAUSES & prometheus.fired()

        world.killed.kill()
        world.read(world.node, "data")
        with (world.small_disk / "others").open("wb", buffering=0) as others, pytest.raises(OSError, match="No space"):
            while True:
                others.write(bytes(64 << 10))
        world.read(world.small, "new")
        decide_on_a_frozen_disk(world)
        wait_until(lambda: prometheus.fired() >= CAUSES, "all have fired", 150)
        assert {"TfquiverServerDown", "TfquiverNodeLost"} <= prometheus.firing(), "whose cause lasts"

        world.killed.restart()
        (world.small_disk / "others").unlink()
        wait_until(lambda: not CAUSES & prometheus.firing(), "all are over", 90)
        assert prometheus.values("sum(up)") == [4.0], "and are asked for still"
    finally:
        prometheus.close()


@pytest.mark.timeout(120)
def test_a_server_that_gets_no_processor_time_is_told_of(tmp_path: Path) -> None:
    flags = ["--port=0", f"--work_dir={tmp_path / 'work'}", "--metrics_address=localhost:0"]
    server = Server("tfquiver.service.coordinator.main", flags, tmp_path / "log").start()
    prometheus = Prometheus(tmp_path / "prometheus", [server.ready["metrics"]], WINDOW)
    try:
        wait_until(lambda: prometheus.values("sum(up)") == [1.0], "it is scraped", 60)

        def held_up() -> bool:
            """Another half of a second."""
            os.kill(server.process.pid, signal.SIGSTOP)
            threading.Event().wait(0.5)
            os.kill(server.process.pid, signal.SIGCONT)
            return "TfquiverLoopLate" in prometheus.fired()

        wait_until(held_up, "it has fired", 60, every_s=0.1)
        # Whether it ends is up to the machine that runs this: one that is busy holds servers up by itself.
    finally:
        prometheus.close()
        server.kill()


def test_the_rules_that_are_run_differ_from_those_shipped_in_durations_alone() -> None:
    shipped, run = (CONFIGS / "alerts.yml").read_text().splitlines(), quick_rules(WINDOW).splitlines()
    assert len(shipped) == len(run)
    for was, becomes in zip(shipped, run, strict=True):
        durations = re.compile(r"(for: |\[)\w+")
        assert durations.sub("", was) == durations.sub("", becomes)
    assert sum(was != becomes for was, becomes in zip(shipped, run, strict=True)) >= len(CAUSES)
