"""Who watches data sets that have names is told of the one that he watches, of many a few at a time."""

from __future__ import annotations

import asyncio

from tests.support.aio import on_loop
from tfquiver.service.coordinator.named_dataset_lifecycle.watching import WOKEN_AT_ONCE, Watching

FIRST = 1000


async def waiting(watching: Watching, name: str, seen: int) -> asyncio.Task[None]:
    task = asyncio.create_task(watching.news(name, seen, 30.0))
    await asyncio.sleep(0)
    return task


@on_loop
async def test_a_change_is_told_to_those_who_watch_it() -> None:
    watching = Watching(FIRST)
    theirs, others = await waiting(watching, "a", FIRST), await waiting(watching, "b", FIRST)
    watching.changed(["a", "c"])
    await theirs
    await asyncio.sleep(0)
    assert not others.done()
    await watching.news("a", FIRST, 30.0)  # it has changed since
    again = await waiting(watching, "a", watching.number)
    watching.gone("a")
    await again
    watching.release()
    await others
    await watching.news("b", watching.number, 30.0)
    assert not watching._waiting


@on_loop
async def test_what_another_process_has_told_is_told_anew() -> None:
    watching = Watching(FIRST)
    for seen in (0, FIRST - 1, FIRST + 1):
        await watching.news("a", seen, 30.0)


@on_loop
async def test_who_waits_no_longer_is_forgotten() -> None:
    watching = Watching(FIRST)
    await watching.news("a", FIRST, 0.0)
    gone = await waiting(watching, "a", FIRST)
    gone.cancel()
    await asyncio.wait([gone])
    assert not watching._waiting
    going = await waiting(watching, "a", FIRST)
    watching.changed(["a"])
    going.cancel()
    await asyncio.wait([going])
    assert not watching._due


@on_loop
async def test_of_many_who_watch_one_a_few_are_told_in_a_turn() -> None:
    watching = Watching(FIRST)
    tasks = [await waiting(watching, "a", FIRST) for _ in range(3 * WOKEN_AT_ONCE)]
    watching.changed(["a"])
    most, done = 0, 0
    while done < len(tasks):
        await asyncio.sleep(0)
        now = sum(task.done() for task in tasks)
        most, done = max(most, now - done), now
    assert most == WOKEN_AT_ONCE
