"""A node that is lost counts for alerts; neither a spot node does, nor one that is said to be gone for good."""

from __future__ import annotations

import asyncio
import errno
import os
import shutil
import threading
from concurrent import futures
from pathlib import Path

import grpc
import pytest

from tests.support.aio import on_loop
from tests.support.coordinator_here import beat, started
from tfquiver import errors
from tfquiver.cli.main import main
from tfquiver.clock import ManualClock
from tfquiver.proto.tfquiver.v1 import coordinator_pb2 as pb
from tfquiver.proto.tfquiver.v1 import coordinator_pb2_grpc
from tfquiver.proto.tfquiver.v1.coordinator_pb2 import DispatcherInfo
from tfquiver.service.coordinator.coordinator import Coordinator
from tfquiver.service.coordinator.grpc_calls.servicer import CoordinatorServicer
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


@on_loop
@pytest.mark.parametrize("leaves", [False, True])
async def test_it_is_durable_too_where_the_disk_has_room_again_just_then(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, leaves: bool
) -> None:
    """What is held while the log cannot be written was held still, for up to a second after the answer."""
    clock, sync, loop = ManualClock(), os.fdatasync, asyncio.get_running_loop()
    began, go_on, full = asyncio.Event(), threading.Event(), True

    def held(file: int) -> None:
        if full:
            raise OSError(errno.ENOSPC, "no room")
        loop.call_soon_threadsafe(began.set)
        assert go_on.wait(10)
        sync(file)

    async with started(tmp_path / "first", clock=clock) as coordinator, asyncio.timeout(20):
        beat(coordinator, "a")
        if not leaves:
            clock.advance(TIMEOUT_S)
            beat(coordinator)
            coordinator.membership.expire()
        await coordinator.allocate_remote_io("job", 1.0)
        monkeypatch.setattr(os, "fdatasync", held)
        with pytest.raises(errors.UnavailableError, match="no room"):
            await coordinator.allocate_remote_io("job", 2.0)
        full = False
        another = asyncio.create_task(coordinator.allocate_remote_io("job", 3.0))
        await began.wait()
        forgets = coordinator.leave("a", "1") if leaves else coordinator.forget(["a"], [], all_lost=False)
        said = asyncio.create_task(forgets)
        await asyncio.sleep(0)
        go_on.set()
        await said
        shutil.copytree(tmp_path / "first", tmp_path / "second")
        await another
    async with started(tmp_path / "second", clock=clock) as coordinator:
        clock.advance(TIMEOUT_S)
        beat(coordinator)
        coordinator.membership.expire()
        assert await counted(coordinator) == (0, 0, 0)


@on_loop
async def test_that_a_dispatcher_leaves_is_durable_before_the_answer(tmp_path: Path) -> None:
    """A coordinator that was killed just then was followed by one that missed it for a day."""
    clock = ManualClock()
    async with started(tmp_path / "first", clock=clock) as coordinator, asyncio.timeout(20):
        coordinator.dispatchers.report(DispatcherInfo(address="d:1"))
        await coordinator.allocate_remote_io("job", 1.0)
        leaves = pb.ReportDispatcherRequest(dispatcher=DispatcherInfo(address="d:1"), leaves=True)
        await CoordinatorServicer(coordinator).ReportDispatcher(leaves, None)
        shutil.copytree(tmp_path / "first", tmp_path / "second")
    async with started(tmp_path / "second", clock=clock) as coordinator:
        clock.advance(TIMEOUT_S)
        beat(coordinator)
        assert await counted(coordinator) == (0, 0, 0)


@on_loop
async def test_a_dispatcher_that_leaves_is_not_missed_here_though_the_log_cannot_be_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(file: int) -> None:
        raise OSError(errno.EIO, "this disk is gone")

    clock = ManualClock()
    async with started(tmp_path, clock=clock) as coordinator, asyncio.timeout(20):
        coordinator.dispatchers.report(DispatcherInfo(address="d:1"))
        await coordinator.allocate_remote_io("job", 1.0)
        with monkeypatch.context() as patch:
            patch.setattr(os, "fdatasync", fails)
            with pytest.raises(errors.UnavailableError, match="this disk is gone"):
                await coordinator.dispatcher_leaves("d:1", "")
        clock.advance(TIMEOUT_S)
        beat(coordinator)
        assert await counted(coordinator) == (0, 0, 0)


class Aborted(Exception):
    pass


class Context:
    async def abort(self, code: grpc.StatusCode, details: str) -> None:
        raise Aborted(f"{code.name}: {details}")


@on_loop
@pytest.mark.parametrize("request_", [
    pb.ForgetRequest(node_ids=["n" * 10_000]), pb.ForgetRequest(dispatchers=["a", "d" * 10_000]),
    pb.ForgetRequest(node_ids=["a"] * 5_001, dispatchers=["d:1"] * 5_000), pb.ForgetRequest(node_ids=[""]),
], ids=["long node", "long dispatcher", "many", "none"])  # fmt: skip
async def test_whatever_is_to_be_forgotten_is_bounded(tmp_path: Path, request_: pb.ForgetRequest) -> None:
    async with started(tmp_path) as coordinator:
        with pytest.raises(Aborted, match=r"INVALID_ARGUMENT: (node_ids|dispatchers)"):
            await CoordinatorServicer(coordinator).Forget(request_, Context())


def test_a_coordinator_that_is_older_than_the_command_is_told_of(capsys: pytest.CaptureFixture[str]) -> None:
    class Older(coordinator_pb2_grpc.CoordinatorServicer):
        def ListNodes(self, request: pb.ListNodesRequest, context: object) -> pb.ListNodesReply:
            return pb.ListNodesReply()

    with futures.ThreadPoolExecutor(2) as pool:
        server = grpc.server(pool)
        coordinator_pb2_grpc.add_CoordinatorServicer_to_server(Older(), server)
        address = f"localhost:{server.add_insecure_port('localhost:0')}"
        server.start()
        try:
            assert main(["forget", "--all_lost", "--service", address]) == 1
        finally:
            server.stop(None).wait()
    assert f"coordinator {address} is older than this command: lost nodes are forgotten " in capsys.readouterr().err
