"""A loop that is held up while the caretaker goes from part to part hears nobody: it counts against no node. One
that is gone is found all the same."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

import pytest

from tests.support.aio import on_loop
from tests.support.planning import coordinating
from tfquiver.clock import ManualClock
from tfquiver.service.coordinator.caretaker import Caretaker


@pytest.mark.parametrize("part", ["_look_who_holds", "_look_after_all"])
@on_loop
async def test_what_was_not_heard_between_two_parts_is_excused(
    part: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock, whole = ManualClock(), getattr(Caretaker, part)

    async def held_up(self: Caretaker) -> None:
        clock.advance(self._node_timeout_s - 0.1)
        asyncio.get_running_loop().call_soon(time.sleep, 0.3)
        await asyncio.sleep(0)
        clock.advance(0.2)
        await whole(self)

    async with coordinating(tmp_path, clock=clock, a=1 << 30) as coordinator:
        with monkeypatch.context() as patched:
            patched.setattr(Caretaker, part, held_up)
            await coordinator.caretaker.care(0.0)
        await coordinator.caretaker.care(0.0)
        assert [node.node_id for node in coordinator.membership.live()] == ["a"]
        clock.advance(0.6)
        await coordinator.caretaker.care(0.0)
        assert not coordinator.membership.live()


@on_loop
async def test_who_is_gone_is_found_though_the_loop_is_late_each_time(tmp_path: Path) -> None:
    clock = ManualClock()
    async with coordinating(tmp_path, clock=clock, a=1 << 30) as coordinator:
        times = 0
        while coordinator.membership.live():
            times += 1
            asyncio.get_running_loop().call_soon(time.sleep, 0.15)
            clock.advance(1.15)
            await coordinator.caretaker.care(0.0)
        assert times <= coordinator.options.node_timeout_s + 1
