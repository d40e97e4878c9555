"""Orders about data sets with names: in which order a node carries them out."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence

import pytest

from tests.support.aio import on_loop
from tests.support.digests import numbered_digest
from tfquiver import errors
from tfquiver.digests.digest import Digest
from tfquiver.proto.tfquiver.v1 import coordinator_pb2, node_pb2, types_pb2
from tfquiver.proto.tfquiver.v1 import named_datasets_pb2 as pb
from tfquiver.service.node.coordinator_orders import dataset_tasks, named_orders
from tfquiver.service.node.coordinator_orders.dataset_tasks import DatasetTasks, Report
from tfquiver.service.node.coordinator_orders.named_orders import NamedOrders, NamedWork

GOES, STAYS = numbered_digest(20), numbered_digest(10)


class Node:
    """It has GOES, and gets STAYS, which shares shards with it, when `may_get` is set."""

    def __init__(self) -> None:
        self.here = {GOES.digest_id}
        self.may_get, self.over, self.may_warm = asyncio.Event(), asyncio.Event(), asyncio.Event()
        self.may_warm.set()
        self.may_delete = asyncio.Event()
        self.may_delete.set()
        self.had: set[bytes] = set()
        self.evicted, self.carried_out = 0, list[tuple[str | bytes, ...]]()
        self.scanning, self.told = asyncio.Event(), list[pb.ReportTaskRequest]()
        self.in_the_way = ""
        work = NamedWork(
            self.scan, self.warm, self.give_up, self.abandoned, self.noted, self.let_go, lambda: self.in_the_way
        )
        tasks = DatasetTasks("n", work.do, self.tell)
        self.orders = NamedOrders(tasks, lambda: self.here, self.digest, lambda *_: None, lambda _: None, self.stale)

    async def scan(self, task_id: str, task: pb.ScanTask, report: Report) -> types_pb2.Dataset:
        await self.scanning.wait()
        raise NotImplementedError

    async def warm(self, digest_id: bytes) -> AsyncGenerator[node_pb2.WarmProgress, None]:
        yield node_pb2.WarmProgress(over=True)

    async def give_up(self, digest_ids: Sequence[bytes]) -> str:
        await self.may_delete.wait()
        self.had = set(self.here)
        self.evicted += 1
        return ""

    async def let_go(self, digest_id: bytes) -> None:
        await self.may_warm.wait()

    async def noted(self, task_id: str, digest_ids: Sequence[bytes]) -> None:
        assert self.evicted, "it is noted when it is so"
        self.carried_out.append((task_id, *digest_ids))

    def abandoned(self) -> None:
        raise NotImplementedError

    async def tell(self, request: pb.ReportTaskRequest) -> bool:
        self.told.append(request)
        self.over.set()
        return True

    async def digest(self, digest_id: bytes) -> Digest:
        await self.may_get.wait()
        self.here.add(digest_id)
        return STAYS

    async def stale(self, digest_id: bytes, why: str) -> None:
        raise NotImplementedError


@on_loop
async def test_nothing_is_evicted_before_the_digests_are_here_that_say_what_others_have_of_it() -> None:
    node = Node()
    orders = coordinator_pb2.OrdersReply()
    orders.named.add(digest_id=STAYS.digest_id, name="stays")
    orders.tasks.add(task_id="x/1", evict=pb.EvictTask(digest_ids=[GOES.digest_id]))
    node.orders.receive(orders)
    for _ in range(10):
        await asyncio.sleep(0)
    assert not node.had
    node.may_get.set()
    async with asyncio.timeout(10):
        await until(lambda: node.carried_out)
    assert node.had == {GOES.digest_id, STAYS.digest_id}
    assert node.carried_out == [("x/1", GOES.digest_id)]
    node.over.clear()
    node.orders.receive(orders)  # told again, not done again
    async with asyncio.timeout(10):
        await node.over.wait()
    assert (node.evicted, len(node.carried_out)) == (1, 1)
    await node.orders.close()


@on_loop
async def test_that_a_task_has_begun_is_told_at_once() -> None:
    node = Node()
    orders = coordinator_pb2.OrdersReply()
    orders.tasks.add(task_id="x/1", scan=pb.ScanTask(node_id="n"))
    node.orders.receive(orders)
    async with asyncio.timeout(10):
        await node.over.wait()
    assert not node.told[-1].over
    await node.orders.close()


@on_loop
async def test_nothing_is_read_while_something_of_it_is_being_deleted() -> None:
    node = Node()
    node.may_warm.clear()
    task = pb.DatasetTask(task_id="x/3", warm=pb.WarmTask(digest_id=GOES.digest_id))
    node.orders.receive(coordinator_pb2.OrdersReply(tasks=[task]))
    while not node.told:
        await asyncio.sleep(0)
    assert not node.told[-1].over
    node.may_warm.set()
    while not node.told[-1].over:
        await asyncio.sleep(0.01)
    await node.orders.close()


@on_loop
async def test_a_task_whose_inner_work_was_cancelled_by_others_is_over() -> None:
    """What it waited for belongs to others, too, who may end it. It was told by nobody, and stood for good."""
    told, given_up = asyncio.Queue[pb.ReportTaskRequest](), 0

    async def work(task: pb.DatasetTask, report: Report) -> pb.ReportTaskRequest:
        nonlocal given_up
        inner = asyncio.get_running_loop().create_task(asyncio.Event().wait())
        if task.task_id == "x/1":
            inner.cancel()
        try:
            await inner
        finally:
            given_up += 1
        raise NotImplementedError

    async def tell(request: pb.ReportTaskRequest) -> bool:
        told.put_nowait(request)
        return True

    tasks = DatasetTasks("n", work, tell)
    ordered = [pb.DatasetTask(task_id=f"x/{number}", scan=pb.ScanTask(node_id="n")) for number in (1, 2)]
    async with asyncio.timeout(10):
        tasks.receive(ordered)
        while not (last := await told.get()).over:
            pass
        assert last.task_id == "x/1" and last.error_code == errors.code_number(errors.CancelledError_())
        assert "given up" in last.trouble
        tasks.receive([])  # what is ordered no more is given up, and nothing is told of it
        while given_up < 2:
            await asyncio.sleep(0)
        assert told.empty()
        await tasks.close()


def test_that_a_version_was_removed_meanwhile_is_no_trouble(caplog: pytest.LogCaptureFixture) -> None:
    """Of two versions one is removed after the other, while nodes get the digests of what they are told of."""

    async def removed() -> None:
        node, done = Node(), asyncio.Event()

        async def digest(digest_id: bytes) -> Digest:
            raise errors.NotFoundError("no data set is registered")

        node.orders._digest, node.orders._removals = digest, lambda *_: done.set()
        orders = coordinator_pb2.OrdersReply()
        orders.named.add(digest_id=STAYS.digest_id, name="stays")
        node.orders.receive(orders)
        async with asyncio.timeout(20):
            await done.wait()
        await node.orders.close()

    with caplog.at_level("DEBUG"):
        asyncio.run(removed())
    assert not [record for record in caplog.records if record.levelname == "WARNING"]


@on_loop
async def test_what_is_in_the_way_of_an_eviction_is_told_while_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    """The state stood at EVICTING, and nobody said why."""
    monkeypatch.setattr(named_orders, "_LOOK_S", 0.001)
    monkeypatch.setattr(dataset_tasks, "PROGRESS_S", 0.001)
    node = Node()
    node.may_delete.clear()
    orders = coordinator_pb2.OrdersReply()
    orders.tasks.add(task_id="x/1", evict=pb.EvictTask(digest_ids=[GOES.digest_id]))
    node.orders.receive(orders)
    for said in ("the disk has not answered for 20 s", "the disk has not answered for 21 s", ""):
        node.in_the_way = said
        await until(lambda: node.told and node.told[-1].trouble == node.in_the_way and not node.told[-1].over)
    node.may_delete.set()
    await until(lambda: node.told[-1].over)
    assert not node.told[-1].trouble and not node.told[-1].error_code
    await node.orders.close()


async def until(condition: Callable[[], object]) -> None:
    while not condition():
        await asyncio.sleep(0.001)
