"""Shipped alerts on a running cluster, each with its real cause: it fires while that is there, and ends with it.

The rules are the shipped ones with other durations (tests/support/prometheus_server.py). Those of reading are in
test_alerts_of_reading.py, of hanging disks in test_alerts_of_disks.py, TfquiverWorkerSilent and
TfquiverDispatcherLost in test_prometheus.py, which has both.
"""

from __future__ import annotations

import contextlib
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

from tests.support.alert_world import AlertWorld, damage_entries
from tests.support.cluster import Server, wait_until
from tests.support.disks import Disk, ext4
from tests.support.privileges import needs_disks
from tests.support.prometheus_server import CONFIGS, Prometheus, quick_rules
from tests.support.promtool import needs_prometheus
from tfquiver.grpc_plumbing import rpc
from tfquiver.proto.tfquiver.v1 import coordinator_pb2, coordinator_pb2_grpc

pytestmark = [needs_prometheus, needs_disks]
WINDOW = "15s"
CAUSES = {"TfquiverServerDown", "TfquiverNodeLost", "TfquiverCommitLogSlow", "TfquiverCorruptEntries"}


class World(AlertWorld):
    """A coordinator whose log is on a disk that can be frozen, a node, and one that is killed."""

    def __init__(self, base: Path, log_disk: Disk) -> None:
        super().__init__(base)
        self.log_disk = log_disk

    def start(self) -> None:
        self.decides = self.coordinator(self.log_disk.path / "work")
        self.reads = self.node("node", self.base / "cache", "1GiB")
        self.killed = self.node("killed", self.base / "killed", "64MiB")
        self.await_ready()


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    with ExitStack() as stack:
        log_disk = stack.enter_context(ext4(tmp_path, 128 << 20))
        world = World(tmp_path, log_disk)
        stack.callback(world.close)
        world.start()
        yield world


def decide_on_a_frozen_disk(world: World) -> None:
    """The disk of the commit log answers a second and a half late."""
    request = coordinator_pb2.AllocateRemoteIORequest(job="j", bytes_per_s=1000)
    with ThreadPoolExecutor(1) as pool, rpc.channel(world.decides.address) as channel:
        stub: Any = coordinator_pb2_grpc.CoordinatorStub(channel)
        world.log_disk.freeze()
        try:
            waiting = pool.submit(stub.AllocateRemoteIO, request, timeout=30)
            threading.Event().wait(1.5)
            assert not waiting.done()
        finally:
            world.log_disk.thaw()
        waiting.result()


@pytest.mark.long
@pytest.mark.timeout(280)
def test_alerts_fire_when_there_is_a_cause_and_end_with_it(world: World, tmp_path: Path) -> None:
    world.read(world.reads, "data")
    assert world.reads.stop(30) == 0
    damage_entries(tmp_path / "cache")  # while nobody is there to see it
    world.reads.restart()
    prometheus = Prometheus(tmp_path / "prometheus", world.targets, WINDOW)
    try:
        wait_until(lambda: prometheus.values("sum(up)") == [3.0], "all are scraped", 60)
        wait_until(lambda: bool(prometheus.values("sum(tfquiver_node_corrupt_entries_total) == 0")), "and counted", 60)
        assert not CAUSES & prometheus.fired()

        world.killed.kill()
        world.read(world.reads, "data")
        decide_on_a_frozen_disk(world)
        wait_until(lambda: prometheus.fired() >= CAUSES, "all have fired", 150)
        assert {"TfquiverServerDown", "TfquiverNodeLost"} <= prometheus.firing(), "whose cause lasts"

        world.killed.restart()
        wait_until(lambda: not CAUSES & prometheus.firing(), "all are over", 90)
        assert prometheus.values("sum(up)") == [3.0], "and are asked for still"
    finally:
        prometheus.close()


@pytest.mark.long
@pytest.mark.timeout(280)
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
        with contextlib.suppress(PermissionError):  # a machine that is busy holds it up by itself
            os.setpriority(os.PRIO_PROCESS, server.process.pid, -20)
        wait_until(lambda: "TfquiverLoopLate" not in prometheus.firing(), "it is over", 150)
        assert prometheus.values("sum(up)") == [1.0], "and is asked for still"
    finally:
        prometheus.close()
        server.kill()


def test_the_rules_that_are_run_differ_from_those_shipped_in_durations_alone() -> None:
    shipped, run = (CONFIGS / "alerts.yml").read_text().splitlines(), quick_rules(WINDOW).splitlines()
    assert len(shipped) == len(run)
    for was, becomes in zip(shipped, run, strict=True):
        durations = re.compile(r"(for: |\[|offset )\w+")
        assert durations.sub("", was) == durations.sub("", becomes)
    assert sum(was != becomes for was, becomes in zip(shipped, run, strict=True)) >= len(CAUSES)
