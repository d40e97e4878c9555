"""Many who ask for the same long list are given one, and long lists are made one after the other."""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from pathlib import Path
from typing import Any, cast

import grpc
import pytest

from tests.support.aio import on_loop
from tests.support.coordinator_here import started
from tfquiver.proto.tfquiver.v1 import coordinator_pb2 as pb
from tfquiver.proto.tfquiver.v1 import named_datasets_pb2, types_pb2
from tfquiver.proto.tfquiver.v1.commit_log_pb2 import DatasetRegistered
from tfquiver.service.coordinator.grpc_calls.servicer import CoordinatorServicer
from tfquiver.service.coordinator.long_work.asked_alike import AskedAlike
from tfquiver.service.coordinator.named_dataset_lifecycle.named_requests import NamedRequests
from tfquiver.service.coordinator.registering_sharing_removing_datasets.visible import Visible

CONTEXT = cast(grpc.aio.ServicerContext[Any, Any], None)


class Making:
    """What was begun, each until it is let through."""

    def __init__(self) -> None:
        self.lists, self.begun, self.ended = AskedAlike[int](), 0, 0
        self.through = asyncio.Event()

    def ask(self, alike: str = "all") -> asyncio.Task[int]:
        return asyncio.create_task(self.lists.made(alike, self._make))

    async def _make(self) -> int:
        self.begun += 1
        number = self.begun
        await self.through.wait()
        self.ended += 1
        return number


async def turns() -> None:
    for _ in range(10):
        await asyncio.sleep(0)


@on_loop
async def test_who_asks_while_one_is_made_is_given_the_next_with_all_others() -> None:
    making = Making()
    first = making.ask()
    await turns()
    later = [making.ask() for _ in range(50)]
    await turns()
    assert making.begun == 1
    making.through.set()
    assert (await first, set(await asyncio.gather(*later)), making.begun) == (1, {2}, 2)
    assert await making.ask() == 3, "what was asked for then is not kept"


@on_loop
async def test_of_many_one_is_given_it_in_a_turn_of_the_loop() -> None:
    """gRPC makes bytes of it then: of fifty in one turn that took 0.28 s."""
    making, given, turn, over = Making(), Counter[int](), 0, False

    async def ask() -> None:
        await making.lists.made("all", making._make)
        given[turn] += 1

    async def count() -> None:
        nonlocal turn
        while not over:
            turn += 1
            await asyncio.sleep(0)

    counting = asyncio.create_task(count())
    asking = [asyncio.create_task(ask()) for _ in range(50)]
    await turns()
    making.through.set()
    await asyncio.gather(*asking)
    over = True
    await counting
    assert (given.total(), max(given.values())) == (50, 1)


@on_loop
async def test_what_nobody_waits_for_any_more_is_given_up() -> None:
    making = Making()
    under_way, waiting = [making.ask(), making.ask()], [making.ask("other"), making.ask("other")]
    await turns()
    queued = making.ask()
    for one in (under_way[0], *waiting, queued):
        one.cancel()
    await turns()
    making.through.set()
    assert await under_way[1] == 1
    await turns()
    assert (making.begun, making.ended) == (2, 1), "of the two others one had begun"
    not_begun = making.ask()
    not_begun.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await not_begun
    assert await making.ask() == 3


@on_loop
async def test_all_who_asked_are_told_why_there_is_none() -> None:
    async def fail() -> int:
        raise ValueError("none")

    lists = AskedAlike[int]()
    asked = [lists.made("all", fail) for _ in range(3)]
    assert [str(one) for one in await asyncio.gather(*asked, return_exceptions=True)] == ["none"] * 3


@on_loop
async def test_fifty_who_ask_for_all_data_sets_have_few_lists_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each had one of its own made, all at the same time: of ten thousand data sets half were given up after 5 s, and
    the coordinator's loop was 0.15 s late."""
    made = {"all": 0, "named": 0}
    list_all, list_named = Visible.all, NamedRequests.listed

    async def counted(self: Visible, *arguments: Any) -> Any:
        made["all"] += 1
        return await list_all(self, *arguments)

    async def named_counted(self: NamedRequests, *arguments: Any) -> Any:
        made["named"] += 1
        return await list_named(self, *arguments)

    monkeypatch.setattr(Visible, "all", counted)
    monkeypatch.setattr(NamedRequests, "listed", named_counted)
    async with started(tmp_path) as coordinator:
        servicer = CoordinatorServicer(coordinator)
        asked = pb.ListDatasetsRequest(with_settings=True)
        lists = await asyncio.gather(*(servicer.ListDatasets(asked, CONTEXT) for _ in range(50)))
        assert {len(one.datasets) for one in lists} == {1}
        request = named_datasets_pb2.ListNamedDatasetsRequest()
        await asyncio.gather(*(servicer.named_datasets.List(request, CONTEXT) for _ in range(50)))
    assert made["all"] <= 2
    assert made["named"] <= 2


@on_loop
async def test_of_a_few_data_sets_that_are_looked_at_the_others_are_not_gone_through(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told, tell = list[bytes](), Visible.told

    def counted(self: Visible, dataset: types_pb2.Dataset) -> types_pb2.Dataset:
        told.append(dataset.digest_id)
        return tell(self, dataset)

    monkeypatch.setattr(Visible, "told", counted)
    async with started(tmp_path) as coordinator:
        for number in range(1, 30):
            coordinator.registry.apply(DatasetRegistered(dataset=types_pb2.Dataset(digest_id=bytes([number]) * 32)))
        asked = pb.ListDatasetsRequest(looked_at=[b"\x07" * 32, b"\x09" * 32, b"\xff" * 32])
        listed = await CoordinatorServicer(coordinator).ListDatasets(asked, CONTEXT)
    assert [one.digest_id for one in listed.datasets] == told == [b"\x07" * 32, b"\x09" * 32]
