"""Readers who wait, on a real loop."""

from __future__ import annotations

import asyncio

from tests.support.aio import on_loop
from tfquiver.service.coordinator.long_polls.readers import WOKEN_AT_ONCE, Waiting

DATA, OTHER = b"d" * 32, b"e" * 32


@on_loop
async def test_of_many_who_are_woken_a_few_come_in_each_turn() -> None:
    waiting, woken = Waiting(), list[str]()

    async def reader(name: str) -> None:
        await waiting.event(name, DATA).wait()
        woken.append(name)
        waiting.wake_soon(waiting.session_ids(DATA))  # as a lease does that begins a chunk

    names = [f"{number:03}" for number in range(1000)]
    async with asyncio.timeout(10), asyncio.TaskGroup() as group:
        for name in names:
            group.create_task(reader(name))
        await asyncio.sleep(0)
        waiting.wake_soon([*names, "nobody waits in it"])
        most = before = 0
        while len(woken) < len(names):
            await asyncio.sleep(0)
            most, before = max(most, len(woken) - before), len(woken)
    assert woken == names, "each once, who was said first first"
    assert 0 < most <= WOKEN_AT_ONCE


@on_loop
async def test_a_call_that_passes_through_the_loop_meets_few_of_those_who_are_woken() -> None:
    """Each of them leases. Of sixteen in a turn a call met a hundred, 50 to 130 ms of a loop of a thousand jobs."""
    waiting, woken = Waiting(), list[str]()

    async def reader(name: str) -> None:
        await waiting.event(name, DATA).wait()
        woken.append(name)

    async with asyncio.timeout(10), asyncio.TaskGroup() as group:
        for number in range(100):
            group.create_task(reader(str(number)))
        await asyncio.sleep(0)
        waiting.wake_soon(waiting.session_ids(DATA))
        for _ in range(10):
            await asyncio.sleep(0)
        met = len(woken)
        waiting.wake_all()
    assert 0 < met <= 20


@on_loop
async def test_one_session_is_woken_at_once_and_all_when_it_ends() -> None:
    waiting = Waiting()
    first, second = waiting.event("first", DATA), waiting.event("second", DATA)
    waiting.wake("first")
    assert first.is_set() and not second.is_set()
    waiting.wake_soon(["second"])
    waiting.wake_all()
    assert second.is_set() and waiting.session_ids(DATA) == []


@on_loop
async def test_who_reads_one_data_set_is_found_without_looking_at_all_who_wait() -> None:
    waiting = Waiting()
    events = {f"{number}": waiting.event(f"{number}", DATA if number % 100 else OTHER) for number in range(1000)}
    there = waiting.session_ids(OTHER)
    assert there == [f"{number}" for number in range(0, 1000, 100)]
    waiting.wake_soon(there)
    while waiting.session_ids(OTHER):
        await asyncio.sleep(0)
    assert [name for name, event in events.items() if event.is_set()] == there
    assert waiting.event("0", OTHER) is not events["0"], "of the next wait"
    assert waiting.session_ids(OTHER) == ["0"]
    waiting.wake_all()
    assert waiting.session_ids(OTHER) == waiting.session_ids(DATA) == []
