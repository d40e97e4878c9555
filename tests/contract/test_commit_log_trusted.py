"""What the commit log does where it may be another process's by now."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.aio import on_loop
from tfquiver import errors
from tfquiver.proto.tfquiver.v1 import commit_log_pb2 as pb
from tfquiver.service.coordinator.commit_log.commit_log import CommitLog


class Held:
    def __init__(self) -> None:
        self.trusted, self.replaced_at, self.checks = True, 10, 0

    def check(self) -> None:
        self.checks += 1
        if self.checks >= self.replaced_at:
            raise errors.AlreadyRunningError("another coordinator has taken over")

    def is_trusted(self) -> bool:
        return self.trusted


@on_loop
async def test_what_was_written_while_another_took_over_is_durable_to_nobody(tmp_path: Path) -> None:
    held = Held()
    log = CommitLog(tmp_path / "log", lambda: (), check=held.check, is_trusted=held.is_trusted)
    log.append(pb.CommitRecord(time_passed=pb.TimePassed(up_ms=1)))
    await log.synced()
    assert held.checks == 1, "a write that takes no time is checked once"
    held.trusted, held.replaced_at = False, 3  # it hangs between the look before it and the one behind it
    log.append(pb.CommitRecord(time_passed=pb.TimePassed(up_ms=2)))
    with pytest.raises(errors.UnavailableError, match="another coordinator has taken over"):
        await log.synced()
    held.trusted, held.replaced_at = True, 10
    await log.close()


@on_loop
async def test_who_may_have_been_replaced_looks_before_it_decides(tmp_path: Path) -> None:
    held = Held()
    log = CommitLog(tmp_path / "log", lambda: (), check=held.check, is_trusted=lambda: held.checks > 0)
    await log.trusted()
    await log.writable()
    assert held.checks == 1
    held.replaced_at, log.is_trusted = 2, held.is_trusted
    held.trusted = False
    for decides in (log.trusted, log.writable):
        with pytest.raises(errors.UnavailableError, match="another coordinator has taken over"):
            await decides()
    held.trusted, held.replaced_at = True, 10
    await log.close()
