"""A coordinator that comes to each call late gives up nobody who has sent: what nodes say lies unread meanwhile."""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import grpc
import pytest

from tests.support.aio import on_loop
from tfquiver.grpc_plumbing import rpc
from tfquiver.proto.tfquiver.v1 import coordinator_pb2 as pb
from tfquiver.proto.tfquiver.v1 import coordinator_pb2_grpc
from tfquiver.service.coordinator.coordinator import Coordinator
from tfquiver.service.coordinator.options import CoordinatorOptions
from tfquiver.service.coordinator.server import CoordinatorServer

NODES, TIMEOUT_S, TURN_S = 30, 1.0, 0.04


class Nodes:
    """Of older versions, which make each call by itself: the loop takes one of these in a turn. Each says a tenth of a
    second after it was answered that it lives."""

    def __init__(self, address: str) -> None:
        self._channel = rpc.channel(address)
        self._stub: Any = coordinator_pb2_grpc.CoordinatorStub(self._channel)
        self._stop, self.answered = threading.Event(), 0
        self._threads = [threading.Thread(target=self._beat_on, args=(f"node-{one}",)) for one in range(NODES)]
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        self._stop.set()
        self._channel.close()
        for thread in self._threads:
            thread.join()

    def _beat_on(self, node_id: str) -> None:
        request = pb.HeartbeatRequest(incarnation="1", inventory=pb.Inventory(full=True, version=1))
        request.node.node_id, request.node.quota_bytes = node_id, 1
        with contextlib.suppress(grpc.RpcError, ValueError):  # it is over
            while not self._stop.wait(0.1):
                self._stub.Heartbeat(request, timeout=60.0)
                self.answered += 1


@contextlib.asynccontextmanager
async def nodes_of(tmp_path: Path) -> AsyncIterator[tuple[Coordinator, Nodes]]:
    async with CoordinatorServer() as server:
        await server.start(tmp_path / "work", "localhost:0", options=CoordinatorOptions(node_timeout_s=TIMEOUT_S))
        nodes = Nodes(f"localhost:{server.bound_port}")
        try:
            while server.coordinator.membership.count < NODES:
                await asyncio.sleep(0.01)
            yield server.coordinator, nodes
        finally:
            await asyncio.to_thread(nodes.stop)


@pytest.mark.slow
@on_loop
async def test_nobody_is_lost_whose_signs_of_life_wait_for_their_turn(tmp_path: Path) -> None:
    """No turn of the loop is long, and so none is excused: but there are more calls than it comes to in time."""
    loop, is_late = asyncio.get_running_loop(), True

    def hold_up() -> None:
        if is_late:
            time.sleep(TURN_S)
            loop.call_soon(hold_up)

    async with asyncio.timeout(120), nodes_of(tmp_path) as (coordinator, nodes):
        hold_up()
        before, until_s = nodes.answered, loop.time() + 4 * TIMEOUT_S
        while nodes.answered < before + NODES or loop.time() < until_s:
            await asyncio.sleep(0)
            assert coordinator.membership.count == NODES, coordinator.membership.lost.told()
        is_late = False
        await asyncio.to_thread(nodes.stop)
        while coordinator.membership.count:  # who is silent indeed is found all the same
            await asyncio.sleep(0.05)


@on_loop
async def test_who_is_silent_is_found_though_the_own_calls_fail(tmp_path: Path) -> None:
    async def fails() -> None:
        raise RuntimeError("nobody thought of this")

    async with asyncio.timeout(60), nodes_of(tmp_path) as (coordinator, nodes):
        coordinator.caretaker.all_read = fails
        await asyncio.to_thread(nodes.stop)
        while coordinator.membership.count:
            await asyncio.sleep(0.05)
