"""A commit log that could not be written is tried again by itself: nobody may have anything to decide for hours."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tests.support.aio import on_loop
from tests.support.coordinator_here import started
from tfquiver import errors
from tfquiver.service.coordinator.commit_log.log_file import LogFile


@on_loop
async def test_trouble_of_a_write_that_brought_nothing_ends_when_the_disk_is_well(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A compaction takes the log's place with a write of its own, behind which nothing may be left to be written."""

    def sick(self: LogFile, data: bytes) -> None:
        raise errors.UnavailableError("log: Input/output error")

    async with started(tmp_path) as coordinator:
        await coordinator._log.synced()
        with monkeypatch.context() as disk:
            disk.setattr(LogFile, "append", sick)
            with pytest.raises(errors.UnavailableError):
                await coordinator._log._flushed()
            assert "Input/output error" in coordinator.log_trouble
            appended = coordinator._log.appended
            with pytest.raises(errors.UnavailableError):
                await coordinator.allocate_remote_io("job", 1.0)
            assert coordinator._log.appended == appended, "it was refused, not decided and left to be written"
        async with asyncio.timeout(5):
            while coordinator.log_trouble:
                await asyncio.sleep(0.01)
