"""A policy that takes its time to be made, or to plan: who decides goes on until then, and who has chosen may go."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest

from tests.support.aio import on_loop
from tests.support.planning import FIRST, FIRST_BYTES, UNIFORM, beat, cached, coordinating, plans, reads
from tfquiver import errors
from tfquiver.clock import ManualClock
from tfquiver.service.coordinator.choosing_the_policy import asking, choosing, making
from tfquiver.service.coordinator.coordinator import Coordinator
from tfquiver.service.coordinator.policies import registry
from tfquiver.service.coordinator.policies.views_and_plans.interface import ClusterView, Plan

begun, goes_on = threading.Event(), threading.Event()


class TakesItsTime:
    def __init__(self) -> None:
        begun.set()
        assert goes_on.wait(60)

    def plan(self, view: ClusterView, now: float) -> Plan:
        return Plan()


class Thinks:
    def plan(self, view: ClusterView, now: float) -> Plan:
        assert goes_on.wait(60)
        return Plan()


class Fails:
    def plan(self, view: ClusterView, now: float) -> Plan:
        raise KeyError("no such thing")


@pytest.fixture(autouse=True)
def slow(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    theirs = {"slow": "TakesItsTime", "thinks": "Thinks", "fails": "Fails"}
    points = [EntryPoint(name, f"{__name__}:{what}", registry.GROUP) for name, what in theirs.items()]
    monkeypatch.setattr(registry, "entry_points", lambda group: points)
    begun.clear()
    goes_on.clear()
    yield
    goes_on.set()


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who chooses waits for hardly any time."""
    monkeypatch.setattr(asking, "MOST_ASKED_S", 0.05)
    monkeypatch.setattr(choosing, "_MORE_S", 0.0)


async def started_with(directory: Path) -> str:
    """Which policy decides when a coordinator starts where another one was."""
    async with coordinating(directory) as coordinator:
        await coordinator.start()
        assert coordinator.replanning
        return coordinator.replanning.planner.policy_name


async def decides(coordinator: Coordinator, policy: str) -> None:
    assert coordinator.replanning
    while coordinator.replanning.planner.policy_name != policy:
        await asyncio.sleep(0.01)


@on_loop
async def test_who_is_chosen_later_counts_whoever_is_made_when(tmp_path: Path) -> None:
    async with coordinating(tmp_path) as coordinator, asyncio.timeout(60):
        await coordinator.start()
        assert coordinator.replanning
        first = asyncio.create_task(coordinator.choose_policy("slow"))
        assert await asyncio.to_thread(begun.wait, 10)
        await coordinator.choose_policy("none")
        with pytest.raises(errors.DeadlineError, match="policy slow: another one was chosen meanwhile"):
            await first
        goes_on.set()
        await coordinator.choose_policy("lru")
        assert [one.becomes for one in coordinator.replanning.planner.history] == ["none", "lru"]
    assert await started_with(tmp_path) == "lru"


@on_loop
async def test_a_choice_whose_caller_has_gone_holds_after_a_restart(tmp_path: Path) -> None:
    async with coordinating(tmp_path) as coordinator, asyncio.timeout(60):
        await coordinator.start()
        first = asyncio.create_task(coordinator.choose_policy("slow"))
        assert await asyncio.to_thread(begun.wait, 10)
        first.cancel()
        goes_on.set()
        await decides(coordinator, "slow")
    assert await started_with(tmp_path) == "slow"


async def benefit_decides_on(coordinator: Coordinator, chosen: str, said: str) -> None:
    """However often it is chosen."""
    for _ in range(2):
        with pytest.raises(errors.DeadlineError, match=said):
            await coordinator.choose_policy(chosen)
    await reads(coordinator, "job", FIRST)
    await plans(coordinator)
    assert cached(coordinator, FIRST).decided_by == "benefit"


@on_loop
async def test_who_decides_goes_on_until_the_one_that_is_chosen_is_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(asking, "MOST_ASKED_S", 0.2)
    async with coordinating(tmp_path, a=2 * FIRST_BYTES) as coordinator, asyncio.timeout(60):
        said = r"policy slow has not been made yet, [0-9]+ s after it was chosen: benefit decides until then"
        await benefit_decides_on(coordinator, "slow", said)
        assert coordinator.policy_trouble.startswith("policy slow has not been made yet")
        assert (await (await plans(coordinator)).explain("job")).policy == "benefit"
        goes_on.set()
        await decides(coordinator, "slow")
        assert coordinator.policy_trouble == ""
        await plans(coordinator)
        assert not cached(coordinator, FIRST).allocation_bytes


@on_loop
async def test_who_decides_goes_on_until_the_one_that_is_chosen_has_made_a_plan(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(asking, "MOST_ASKED_S", 0.2)
    async with coordinating(tmp_path, a=2 * FIRST_BYTES) as coordinator, asyncio.timeout(60):
        said = r"policy thinks has made no plan yet, [0-9]+ s after it was chosen: benefit decides until then"
        await benefit_decides_on(coordinator, "thinks", said)
        await coordinator.choose_policy("none")
        goes_on.set()
        await coordinator.choose_policy("thinks")
        assert not coordinator.policy_trouble
        await plans(coordinator)
        assert not cached(coordinator, FIRST).allocation_bytes
        planning = coordinator.replanning
        assert planning and planning.planner.policy_name == "thinks"


@on_loop
@pytest.mark.parametrize("policy", ["slow", "thinks"])
@pytest.mark.usefixtures("impatient")
async def test_a_choice_that_nobody_waits_for_any_more_holds_after_a_restart(tmp_path: Path, policy: str) -> None:
    clock, room_bytes = ManualClock(), 2 * FIRST_BYTES
    async with coordinating(tmp_path, clock=clock, a=room_bytes) as coordinator, asyncio.timeout(60):
        await reads(coordinator, "job", FIRST)
        await coordinator.choose_policy("lru")
        await plans(coordinator)
        with pytest.raises(errors.DeadlineError, match="after it was chosen: lru decides until then"):
            await coordinator.choose_policy(policy)
    async with coordinating(tmp_path, clock=clock, a=room_bytes) as coordinator, asyncio.timeout(60):
        await coordinator.start()
        clock.advance(60.0)
        beat(coordinator, "a", room_bytes)
        await reads(coordinator, "job", FIRST)
        planning = await plans(coordinator)
        assert planning.planner.policy_name == "lru" and cached(coordinator, FIRST).decided_by == "lru"
        goes_on.set()
        await decides(coordinator, policy)
        await plans(coordinator)
        assert not cached(coordinator, FIRST).allocation_bytes
        assert not planning.chosen.coming and not coordinator.policy_trouble
    async with coordinating(tmp_path, clock=clock) as coordinator, asyncio.timeout(60):
        await coordinator.start()
        assert coordinator.replanning and coordinator.replanning.planner.policy_name == policy


@on_loop
@pytest.mark.usefixtures("impatient")
async def test_who_was_chosen_before_a_restart_and_fails_after_it_is_refused_for_good(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock, room_bytes = ManualClock(), 2 * FIRST_BYTES
    async with coordinating(tmp_path, clock=clock, a=room_bytes) as coordinator, asyncio.timeout(60):
        with pytest.raises(errors.DeadlineError, match="policy slow has not been made yet"):
            await coordinator.choose_policy("slow")
    monkeypatch.setattr(registry, "entry_points", lambda group: [])  # its package is gone
    async with coordinating(tmp_path, clock=clock, a=room_bytes) as coordinator, asyncio.timeout(60):
        await coordinator.start()
        clock.advance(60.0)
        beat(coordinator, "a", room_bytes)
        planning = await plans(coordinator)
        while planning.chosen.coming:
            await asyncio.sleep(0.01)
        said = "policy: 'slow' is none of"
        assert [one.refused.startswith(said) for one in planning.planner.history if one.kind == "policy"] == [True]
    async with coordinating(tmp_path, policy="lru", clock=clock) as coordinator:
        await coordinator.start()
        assert coordinator.replanning and not coordinator.replanning.chosen.coming


@on_loop
@pytest.mark.usefixtures("impatient")
async def test_who_was_chosen_and_has_not_come_is_forgotten_with_another_flag(tmp_path: Path) -> None:
    async with coordinating(tmp_path, a=FIRST_BYTES) as coordinator, asyncio.timeout(60):
        with pytest.raises(errors.DeadlineError, match="policy slow has not been made yet"):
            await coordinator.choose_policy("slow")
    for flag, coming in (("benefit", "slow"), ("lru", ""), ("benefit", "")):
        async with coordinating(tmp_path, policy=flag) as coordinator:
            await coordinator.start()
            assert coordinator.replanning and coordinator.replanning.chosen.coming == coming
            assert coordinator.replanning.planner.policy_name == flag


@on_loop
async def test_one_that_fails_with_its_first_plan_is_refused(tmp_path: Path) -> None:
    async with coordinating(tmp_path, a=2 * FIRST_BYTES) as coordinator, asyncio.timeout(60):
        await reads(coordinator, "job", FIRST)
        said = "policy fails failed: KeyError: 'no such thing'; benefit decides on"
        for _ in range(2):
            with pytest.raises(errors.InvalidArgumentError, match=said):
                await coordinator.choose_policy("fails")
        await plans(coordinator)
        assert cached(coordinator, FIRST).decided_by == "benefit"
        planning = coordinator.replanning
        assert planning and planning.chosen.name == "benefit" and not coordinator.policy_trouble
        told = [(one.was, one.becomes, one.refused) for one in planning.planner.history if one.kind == "policy"]
        assert told == [("fails", "benefit", said)] * 2


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
    async with coordinating(tmp_path) as coordinator:
        async with asyncio.timeout(30):
            await coordinator.start()
        assert coordinator.replanning
        assert coordinator.replanning.planner.policy_name == registry.DEFAULT
        goes_on.set()
        async with asyncio.timeout(30):
            await coordinator.choose_policy("none")
        assert coordinator.replanning.planner.policy_name == "none"
    assert await started_with(tmp_path) == "none"


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
