"""What one plan decides of many data sets is made durable together, in the order in which it was decided."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.aio import on_loop
from tests.support.digests import numbered_digest
from tests.support.planning import cached, coordinating, plans, reads
from tfquiver import errors
from tfquiver.clock import ManualClock
from tfquiver.service.coordinator.commit_log.log_file import LogFile
from tfquiver.service.coordinator.registering_sharing_removing_datasets import catalogue

MANY = 20
DIGESTS = [numbered_digest(20, f"set {number}") for number in range(MANY)]
ROOM_BYTES = 1 << 40


@on_loop
async def test_a_first_plan_of_many_takes_a_few_syncs_and_outlives_a_kill(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    syncs, append = list[int](), LogFile.append
    monkeypatch.setattr(LogFile, "append", lambda self, data: (syncs.append(len(data)), append(self, data))[1])
    clock = ManualClock()
    async with coordinating(tmp_path, clock=clock, a=ROOM_BYTES) as coordinator:
        for digest in DIGESTS:
            await reads(coordinator, f"job of {digest.name}", digest)
        before = len(syncs)
        await plans(coordinator)
        assert len(syncs) - before <= 3
        assert coordinator._log._durable == coordinator._log.appended
        assert all(cached(coordinator, digest).decided_by == "benefit" for digest in DIGESTS)
    async with coordinating(tmp_path, clock=clock, a=ROOM_BYTES) as coordinator:
        await coordinator.start()
        assert all(cached(coordinator, digest).decided_by == "benefit" for digest in DIGESTS)


@on_loop
async def test_no_more_than_a_part_of_a_plan_waits_for_a_log_that_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(catalogue, "_CARRIED_OUT_AT_ONCE", 4)
    async with coordinating(tmp_path, a=ROOM_BYTES) as coordinator:
        for digest in DIGESTS:
            await reads(coordinator, f"job of {digest.name}", digest)

        def full(self: LogFile, data: bytes) -> None:
            raise errors.ResourceExhaustedError("full")

        with monkeypatch.context() as patch:
            patch.setattr(LogFile, "append", full)
            with pytest.raises(errors.UnavailableError, match="full"):
                await plans(coordinator)
        assert sum(bool(cached(coordinator, digest).decided_by) for digest in DIGESTS) == 3
        await coordinator._log.synced()
        assert coordinator._log._durable == coordinator._log.appended
