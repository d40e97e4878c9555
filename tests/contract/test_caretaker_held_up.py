"""A loop that is held up while the caretaker goes from part to part hears nobody: it counts against no node."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

from tests.support.aio import on_loop
from tests.support.planning import coordinating
from tfquiver.clock import ManualClock


@on_loop
async def test_what_was_not_heard_between_two_parts_is_excused(tmp_path: Path) -> None:
    clock = ManualClock()
    async with coordinating(tmp_path, clock=clock, a=1 << 30) as coordinator:
        clock.advance(coordinator.options.node_timeout_s + 0.1)
        asyncio.get_running_loop().call_soon(time.sleep, 0.3)  # between two parts
        await coordinator._look_after_all()
        assert coordinator.membership.expire() == []
        clock.advance(0.4)
        assert coordinator.membership.expire() == ["a"]
