"""Long work on the loop that nobody waits for: one step of all of it at a time."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from tests.support.aio import on_loop
from tfquiver.service.coordinator.long_work import in_parts
from tfquiver.service.coordinator.long_work.stepwise import Stepwise


@on_loop
async def test_of_several_works_one_step_is_done_in_a_turn_of_the_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of eight each had a part of its own in every turn, and no time was left to others."""
    monkeypatch.setattr(in_parts, "PART_S", 0.0)
    stepwise, turn, done = Stepwise(), 0, list[tuple[int, str]]()

    def work(name: str) -> Iterator[None]:
        for _ in range(3):
            done.append((turn, name))
            yield

    for name in "abc":
        stepwise.run(work(name))
    async with asyncio.timeout(10):
        while len(done) < 9:
            turn += 1
            await asyncio.sleep(0)
    assert [name for _, name in done] == list("abcabcabc"), "none waits for another one's end"
    assert len({turn for turn, _ in done}) == 9
    stepwise.run(work("d"))
    async with asyncio.timeout(10):
        while len(done) < 12:
            await asyncio.sleep(0)


@on_loop
async def test_what_fails_keeps_no_other_and_what_is_stopped_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(in_parts, "PART_S", 0.0)
    stepwise, done = Stepwise(), 0

    def fails() -> Iterator[None]:
        yield
        raise ValueError("some mistake")

    def goes_on() -> Iterator[None]:
        nonlocal done
        while True:
            done += 1
            yield

    stepwise.run(fails())
    stepwise.run(goes_on())
    async with asyncio.timeout(10):
        while done < 5:
            await asyncio.sleep(0)
    stepwise.stop()
    await asyncio.sleep(0)
    before = done
    for _ in range(10):
        await asyncio.sleep(0)
    assert done == before
