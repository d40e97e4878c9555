"""A node that is lost counts for alerts; neither a spot node does, nor one that is said to be gone for good.

Of a coordinator without a port.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.aio import on_loop
from tests.support.coordinator_here import beat, started
from tfquiver import errors
from tfquiver.clock import ManualClock
from tfquiver.proto.tfquiver.v1 import coordinator_pb2 as pb
from tfquiver.proto.tfquiver.v1.coordinator_pb2 import DispatcherInfo
from tfquiver.service.coordinator.coordinator import Coordinator
from tfquiver.service.metrics import coordinator_metrics

TIMEOUT_S = 10.0


async def counted(coordinator: Coordinator) -> tuple[float, float, float]:
    """Lost nodes, lost spot nodes, lost dispatchers, as Prometheus is told."""
    found = {family.name: family async for family in coordinator_metrics.families(coordinator)}
    names = ("lost_nodes", "lost_spot_nodes", "lost_dispatchers")
    nodes, spot, dispatchers = (found[f"tfquiver_coordinator_{name}"].samples[0].value for name in names)
    return nodes, spot, dispatchers


def beat_as_spot(coordinator: Coordinator, node: str) -> None:
    request = pb.HeartbeatRequest(incarnation="1", inventory=pb.Inventory(full=True, version=1))
    request.node.node_id, request.node.quota_bytes = node, 1 << 30
    request.node.labels["lifecycle"] = "spot"
    coordinator.heartbeats.take(request)


@on_loop
async def test_spot_nodes_count_apart_also_after_a_restart(tmp_path: Path) -> None:
    clock = ManualClock()
    async with started(tmp_path, clock=clock) as coordinator:
        beat_as_spot(coordinator, "spot")
        clock.advance(TIMEOUT_S)
        beat(coordinator)
        coordinator.membership.expire()
        assert await counted(coordinator) == (0, 1, 0)
        beat(coordinator, "other")
        clock.advance(TIMEOUT_S)
        coordinator.membership.expire()
        assert await counted(coordinator) == (2, 1, 0), "`n` and `other`"
    async with started(tmp_path, clock=clock) as coordinator:
        assert await counted(coordinator) == (1, 1, 0), "`n` is back"


@on_loop
async def test_what_is_forgotten_is_durable_before_the_answer(tmp_path: Path) -> None:
    clock = ManualClock()
    async with started(tmp_path, clock=clock) as coordinator:
        for node in ("a", "b"):
            beat(coordinator, node)
        coordinator.dispatchers.report(DispatcherInfo(address="d:1"))
        clock.advance(TIMEOUT_S)
        beat(coordinator)
        coordinator.membership.expire()
        assert await counted(coordinator) == (2, 0, 1)
        with pytest.raises(errors.InUseError, match="node n is heard of"):
            await coordinator.forget(["n", "a"], ["d:1"], all_lost=False)
        coordinator.dispatchers.report(DispatcherInfo(address="lives:1"))
        with pytest.raises(errors.InUseError, match="dispatcher lives:1 tells of itself"):
            await coordinator.forget(["a"], ["lives:1"], all_lost=True)
        assert await counted(coordinator) == (2, 0, 1), "none is forgotten"
        assert await coordinator.forget(["a"], [], all_lost=False) == (["a"], [])
        log = (tmp_path / "work" / "commit.log").read_bytes()
        assert await coordinator.forget([], [], all_lost=True) == (["b"], ["d:1"])
        assert (tmp_path / "work" / "commit.log").stat().st_size > len(log)
        assert await coordinator.forget([], [], all_lost=True) == ([], [])
        assert await counted(coordinator) == (0, 0, 0)
