"""As test_alerts_fire.py, for disks that do not answer: a node's, and that of the commit log."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.support.alert_world import AlertWorld
from tests.support.cluster import wait_until
from tests.support.disks import Disk, ext4
from tests.support.privileges import needs_disks
from tests.support.prometheus_server import Prometheus
from tests.support.promtool import needs_prometheus
from tfquiver.grpc_plumbing import rpc
from tfquiver.proto.tfquiver.v1 import coordinator_pb2, coordinator_pb2_grpc, node_pb2, node_pb2_grpc

pytestmark = [needs_prometheus, needs_disks, pytest.mark.long]
CAUSES = {"TfquiverCommitLogStuck", "TfquiverDiskHangs"}


@pytest.fixture
def disks(tmp_path: Path) -> Iterator[tuple[Disk, Disk]]:
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    with ExitStack() as stack:
        yield stack.enter_context(ext4(tmp_path / "a", 128 << 20)), stack.enter_context(ext4(tmp_path / "b", 128 << 20))


@pytest.mark.timeout(200)
def test_disks_that_do_not_answer_are_told_of_until_they_do(tmp_path: Path, disks: tuple[Disk, Disk]) -> None:
    world = AlertWorld(tmp_path)
    prometheus: Prometheus | None = None
    try:
        coordinator = world.coordinator(disks[0].path / "work")
        node = world.node("node", disks[1].path / "cache", "64MiB")
        world.await_ready()
        world.read(node, "data")
        prometheus = Prometheus(tmp_path / "prometheus", world.targets, "15s")
        wait_until(lambda: prometheus.values("sum(up)") == [2.0], "both are scraped", 60)
        assert not CAUSES & prometheus.fired()
        with ExitStack() as channels:
            decides: Any = coordinator_pb2_grpc.CoordinatorStub(
                channels.enter_context(rpc.channel(coordinator.address))
            )
            keeps: Any = node_pb2_grpc.NodeStub(channels.enter_context(rpc.channel(node.ready["control"])))
            for disk in disks:
                disk.freeze()
            try:
                waiting = [
                    decides.AllocateRemoteIO.future(
                        coordinator_pb2.AllocateRemoteIORequest(job="j", bytes_per_s=1000), timeout=90
                    ),
                    keeps.Clear.future(node_pb2.ClearRequest(), timeout=90),
                ]
                wait_until(lambda: prometheus.firing() >= CAUSES, "both fire", 60)
            finally:
                for disk in disks:
                    disk.thaw()
            for one in waiting:
                one.result()
        wait_until(lambda: not CAUSES & prometheus.firing(), "both are over", 60)
        assert prometheus.values("sum(up)") == [2.0], "and are asked for still"
    finally:
        if prometheus is not None:
            prometheus.close()
        world.close()
