"""Where the process ended while a policy of another package was made or asked, the next one finds that."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest

from tests.support.aio import on_loop
from tests.support.planning import FIRST, FIRST_BYTES, beat, cached, coordinating, plans, reads
from tfquiver import errors
from tfquiver.clock import ManualClock
from tfquiver.service.coordinator.choosing_the_policy import asking, choosing
from tfquiver.service.coordinator.choosing_the_policy.ends import FILE, MOST_ENDS, Ends
from tfquiver.service.coordinator.policies import registry
from tfquiver.service.coordinator.policies.views_and_plans.interface import ClusterView, Plan

goes_on = threading.Event()
SAID = "policy 'theirs' is asked no more: 3 times in a row the coordinator ended while it was"


class Theirs:
    def __init__(self) -> None:
        assert goes_on.wait(60)

    def plan(self, view: ClusterView, now: float) -> Plan:
        return Plan()


@pytest.fixture(autouse=True)
def theirs(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    points = [EntryPoint("theirs", f"{__name__}:Theirs", registry.GROUP)]
    monkeypatch.setattr(registry, "entry_points", lambda group: points)
    goes_on.set()
    yield
    goes_on.set()


def asked(ends: Ends, policy: str, then: threading.Event) -> threading.Thread:
    """As long as that is not set; its process may end in between."""
    begun = threading.Event()

    def call() -> None:
        begun.set()
        assert then.wait(60)

    thread = threading.Thread(target=ends.asks, args=(policy, call))
    thread.start()
    assert begun.wait(10)
    return thread


def test_how_often_in_a_row_the_process_ended_while_it_was_asked(tmp_path: Path) -> None:
    then, threads = threading.Event(), list[threading.Thread]()
    for _ in range(MOST_ENDS):
        ends = Ends(tmp_path)
        assert not ends.why_not("theirs")
        threads.append(asked(ends, "theirs", then))
    last = Ends(tmp_path)
    assert (last.why_not("theirs"), last.why_not("another")) == (SAID, "")
    assert Ends(tmp_path).why_not("theirs") == SAID, "that it was not asked changes nothing"
    last.forgive("theirs")
    assert last.asks("theirs", lambda: 5) == 5
    assert not (tmp_path / FILE).exists()
    then.set()
    for thread in threads:
        thread.join()


def test_who_comes_to_an_end_with_a_plan_has_not_ended_it(tmp_path: Path) -> None:
    then, threads = threading.Event(), list[threading.Thread]()
    for _ in range(MOST_ENDS - 1):
        threads.append(asked(Ends(tmp_path), "theirs", then))
    ends = Ends(tmp_path)
    assert ends.asks("theirs", lambda: 5, is_plan=False) == 5, "it is made"
    threads.append(asked(Ends(tmp_path), "theirs", then))
    ends = Ends(tmp_path)
    assert ends.why_not("theirs"), "to be made is no plan"
    ends.forgive("theirs")
    with pytest.raises(ZeroDivisionError):
        ends.asks("theirs", lambda: 1 // 0)
    assert not Ends(tmp_path).why_not("theirs") and not (tmp_path / FILE).exists()
    then.set()
    for thread in threads:
        thread.join()


def test_a_process_that_stops_by_itself_is_nobody_s_doing(tmp_path: Path) -> None:
    then = threading.Event()
    for _ in range(MOST_ENDS + 1):
        ends = Ends(tmp_path)
        thread = asked(ends, "theirs", then)
        ends.stop()
    assert not Ends(tmp_path).why_not("theirs") and not (tmp_path / FILE).exists()
    then.set()
    thread.join()


@pytest.mark.parametrize("found", ["", "[]", '{"version": 1}', '{"version": 1, "ends": {"theirs": "x"}}', "[" * 9000])
def test_what_cannot_be_read_says_nothing(tmp_path: Path, found: str) -> None:
    (tmp_path / FILE).write_text(found)
    assert not Ends(tmp_path).why_not("theirs")
    assert Ends(tmp_path / "gone").asks("theirs", lambda: 5) == 5, "nor does a disk that cannot be written"


def ended(directory: Path) -> None:
    directory.mkdir(exist_ok=True)
    (directory / FILE).write_text('{"version": 1, "ends": {"theirs": 3}}')


@on_loop
async def test_the_default_decides_in_its_place_until_somebody_says_that_it_is_to_be_asked(tmp_path: Path) -> None:
    ended(tmp_path / "work")
    async with coordinating(tmp_path, policy="theirs", a=4 * FIRST_BYTES) as coordinator, asyncio.timeout(60):
        await coordinator.start()
        assert coordinator.policy_trouble == f"{SAID}: benefit decides; choose another one"
        await reads(coordinator, "job", FIRST)
        planning = await plans(coordinator)
        assert cached(coordinator, FIRST).decided_by == "benefit"
        told = await planning.explain("job")
        assert told.trouble == coordinator.policy_trouble
        assert [one["refused"] for one in told.history if one["kind"] == "policy"] == [told.trouble]
        await coordinator.choose_policy("theirs")
        assert planning.planner.policy_name == "theirs" and not coordinator.policy_trouble
    assert not (tmp_path / "work" / FILE).exists()


@on_loop
async def test_who_was_chosen_and_ends_it_before_it_decides_is_refused_for_good(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(asking, "MOST_ASKED_S", 0.05)
    monkeypatch.setattr(choosing, "_MORE_S", 0.0)
    clock, room_bytes = ManualClock(), 4 * FIRST_BYTES
    goes_on.clear()
    async with coordinating(tmp_path, clock=clock, a=room_bytes) as coordinator, asyncio.timeout(60):
        with pytest.raises(errors.DeadlineError, match="policy theirs has not been made yet"):
            await coordinator.choose_policy("theirs")
    ended(tmp_path / "work")
    async with coordinating(tmp_path, clock=clock, a=room_bytes) as coordinator, asyncio.timeout(60):
        await coordinator.start()
        clock.advance(60.0)
        beat(coordinator, "a", room_bytes)
        planning = await plans(coordinator)
        while planning.chosen.coming:
            await asyncio.sleep(0.01)
        assert [one.refused for one in planning.planner.history if one.kind == "policy"] == [SAID]
