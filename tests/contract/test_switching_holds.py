"""A policy that takes its time to be made: who has chosen it may go, and nobody else chooses meanwhile."""

from __future__ import annotations

import asyncio
import threading
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest

from tests.support.aio import on_loop
from tests.support.planning import FIRST, FIRST_BYTES, UNIFORM, beat, cached, coordinating, plans, reads
from tfquiver import errors
from tfquiver.clock import ManualClock
from tfquiver.service.coordinator.planning import asking, making
from tfquiver.service.coordinator.policies import registry
from tfquiver.service.coordinator.policies.views_and_plans.interface import ClusterView, Plan

begun, goes_on = threading.Event(), threading.Event()


class TakesItsTime:
    def __init__(self) -> None:
        begun.set()
        assert goes_on.wait(60)

    def plan(self, view: ClusterView, now: float) -> Plan:
        return Plan()


@pytest.fixture(autouse=True)
def slow(monkeypatch: pytest.MonkeyPatch) -> None:
    points = [EntryPoint("slow", f"{__name__}:TakesItsTime", registry.GROUP)]
    monkeypatch.setattr(registry, "entry_points", lambda group: points)
    begun.clear()
    goes_on.clear()


@on_loop
async def test_a_choice_whose_caller_has_gone_is_made_to_its_end_before_the_next(tmp_path: Path) -> None:
    try:
        async with coordinating(tmp_path) as coordinator, asyncio.timeout(60):
            await coordinator.start()
            assert coordinator.replanning
            first = asyncio.create_task(coordinator.choose_policy("slow"))
            assert await asyncio.to_thread(begun.wait, 10)
            first.cancel()
            second = asyncio.create_task(coordinator.choose_policy("none"))
            assert not (await asyncio.wait([second], timeout=0.2))[0], "two threads would change the planner"
            goes_on.set()
            await second
            assert [one.becomes for one in coordinator.replanning.planner.history] == ["slow", "none"]
        async with coordinating(tmp_path) as coordinator:
            await coordinator.start()
            assert coordinator.replanning
            assert coordinator.replanning.planner.policy_name == "none"
    finally:
        goes_on.set()


@on_loop
async def test_a_choice_whose_caller_has_gone_holds_after_a_restart(tmp_path: Path) -> None:
    try:
        async with coordinating(tmp_path) as coordinator, asyncio.timeout(60):
            await coordinator.start()
            planning = coordinator.replanning
            assert planning
            first = asyncio.create_task(coordinator.choose_policy("slow"))
            assert await asyncio.to_thread(begun.wait, 10)
            first.cancel()
            goes_on.set()
            async with planning._asking.alone():
                assert planning.planner.policy_name == "slow"
        async with coordinating(tmp_path) as coordinator:
            await coordinator.start()
            assert coordinator.replanning
            assert coordinator.replanning.planner.policy_name == "slow"
    finally:
        goes_on.set()


@on_loop
async def test_nobody_waits_for_ever_for_one_that_is_never_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(asking, "MOST_ASKED_S", 0.2)
    try:
        async with coordinating(tmp_path) as coordinator, asyncio.timeout(60):
            for _ in range(2):
                with pytest.raises(errors.DeadlineError, match="policy slow has not answered for"):
                    await coordinator.choose_policy("slow")
            await coordinator.choose_policy("none")
            goes_on.set()
            planning = coordinator.replanning
            assert planning
            while planning._asking._given_up:
                await asyncio.sleep(0.01)
            assert (planning.planner.policy_name, planning.chosen.name) == ("none", "none"), "made too late"
    finally:
        goes_on.set()


@on_loop
async def test_one_that_is_not_made_at_the_next_start_keeps_nobody_from_starting(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    goes_on.set()
    async with coordinating(tmp_path) as coordinator:
        await coordinator.start()
        await coordinator.choose_policy("slow")
    goes_on.clear()
    monkeypatch.setattr(making, "MOST_WAITED_S", 0.05)
    try:
        async with coordinating(tmp_path) as coordinator:
            async with asyncio.timeout(30):
                await coordinator.start()
            assert coordinator.replanning
            assert coordinator.replanning.planner.policy_name == registry.DEFAULT
            goes_on.set()
            async with asyncio.timeout(30):
                await coordinator.choose_policy("none")
            assert coordinator.replanning.planner.policy_name == "none"
    finally:
        goes_on.set()
    async with coordinating(tmp_path) as coordinator:
        await coordinator.start()
        assert coordinator.replanning
        assert coordinator.replanning.planner.policy_name == "none"


@on_loop
async def test_what_a_choice_moves_is_moved_at_once_after_a_restart_too(tmp_path: Path) -> None:
    """One that was killed before the next plan weighed it, as if nobody had chosen anything."""
    clock, room_bytes = ManualClock(), 2 * FIRST_BYTES
    async with coordinating(tmp_path, clock=clock, a=room_bytes) as coordinator:
        await reads(coordinator, "job", FIRST)
        planning = await plans(coordinator)
        assert cached(coordinator, FIRST).mode == UNIFORM
        await coordinator.choose_policy("none")
        assert planning.chosen.pending
    for pending in (True, False):
        async with coordinating(tmp_path, clock=clock, a=room_bytes) as coordinator:
            await coordinator.start()
            assert coordinator.replanning
            assert coordinator.replanning.planner.switched == pending
            await reads(coordinator, "job", FIRST)
            clock.advance(60.0)
            beat(coordinator, "a", room_bytes)
            planning = await plans(coordinator)
            assert cached(coordinator, FIRST).allocation_bytes == 0
            assert not planning.chosen.pending
