"""While the log cannot be written nothing is planned: what is decided would wait in memory, as long as that lasts."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.aio import on_loop
from tests.support.planning import FIRST, FIRST_BYTES, SECOND, beat, cached, coordinating, plans, reads
from tfquiver import errors
from tfquiver.clock import ManualClock
from tfquiver.service.coordinator.commit_log.log_file import LogFile


def _full(self: LogFile, data: bytes) -> None:
    raise errors.ResourceExhaustedError("full")


@on_loop
async def test_nothing_piles_up_and_it_is_planned_as_soon_as_there_is_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = ManualClock()
    async with coordinating(tmp_path, policy="silod_greedy", clock=clock, a=FIRST_BYTES) as coordinator:
        await reads(coordinator, "job", FIRST)
        await reads(coordinator, "another", SECOND)
        assert coordinator.replanning
        with monkeypatch.context() as patch:
            patch.setattr(LogFile, "append", _full)
            with pytest.raises(errors.UnavailableError, match="full"):
                await coordinator.allocate_remote_io("job", 1e6)
            before = coordinator._log.appended
            for _ in range(5):
                clock.advance(11.0)
                beat(coordinator, "a", FIRST_BYTES)
                with pytest.raises(errors.UnavailableError, match="full"):
                    await coordinator.replanning.look()
            assert coordinator._log.appended == before
        beat(coordinator, "a", FIRST_BYTES)
        await plans(coordinator)
        assert cached(coordinator, FIRST).allocation_bytes
