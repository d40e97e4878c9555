"""Group commit on a real file: what `synced` promised is there, what failed is tried again, it never grows for ever."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest

from tests.support.aio import on_loop
from tfquiver import errors
from tfquiver.proto.tfquiver.v1 import commit_log_pb2 as log_pb2
from tfquiver.proto.tfquiver.v1.commit_log_pb2 import CommitRecord
from tfquiver.service.coordinator.commit_log import CommitLog
from tfquiver.service.coordinator.log_file import LogFile, parse


def acked(number: int) -> CommitRecord:
    return CommitRecord(shards_acked=log_pb2.ShardsAcked(session_id="s", shards=[number]))


def on_disk(path: Path) -> list[CommitRecord]:
    return parse(path.read_bytes(), "log")[0]


@on_loop
async def test_many_callers_share_one_sync(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, syncs, sync = tmp_path / "log", 0, os.fdatasync

    def counted(file: int) -> None:
        nonlocal syncs
        syncs += 1
        sync(file)

    log = CommitLog(path, lambda: ())
    monkeypatch.setattr(os, "fdatasync", counted)

    async def caller(number: int) -> None:
        log.append(acked(number))
        await log.synced()
        assert acked(number) in on_disk(path)

    await asyncio.gather(*(caller(number) for number in range(50)))
    assert on_disk(path) == [acked(number) for number in range(50)]
    assert 1 <= syncs <= 3
    await log.synced()
    assert syncs <= 3, "nothing to write"
    await log.close()


@on_loop
async def test_what_could_not_be_written_is_refused_until_it_can(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, append = tmp_path / "log", LogFile.append
    log = CommitLog(path, lambda: ())

    def full(self: LogFile, data: bytes) -> None:
        raise errors.ResourceExhaustedError("full")

    with monkeypatch.context() as patch:
        patch.setattr(LogFile, "append", full)
        log.append(acked(1))
        for attempt in (log.synced, log.synced, log.writable):
            with pytest.raises(errors.ResourceExhaustedError):
                await attempt()
    assert LogFile.append is append
    await log.writable()
    log.append(acked(2))
    await log.close()
    assert on_disk(path) == [acked(1), acked(2)]


@on_loop
async def test_it_is_compacted_when_it_has_grown(tmp_path: Path) -> None:
    path = tmp_path / "log"
    total = 0
    log = CommitLog(path, lambda: [acked(total)], compact_bytes=500)
    for total in range(1, 500):
        log.append(acked(total))
        await log.synced()
        assert on_disk(path)[-1] == acked(total)
    assert path.stat().st_size < 700
    await log.close()
    assert log.restored() == []


@on_loop
async def test_a_snapshot_without_room_costs_nothing_but_room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "log"
    log = CommitLog(path, lambda: [acked(0)], compact_bytes=100)
    log.append(acked(1))
    await log.synced()

    def full(self: LogFile, records: object) -> None:
        raise errors.ResourceExhaustedError("full")

    with monkeypatch.context() as patch:
        patch.setattr(LogFile, "replace", full)
        for number in range(2, 30):
            log.append(acked(number))
            await log.synced()
        await log.compact()
    assert on_disk(path) == [acked(number) for number in range(1, 30)]
    await log.close()
