"""A node's line to a real coordinator: whatever goes wrong on this side, heartbeats and orders go on."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.support.aio import on_loop
from tfquiver.proto.tfquiver.v1 import coordinator_pb2 as pb
from tfquiver.proto.tfquiver.v1 import types_pb2
from tfquiver.service.coordinator.server import CoordinatorServer
from tfquiver.service.node.coordinator import coordinator_link
from tfquiver.service.node.coordinator.coordinator_link import CoordinatorLink, CoordinatorPatience
from tfquiver.service.node.coordinator.inventory_reports import InventoryReports


class Listener:
    """What a node does with what comes; it fails as often as it is told to."""

    def __init__(self) -> None:
        self.failures = 1
        self.members = 0
        self.orders = asyncio.Event()

    def on_members(self) -> None:
        self.members += 1
        if self.members == 2:
            raise ZeroDivisionError("of members nobody has thought")

    def on_orders(self, orders: Sequence[pb.DatasetOrders]) -> None:
        if self.failures:
            self.failures -= 1
            raise ZeroDivisionError("of orders nobody has thought")
        self.orders.set()


@on_loop
async def test_errors_that_nobody_has_thought_of_end_neither_heartbeats_nor_orders(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(coordinator_link, "_ERROR_PAUSE_S", 0.05)
    server, listener = CoordinatorServer(), Listener()
    address = f"unix:{tmp_path}/socket"
    await server.start(tmp_path / "work", address)
    node = types_pb2.NodeInfo(node_id="n", quota_bytes=1 << 30)
    async with server, asyncio.timeout(10):
        link = CoordinatorLink(
            address, "", "1", lambda: node, CoordinatorPatience(), lambda: None, lambda _: None, listener.on_orders,
            listener.on_members,
        )  # fmt: skip
        link.inventory = InventoryReports(list, link.wake)
        await link.connect()
        await listener.orders.wait()
        while listener.members < 5:
            link.wake()
            await asyncio.sleep(0.01)
        assert [info.node_id for info in link.members()] == ["n"]
        node.data_address = "elsewhere:1"
        while [info.data_address for info in link.members()] != ["elsewhere:1"]:
            link.wake()
            await asyncio.sleep(0.01)
        await link.leave()
    for what in ("members", "orders"):
        assert f"of {what} nobody has thought" in caplog.text
    caplog.clear()
