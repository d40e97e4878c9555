"""Work on the loop that rests between its parts, with a clock of its own."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any, cast

import grpc
import pytest

from tests.support.aio import on_loop
from tests.support.coordinator_here import started
from tests.support.named_here import of, until_done
from tests.support.planning import FIRST, coordinating, plans, reads
from tfquiver.proto.tfquiver.v1 import coordinator_pb2 as pb
from tfquiver.proto.tfquiver.v1 import types_pb2
from tfquiver.proto.tfquiver.v1.commit_log_pb2 import DatasetRegistered
from tfquiver.roles_and_tokens.identity import EVERYBODY
from tfquiver.service.coordinator.grpc_calls.about_datasets import dataset_calls
from tfquiver.service.coordinator.grpc_calls.about_datasets.dataset_calls import DatasetCalls
from tfquiver.service.coordinator.long_work.in_parts import InParts
from tfquiver.service.coordinator.named_dataset_lifecycle import named_keeping, named_requests
from tfquiver.service.coordinator.plan_rounds_and_moves import cluster_view, replanning
from tfquiver.service.coordinator.probing import probes


class Clock:
    """Each look at it takes `look_s`."""

    def __init__(self, look_s: float = 0.0) -> None:
        self.now_s, self.rests_s, self._look_s = 0.0, list[float](), look_s

    def now(self) -> float:
        self.now_s += self._look_s
        return self.now_s

    async def sleep(self, seconds: float) -> None:
        self.rests_s.append(seconds)
        self.now_s += seconds
        await asyncio.sleep(0)


@on_loop
async def test_it_rests_for_as_long_as_it_has_worked() -> None:
    clock = Clock()
    parts = InParts(clock.now, clock.sleep)
    for _ in range(10):
        clock.now_s += 0.0003
        await parts.rest()
    assert clock.rests_s == pytest.approx([0.0012, 0.0012])
    clock.now_s += 0.02  # one that is long
    await parts.rest()
    assert clock.rests_s[2] == pytest.approx(0.0206)


@on_loop
async def test_who_was_stopped_for_an_hour_goes_on() -> None:
    clock = Clock()
    parts = InParts(clock.now, clock.sleep)
    clock.now_s += 3600
    await parts.rest()
    assert clock.rests_s == [0.05]


@on_loop
async def test_measuring_and_what_a_policy_is_shown_rest_among_jobs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a thousand jobs measuring took 35 ms twice a second, in 160 parts one after the other: a call met ten."""
    clocks = dict[object, Clock]()
    for measuring in (replanning, probes):
        assert measuring._AT_A_TIME <= 32, "of which one takes some 25 µs"
        monkeypatch.setattr(measuring, "_AT_A_TIME", 1)
    for room in (replanning, cluster_view):
        clocks[room] = clock = Clock(0.0004)
        monkeypatch.setattr(room, "InParts", lambda clock=clock: InParts(clock.now, clock.sleep))
    async with coordinating(tmp_path, a=1 << 40) as coordinator:
        for job in range(30):
            await reads(coordinator, f"job-{job}", FIRST)
        await plans(coordinator)
    for clock in clocks.values():
        assert len(clock.rests_s) >= 30 // 3, "a part of each is no longer than a few of these looks"


@on_loop
async def test_looks_at_data_sets_and_lists_of_them_rest_among_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of ten thousand a look took a tenth of a second, in parts of 10 ms; a list a tenth or two, in one."""
    clocks = dict[object, Clock]()
    for room in (named_keeping, named_requests, dataset_calls):
        clocks[room] = clock = Clock(0.0004)
        monkeypatch.setattr(room, "InParts", lambda clock=clock: InParts(clock.now, clock.sleep))
    async with started(tmp_path) as coordinator:
        await coordinator.named.create(EVERYBODY, of("n0"))
        await until_done(coordinator, "n0")
        for number in range(1, 30):
            coordinator.registry.apply(DatasetRegistered(dataset=types_pb2.Dataset(digest_id=bytes([number]) * 32)))
            await coordinator.named.create(EVERYBODY, of(f"n{number}"))
        for clock in clocks.values():
            clock.rests_s.clear()
        await coordinator.named.look()
        assert len(await coordinator.named.listed(EVERYBODY)) == 30
        context = cast(grpc.aio.ServicerContext[Any, Any], None)
        listed = await DatasetCalls(coordinator).ListDatasets(pb.ListDatasetsRequest(), context)
        assert len(listed.datasets) == 30
    for clock in clocks.values():
        assert len(clock.rests_s) >= 30 // 3
