"""A node's line to a real coordinator: whatever goes wrong on this side, heartbeats and orders go on."""

from __future__ import annotations

import asyncio
import itertools
import re
import time
from collections.abc import AsyncIterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import grpc
import pytest

import tfquiver.ops
from tests.support.aio import on_loop
from tests.support.streamed_coordinator import Coordinator as Streaming
from tests.support.streamed_coordinator import ack, calls_of
from tfquiver import errors
from tfquiver.grpc_plumbing import rpc
from tfquiver.proto.tfquiver.v1 import coordinator_pb2 as pb
from tfquiver.proto.tfquiver.v1 import coordinator_pb2_grpc, named_datasets_pb2, types_pb2
from tfquiver.roles_and_tokens.identity import Open
from tfquiver.service.coordinator.coordinator import Coordinator
from tfquiver.service.coordinator.grpc_calls.servicer import CoordinatorServicer
from tfquiver.service.coordinator.options import CoordinatorOptions
from tfquiver.service.coordinator.server import CoordinatorServer
from tfquiver.service.node.coordinator_link import coordinator_link
from tfquiver.service.node.coordinator_link.coordinator_calls import TICKET_DEADLINE_S
from tfquiver.service.node.coordinator_link.coordinator_link import CoordinatorLink, CoordinatorPatience
from tfquiver.service.node.coordinator_link.inventory_reports import InventoryReports


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


@on_loop
async def test_the_room_that_a_task_has_made_is_told_before_its_end(tmp_path: Path) -> None:
    """Who has waited for the end of an evict asks for that room next, and would be refused."""
    server, node = CoordinatorServer(), types_pb2.NodeInfo(node_id="n", quota_bytes=1 << 30, used_bytes=1000)
    address = f"unix:{tmp_path}/socket"
    await server.start(tmp_path / "work", address)
    async with server, asyncio.timeout(10):
        link = CoordinatorLink(address, "", "1", lambda: node, CoordinatorPatience(), lambda: None, lambda _: None)
        link.inventory = InventoryReports(list, link.wake)
        await link.connect()
        for used_bytes in range(900, 0, -100):
            node.used_bytes = used_bytes
            assert not await link.report_task(named_datasets_pb2.ReportTaskRequest(task_id="of nobody", over=True))
            assert [info.used_bytes for info in server.coordinator.membership.live()] == [used_bytes]
        await link.leave()


@on_loop
async def test_steady_news_of_a_scan_take_ten_heartbeats_a_second(tmp_path: Path) -> None:
    """A hundred were a third of what a scan of small files costs. Who waits for one does not wait longer for it."""
    server, node = CoordinatorServer(), types_pb2.NodeInfo(node_id="n", quota_bytes=1 << 30)
    address = f"unix:{tmp_path}/socket"
    await server.start(tmp_path / "work", address)
    async with server, asyncio.timeout(20):
        beaten, loop = list[float](), asyncio.get_running_loop()
        link = CoordinatorLink(
            address, "", "1", lambda: node, CoordinatorPatience(), lambda: None, lambda _: None,
            on_members=lambda: beaten.append(loop.time()),
        )  # fmt: skip
        link.inventory, link.scans = InventoryReports(list, link.wake), lambda: 1
        await link.connect()
        for number in range(1, 12):
            link.inventory.add(number.to_bytes(32, "big"))
            told = len(beaten)
            while len(beaten) == told:
                await asyncio.sleep(0.001)
        assert all(after - before > 0.09 for before, after in itertools.pairwise(beaten[1:]))
        link.scans = lambda: 0
        await link.met()
        link.scans = lambda: 1
        hurried = list[float]()
        for _ in range(5):
            began = loop.time()
            await link.met()
            hurried.append(loop.time() - began)
        assert min(hurried) < 0.09
        await link.leave()


@on_loop
async def test_who_wants_to_know_who_is_there_is_told_of_those_who_have_joined_just_now(tmp_path: Path) -> None:
    """Not at the next heartbeat that is due: two nodes that take the same shards for their own read them twice."""
    server = CoordinatorServer()
    address = f"unix:{tmp_path}/socket"
    await server.start(tmp_path / "work", address)

    def link_of(node_id: str) -> CoordinatorLink:
        node = types_pb2.NodeInfo(node_id=node_id, quota_bytes=1 << 30)
        link = CoordinatorLink(address, "", "1", lambda: node, CoordinatorPatience(), lambda: None, lambda _: None)
        link.inventory = InventoryReports(list, link.wake)
        return link

    async with server, asyncio.timeout(20):
        first, others = link_of("0"), []
        await first.connect()
        for number in range(1, 6):
            others.append(link_of(str(number)))
            await others[-1].connect()
            await first.met()
            assert len(first.members()) == 1 + number
        for link in (first, *others):
            await link.leave()


@on_loop
async def test_where_there_are_many_nodes_each_asks_for_orders_now_and_then(tmp_path: Path) -> None:
    """To tell a thousand takes the coordinator half a second, and a rotation may have others at every moment."""
    others, told_at, loop = 39, list[float](), asyncio.get_running_loop()
    coordinator = Coordinator(tmp_path / "work", CoordinatorOptions())
    await coordinator.start()
    for number in range(others):
        request = pb.HeartbeatRequest(node=types_pb2.NodeInfo(node_id=f"other-{number}"), incarnation="1")
        coordinator.heartbeats.take(request)
    server = rpc.new_server(Open())
    coordinator_pb2_grpc.add_CoordinatorServicer_to_server(CoordinatorServicer(coordinator), server)
    address = f"unix:{tmp_path}/socket"
    rpc.listen(server, address)
    await server.start()
    node = types_pb2.NodeInfo(node_id="n", quota_bytes=1 << 30)
    async with asyncio.timeout(10):
        link = CoordinatorLink(
            address, "", "1", lambda: node, CoordinatorPatience(), lambda: None, lambda _: None,
            lambda _: told_at.append(loop.time()),
        )  # fmt: skip
        link.inventory = InventoryReports(list, link.wake)
        await link.connect()
        while len(told_at) < 4:
            coordinator.caching.settings_set += 1
            coordinator.node_orders.announce()
            await asyncio.sleep(0.001)
        await link.leave()
    await server.stop(None)
    await coordinator.stop()
    assert min(after - before for before, after in itertools.pairwise(told_at)) > 0.07


class Busy(Streaming):
    """There are always newer orders; what comes in each message is noted."""

    def __init__(self) -> None:
        super().__init__()
        self.versions, self.messages = itertools.count(1), list[list[str]]()

    async def NodeCalls(self, request_iterator: Any, context: Any) -> None:  # type: ignore[override]
        await super().NodeCalls(request_iterator, Noting(context, self.messages))

    async def Heartbeat(self, request: pb.HeartbeatRequest, context: Any) -> pb.HeartbeatReply:
        return pb.HeartbeatReply(members_version=1, heartbeat_interval_ms=50, nodes=[request.node])

    async def Orders(self, request: pb.OrdersRequest, context: Any) -> pb.OrdersReply:
        return pb.OrdersReply(version=next(self.versions))

    async def Leave(self, request: pb.LeaveRequest, context: Any) -> pb.LeaveReply:
        return pb.LeaveReply()


class Noting:
    def __init__(self, context: Any, messages: list[list[str]]) -> None:
        self._context, self._messages = context, messages
        self.write = context.write

    async def read(self) -> Any:
        message = await self._context.read()
        if message is not grpc.aio.EOF:
            self._messages.append(sorted(call.WhichOneof("call") for call in message.calls))
        return message


@on_loop
async def test_where_many_nodes_ask_orders_and_acknowledgements_go_with_heartbeats(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(coordinator_link, "_SOONEST_NODES", 0.1)  # one node is as many
    node, busy = types_pb2.NodeInfo(node_id="n"), Busy()
    async with calls_of(tmp_path, busy), asyncio.timeout(20):
        link = CoordinatorLink(
            f"unix:{tmp_path}/socket", "", "1", lambda: node, CoordinatorPatience(), lambda: None, lambda _: None
        )
        link.inventory = InventoryReports(list, link.wake)
        acks = set[asyncio.Task[pb.AckReply]]()
        link.on_heartbeat = lambda _: acks.add(asyncio.create_task(link.ack(ack([1]))))
        await link.connect()
        while len(busy.messages) < 10:
            await asyncio.sleep(0.01)
        await link.leave()
        await asyncio.gather(*acks)
        await link.close()
    assert busy.messages[3:10] == [["ack", "heartbeat", "orders"]] * 7


@on_loop
async def test_that_the_coordinator_is_away_is_said_before_a_dispatcher_takes_the_node_for_one_that_hangs(
    tmp_path: Path,
) -> None:
    """It would not ask for two seconds then, and an epoch that is to begin would wait for them."""
    source = Path(tfquiver.ops.__file__).parent / "tf/tickets/ticket_provider.cc"
    (limit_ms,) = re.findall(r"kLimit\{(\d+)\}", source.read_text())
    node = types_pb2.NodeInfo(node_id="n")
    link = CoordinatorLink(
        f"unix:{tmp_path}/nobody", "", "1", lambda: node, CoordinatorPatience(), lambda: None, lambda _: None
    )
    async with asyncio.timeout(int(limit_ms) / 1000):
        with pytest.raises(errors.UnavailableError):
            await link.ticket(pb.TicketRequest())
    await link.close()


class Stopping(coordinator_pb2_grpc.CoordinatorServicer):
    """A coordinator that ends each call after a tenth of a second, as one does that is stopped."""

    def __init__(self) -> None:
        self.left_s: list[float] = []

    def Ticket(self, request: pb.TicketRequest, context: grpc.ServicerContext) -> pb.TicketReply:
        self.left_s.append(context.time_remaining())
        time.sleep(0.1)
        context.abort(grpc.StatusCode.UNAVAILABLE, "stopping")
        raise AssertionError("abort raises")


@on_loop
async def test_asking_a_coordinator_again_for_a_ticket_takes_no_longer_in_all(tmp_path: Path) -> None:
    with ThreadPoolExecutor(2) as threads:  # not on a loop, where an answer that comes too late is an error
        server, stopping = grpc.server(threads), Stopping()
        coordinator_pb2_grpc.add_CoordinatorServicer_to_server(stopping, server)
        address = f"unix:{tmp_path}/c"
        server.add_insecure_port(address)
        server.start()
        node = types_pb2.NodeInfo(node_id="n")
        link = CoordinatorLink(address, "", "1", lambda: node, CoordinatorPatience(), lambda: None, lambda _: None)
        with pytest.raises((errors.UnavailableError, errors.DeadlineError)):
            await link.ticket(pb.TicketRequest())
        await link.close()
        await asyncio.to_thread(server.stop(None).wait)
    assert max(stopping.left_s[1:], default=0.0) <= TICKET_DEADLINE_S - 0.1


@asynccontextmanager
async def linked(
    directory: Path,
) -> AsyncIterator[tuple[CoordinatorServer, CoordinatorLink, asyncio.Queue[pb.OrdersReply]]]:
    """A coordinator, the link of its only node, and the orders that come by it, of which the first have come."""
    server, node = CoordinatorServer(), types_pb2.NodeInfo(node_id="n", quota_bytes=1 << 30)
    address, told = f"unix:{directory}/socket", asyncio.Queue[pb.OrdersReply]()
    await server.start(directory / "work", address)
    async with server, asyncio.timeout(30):
        link = CoordinatorLink(address, "", "1", lambda: node, CoordinatorPatience(), lambda: None, lambda _: None)
        link.inventory, link.on_named = InventoryReports(list, link.wake), told.put_nowait
        await link.connect()
        await told.get()
        yield server, link, told
        await link.leave()


@on_loop
async def test_a_node_that_the_coordinator_has_lost_sight_of_asks_for_orders_at_once(tmp_path: Path) -> None:
    """Until they come it gives other nodes nothing: not for ten seconds, until what it asked before is answered."""
    lost, loop = asyncio.Event(), asyncio.get_running_loop()
    async with linked(tmp_path) as (server, link, told):
        link.on_lost_sight = lost.set
        while not server.coordinator.node_orders._waiting or not told.empty():
            await asyncio.sleep(0.01)
        for _ in range(3):
            lost.clear()
            while not lost.is_set():
                server.coordinator.membership._nodes["n"].inventory_known = False
                link.wake()
                await asyncio.sleep(0.01)
            began_s = loop.time()
            await told.get()
            assert loop.time() - began_s < 3
            while not server.coordinator.node_orders._waiting:
                await asyncio.sleep(0.01)
            assert len(server.coordinator.node_orders._waiting) == 1, "who asked before is not waited for any more"


@on_loop
async def test_who_keeps_cancelling_what_asks_for_orders_makes_nobody_ask_all_the_time(tmp_path: Path) -> None:
    """It asked as fast as the loop turned."""
    loop = asyncio.get_running_loop()
    async with linked(tmp_path) as (server, link, told):
        asked = list[asyncio.Task[pb.OrdersReply]]()
        until_s = loop.time() + 0.5
        while loop.time() < until_s:
            if link._asking and link._asking not in asked:
                asked.append(link._asking)
                asked[-1].cancel()
            await asyncio.sleep(0)
        assert 0 < len(asked) <= 3
        while not told.empty():
            told.get_nowait()
        server.coordinator.caching.settings_set += 1
        server.coordinator.node_orders.announce()
        await told.get()
