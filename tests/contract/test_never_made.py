"""A policy of another package that hangs, or fails, while it is imported: the coordinator starts, the default decides
until it is made, and whoever asks is told."""

from __future__ import annotations

import asyncio
import sys
import threading
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest

from tests.support import other_package
from tests.support.aio import on_loop
from tests.support.planning import FIRST, FIRST_BYTES, beat, cached, coordinating, plans, reads
from tfquiver import errors
from tfquiver.clock import ManualClock
from tfquiver.service.coordinator.choosing_the_policy import making
from tfquiver.service.coordinator.policies import registry
from tfquiver.service.coordinator.policies.views_and_plans.interface import Allocation, ClusterView, Plan

goes_on = threading.Event()
_MODULE = f"""
import sys
here = sys.modules[{__name__!r}]
assert here.goes_on.wait(60)
Theirs = here.KeepsHalf
"""
_FAILS = "raise {}\n"


class KeepsHalf:
    def plan(self, view: ClusterView, now: float) -> Plan:
        return Plan({one.name: Allocation("uniform", one.size_bytes // 2) for one in view.datasets})


@pytest.fixture(autouse=True)
def packages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    directory = tmp_path / "site"
    other_package.install(directory, "hangs_when_imported", _MODULE, "")
    (directory / "fails_when_imported.py").write_text(_FAILS.format("KeyboardInterrupt"))
    points = [
        EntryPoint("late", "hangs_when_imported:Theirs", registry.GROUP),
        EntryPoint("fails", "fails_when_imported:Theirs", registry.GROUP),
    ]
    monkeypatch.setattr(registry, "entry_points", lambda group: points)
    monkeypatch.setattr(making, "MOST_WAITED_S", 0.05)
    monkeypatch.setattr(making, "MOST_MADE_S", 600)
    monkeypatch.delitem(sys.modules, "hangs_when_imported", raising=False)
    monkeypatch.syspath_prepend(str(directory))
    goes_on.clear()


@on_loop
async def test_the_default_decides_until_it_is_made(tmp_path: Path) -> None:
    try:
        async with coordinating(tmp_path, policy="late", a=4 * FIRST_BYTES) as coordinator:
            await coordinator.start()
            planning = coordinator.replanning
            assert planning
            assert planning.planner.policy_name == registry.DEFAULT
            said = "policy late is not made yet: until it is the plan in force stays, for 600 s at most"
            assert coordinator.policy_trouble == said
            await reads(coordinator, "job", FIRST)
            await plans(coordinator)
            assert not cached(coordinator, FIRST).allocation_bytes, "it may be there in a moment"
            assert (await planning.explain("job")).trouble == said
            planning._at_start._until_s = 0.0
            said = "policy late is not made within 600 s: benefit decides until it is"
            assert coordinator.policy_trouble == said
            await plans(coordinator)
            assert cached(coordinator, FIRST).allocation_bytes == FIRST_BYTES
            told = await planning.explain("job")
            assert (told.policy, told.trouble) == (registry.DEFAULT, said)
            assert [one["refused"] for one in told.history if one["kind"] == "policy"] == [said]
            goes_on.set()
            assert planning._at_start._late[0][1].exception(30) is None
            await planning.look()
            assert planning.planner.policy_name == "late"
            assert not coordinator.policy_trouble and planning.chosen.name == "late"
            await reads(coordinator, "another", FIRST)
            told = await (await plans(coordinator)).explain("job")
            assert (told.policy, told.trouble) == ("late", "")
    finally:
        goes_on.set()


@on_loop
async def test_a_person_s_choice_counts_though_it_comes_then(tmp_path: Path) -> None:
    try:
        async with coordinating(tmp_path, policy="late") as coordinator:
            await coordinator.start()
            await coordinator.choose_policy(registry.DEFAULT)
            planning = coordinator.replanning
            assert planning and not coordinator.policy_trouble
            goes_on.set()
            await planning.look()
            assert planning.planner.policy_name == registry.DEFAULT
        async with coordinating(tmp_path, policy="late") as coordinator:
            await coordinator.start()
            assert not coordinator.policy_trouble, "nobody is waited for who is not to decide"
    finally:
        goes_on.set()


@on_loop
async def test_one_that_fails_in_whatever_way_is_refused_as_ever(tmp_path: Path) -> None:
    async with coordinating(tmp_path, policy="fails") as coordinator:
        with pytest.raises(errors.InvalidArgumentError, match="policy: fails cannot be loaded: KeyboardInterrupt"):
            await coordinator.start()
    with pytest.raises(errors.InvalidArgumentError, match="policy: 'nobody-s' is none of"):
        async with coordinating(tmp_path, policy="nobody-s"):
            pass


@on_loop
async def test_who_was_chosen_and_fails_now_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    goes_on.set()
    async with coordinating(tmp_path) as coordinator:
        await coordinator.start()
        await coordinator.choose_policy("late")
        with pytest.raises(errors.InvalidArgumentError, match="policy: fails cannot be loaded: KeyboardInterrupt"):
            await coordinator.choose_policy("fails")
    monkeypatch.setattr(registry, "entry_points", lambda group: [])
    async with coordinating(tmp_path) as coordinator:
        await coordinator.start()
        assert coordinator.policy_trouble.startswith("the policy that was chosen is not there: policy: 'late' is none")
        assert coordinator.policy_trouble.endswith(": benefit decides; choose another one")


@on_loop
async def test_what_a_choice_moves_is_moved_when_it_is_made_and_by_nobody_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    goes_on.set()
    clock = ManualClock()
    async with coordinating(tmp_path, clock=clock, a=4 * FIRST_BYTES) as coordinator:
        await reads(coordinator, "job", FIRST)
        await plans(coordinator)
        await coordinator.choose_policy("late")
        assert coordinator.replanning and coordinator.replanning.chosen.pending
    goes_on.clear()
    monkeypatch.delitem(sys.modules, "hangs_when_imported")
    try:
        async with coordinating(tmp_path, clock=clock, a=4 * FIRST_BYTES) as coordinator:
            await coordinator.start()
            await reads(coordinator, "job", FIRST)
            clock.advance(60.0)
            beat(coordinator, "a", 4 * FIRST_BYTES)
            planning = coordinator.replanning
            assert planning
            planning._at_start._until_s = 0.0
            await plans(coordinator)
            assert not planning.planner.switched and planning.chosen.pending, "it is not the default that was chosen"
            goes_on.set()
            assert planning._at_start._late[0][1].exception(30) is None
            beat(coordinator, "a", 4 * FIRST_BYTES)
            await plans(coordinator)
            assert (planning.planner.policy_name, planning.chosen.pending) == ("late", False)
            assert planning.planner.history.last(1, lambda _: {})[0].rule == "another policy was chosen"
    finally:
        goes_on.set()


@on_loop
async def test_it_starts_at_once_and_the_plan_in_force_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    goes_on.set()
    clock = ManualClock()
    async with coordinating(tmp_path, policy="late", clock=clock, a=4 * FIRST_BYTES) as coordinator:
        await coordinator.start()
        await reads(coordinator, "job", FIRST)
        await plans(coordinator)
        assert cached(coordinator, FIRST).allocation_bytes == FIRST_BYTES // 2
    goes_on.clear()
    monkeypatch.delitem(sys.modules, "hangs_when_imported")
    try:
        async with coordinating(tmp_path, policy="late", clock=clock, a=4 * FIRST_BYTES) as coordinator:
            async with asyncio.timeout(5):
                await coordinator.start()
            clock.advance(60.0)
            await reads(coordinator, "another", FIRST)
            beat(coordinator, "a", 4 * FIRST_BYTES)
            planning = await plans(coordinator)
            setting = cached(coordinator, FIRST)
            assert (setting.decided_by, setting.allocation_bytes) == ("late", FIRST_BYTES // 2)
            assert planning.times.plans == 0
            goes_on.set()
            assert planning._at_start._late[0][1].exception(30) is None
            await plans(coordinator)
            assert (planning.planner.policy_name, planning.times.plans) == ("late", 1)
    finally:
        goes_on.set()


@on_loop
async def test_one_that_fails_later_than_it_is_waited_for_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "site" / "hangs_when_imported.py").write_text(f"{_MODULE}raise MemoryError('no room')\n")
    try:
        async with coordinating(tmp_path, policy="late", a=4 * FIRST_BYTES) as coordinator:
            await coordinator.start()
            planning = coordinator.replanning
            assert planning and planning._at_start.waits
            goes_on.set()
            assert planning._at_start._late[0][1].exception(30)
            await reads(coordinator, "job", FIRST)
            await plans(coordinator)
            said = "policy: late of hangs_when_imported:Theirs cannot be loaded: MemoryError: no room: benefit decides"
            assert coordinator.policy_trouble.startswith(said)
            assert cached(coordinator, FIRST).allocation_bytes == FIRST_BYTES
            assert planning.planner.history.last(9, lambda _: {})[0].refused == coordinator.policy_trouble
    finally:
        goes_on.set()
