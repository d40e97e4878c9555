"""The coordinator goes on where a policy takes its time or does not answer; without sockets."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.support.aio import on_loop
from tests.support.planning import FIRST, FIRST_BYTES, cached, coordinating, plans, reads
from tfquiver import errors
from tfquiver.service.coordinator.choosing_the_policy import asking
from tfquiver.service.coordinator.coordinator import Coordinator
from tfquiver.service.coordinator.plan_rounds_and_moves.replanning import Replanning
from tfquiver.service.coordinator.policies.views_and_plans.interface import Allocation, Plan


@on_loop
async def test_a_policy_that_takes_its_time_does_not_keep_a_job_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked, done = threading.Event(), threading.Event()

    def slow(view: Any, now: float) -> Plan:
        asked.set()
        assert done.wait(20)
        return Plan()

    async with coordinating(tmp_path, a=FIRST_BYTES) as coordinator:
        await coordinator.start()
        assert coordinator.replanning
        monkeypatch.setattr(coordinator.replanning.planner.policy, "plan", slow)
        await reads(coordinator, "job", FIRST)
        try:
            assert await asyncio.to_thread(asked.wait, 10)
            await reads(coordinator, "other", FIRST)
            async with asyncio.timeout(10):
                while ("other", FIRST.digest_id) not in coordinator.replanning._views.reading:
                    await asyncio.sleep(0.05)
        finally:
            done.set()


@on_loop
async def test_nobody_waits_for_ever_for_a_policy_that_does_not_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    done = threading.Event()

    def silent(view: Any, now: float) -> Plan:
        assert done.wait(60)
        return Plan()

    monkeypatch.setattr(asking, "MOST_ASKED_S", 0.5)
    async with coordinating(tmp_path, a=FIRST_BYTES) as coordinator:
        await coordinator.start()
        assert coordinator.replanning
        monkeypatch.setattr(coordinator.replanning.planner.policy, "plan", silent)
        await reads(coordinator, "job", FIRST)
        said = "policy benefit has not answered for [0-9]+ s; the plan in force stays"
        try:
            async with asyncio.timeout(30):
                with pytest.raises(errors.DeadlineError, match=said):
                    await coordinator.replanning.explain("job")
                with pytest.raises(errors.DeadlineError, match=f"{said}.*choose another one: tfquiver policy NAME"):
                    await coordinator.choose_policy("benefit")
                await coordinator.choose_policy("none")
                assert coordinator.replanning.planner.policy_name == "none", "it waits for nobody"
        finally:
            done.set()


class _Silent:
    """Until it is `done`; then it would give all of it."""

    def __init__(self, done: threading.Event) -> None:
        self.asked, self._done = threading.Event(), done

    def plan(self, view: Any, now: float) -> Plan:
        self.asked.set()
        assert self._done.wait(60)
        return Plan({one.name: Allocation("uniform", one.size_bytes) for one in view.datasets})


@asynccontextmanager
async def unanswering(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[tuple[Coordinator, Replanning, threading.Event]]:
    """Nobody waits for policies for long. Those that wait for the event do no longer at the end: the loop's waits for
    their threads."""
    done = threading.Event()
    monkeypatch.setattr(asking, "MOST_ASKED_S", 0.2)
    try:
        async with coordinating(directory, a=FIRST_BYTES) as coordinator, asyncio.timeout(60):
            assert coordinator.replanning
            yield coordinator, coordinator.replanning, done
    finally:
        done.set()


@on_loop
async def test_another_policy_that_is_chosen_decides_whatever_the_one_before_it_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with unanswering(tmp_path, monkeypatch) as (coordinator, replanning, done):
        replanning.planner.policy = silent = _Silent(done)
        await reads(coordinator, "job", FIRST)
        look = asyncio.create_task(plans(coordinator))
        assert await asyncio.to_thread(silent.asked.wait, 10)
        await coordinator.choose_policy("none")
        assert coordinator.policy_trouble == ""
        await look
        assert (await replanning.explain("job")).policy == "none"
        await plans(coordinator)
        assert cached(coordinator, FIRST).decided_by == "none"
        done.set()
        async with asyncio.timeout(10):
            while replanning._asking._given_up:
                await asyncio.sleep(0.01)
        await plans(coordinator)
        assert cached(coordinator, FIRST).decided_by == "none", "what it says at last nobody hears"
    async with coordinating(tmp_path) as coordinator:
        await coordinator.start()
        assert coordinator.replanning and coordinator.replanning.planner.policy_name == "none"


@on_loop
async def test_only_a_few_threads_are_left_to_policies_that_do_not_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with unanswering(tmp_path, monkeypatch) as (coordinator, replanning, done):
        await reads(coordinator, "job", FIRST)
        for policy in ("none", "lru", "none", "lru"):
            replanning.planner.policy = _Silent(done)
            with pytest.raises(errors.DeadlineError, match="has not answered"):
                await replanning.explain("job")
            if policy == "lru" and replanning._asking._given_up == 3:
                with pytest.raises(errors.DeadlineError, match="3 others have not either: start the coordinator"):
                    await coordinator.choose_policy(policy)
            else:
                await coordinator.choose_policy(policy)


@on_loop
async def test_a_policy_that_does_not_answer_is_asked_by_one_thread_at_a_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    done, asked = threading.Event(), threading.Semaphore(0)

    def silent(view: Any, now: float) -> Plan:
        asked.release()
        assert done.wait(60)
        return Plan()

    monkeypatch.setattr(asking, "MOST_ASKED_S", 0.2)
    async with coordinating(tmp_path, a=FIRST_BYTES) as coordinator:
        assert coordinator.replanning
        monkeypatch.setattr(coordinator.replanning.planner.policy, "plan", silent)
        await reads(coordinator, "job", FIRST)
        try:
            for _ in range(3):
                with pytest.raises(errors.DeadlineError, match="policy benefit has not answered"):
                    await coordinator.replanning.explain("job")
            assert asked.acquire(timeout=10)
            assert not asked.acquire(blocking=False)
            with pytest.raises(errors.DeadlineError, match="policy benefit has not answered"):
                await coordinator.replanning.look()
        finally:
            done.set()
        async with asyncio.timeout(10):
            await coordinator.choose_policy("none")


class _NotYet:
    @property
    def probing(self) -> bool:
        raise SystemExit("not connected yet")

    def plan(self, view: Any, now: float) -> Plan:
        return Plan()


@on_loop
async def test_jobs_of_a_policy_that_cannot_say_whether_it_wants_that_are_probed(tmp_path: Path) -> None:
    async with coordinating(tmp_path, a=FIRST_BYTES) as coordinator:
        assert coordinator.replanning
        coordinator.replanning.planner.policy = _NotYet()
        await reads(coordinator, "job", FIRST)
        await coordinator.replanning.measure()
        assert coordinator.replanning._read_by.keys() == {("job", FIRST.digest_id)}


class _Interrupts:
    def plan(self, view: Any, now: float) -> Plan:
        raise KeyboardInterrupt


@on_loop
async def test_one_that_raises_what_a_person_s_interrupt_does_ends_no_coordinator(tmp_path: Path) -> None:
    async with coordinating(tmp_path, a=FIRST_BYTES) as coordinator:
        assert coordinator.replanning
        coordinator.replanning.planner.policy = _Interrupts()
        await reads(coordinator, "job", FIRST)
        planning = await plans(coordinator)
        said = "policy benefit failed: KeyboardInterrupt: "
        assert planning.planner.refused == said
        assert coordinator.policy_trouble == f"{said}: the last good plan stays"
        told = await planning.explain("job")
        assert (told.refused, told.with_more) == (said, ())
