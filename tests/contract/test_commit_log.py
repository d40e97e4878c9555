"""Group commit on a real file: what `synced` promised is there, what failed is tried again."""

from __future__ import annotations

import asyncio
import os
import threading
from pathlib import Path

import pytest

from tests.support.aio import on_loop
from tests.support.logged_acks import acked, on_disk
from tfquiver import errors
from tfquiver.service.coordinator.commit_log import commit_log
from tfquiver.service.coordinator.commit_log.commit_log import CommitLog
from tfquiver.service.coordinator.commit_log.log_file import LogFile


@on_loop
async def test_where_no_thread_can_be_started_nothing_is_told_durable_that_is_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Executors queue what they cannot start a thread for, and carry it out beside what comes next."""
    path, told = tmp_path / "log", list[int]()

    def refused(self: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as no_threads:
        no_threads.setattr(threading.Thread, "start", refused)
        with pytest.raises(errors.UnavailableError, match="commit log: can't start new thread"):
            CommitLog(path, lambda: ())
    log = CommitLog(path, lambda: ())

    async def call(number: int) -> None:
        log.append(acked(number))
        await log.synced()
        told.append(number)

    with monkeypatch.context() as no_threads:
        no_threads.setattr(threading.Thread, "start", refused)
        await call(0)
    calls = []
    for number in range(1, 60):
        calls.append(asyncio.create_task(call(number)))
        await asyncio.sleep(0.0005 if number % 3 == 0 else 0)
    await asyncio.gather(*calls)
    await log.close()
    assert sorted(told) == list(range(60))
    assert on_disk(path) == [acked(number) for number in range(60)]


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
async def test_who_comes_while_it_is_synced_is_served_by_the_next_sync_and_holds_up_nobody_when_gone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, began, go_on, syncs, sync = tmp_path / "log", asyncio.Event(), threading.Event(), 0, os.fdatasync
    loop = asyncio.get_running_loop()

    def held(file: int) -> None:
        nonlocal syncs
        syncs += 1
        loop.call_soon_threadsafe(began.set)
        assert go_on.wait(10)
        sync(file)

    log = CommitLog(path, lambda: ())
    monkeypatch.setattr(os, "fdatasync", held)
    log.append(acked(0))
    await log.writable()
    assert syncs == 0, "nothing has failed: a decision waits for nothing"
    first = asyncio.create_task(log.synced())
    async with asyncio.timeout(10):
        await began.wait()
        later = []
        for number in range(1, 20):
            log.append(acked(number))
            later.append(asyncio.create_task(log.synced()))
        await asyncio.sleep(0)
        for gone in later[::2]:
            gone.cancel()
        go_on.set()
        await first
        await asyncio.gather(*later[1::2])
    assert on_disk(path) == [acked(number) for number in range(20)]
    assert syncs == 2
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
            with pytest.raises(errors.UnavailableError, match="full: what is asked for waits"):
                await attempt()
    assert LogFile.append is append
    await log.writable()
    log.append(acked(2))
    await log.close()
    assert on_disk(path) == [acked(1), acked(2)]


@on_loop
async def test_a_disk_that_does_not_answer_is_trouble_while_it_does_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing has failed, so that nothing was said, and who reads waits for it."""
    path, go_on, sync = tmp_path / "log", threading.Event(), os.fdatasync
    log = CommitLog(path, lambda: ())
    monkeypatch.setattr(commit_log, "HANGS_S", 0.2)
    monkeypatch.setattr(os, "fdatasync", lambda file: go_on.wait(30) and sync(file))
    log.append(acked(0))
    waiting = asyncio.create_task(log.synced())
    await asyncio.sleep(0)
    assert log.trouble == "", "it has just been asked"
    async with asyncio.timeout(10):
        while not log.trouble:
            await asyncio.sleep(0.01)
    assert log.trouble == f"{path}: the disk has not answered for 0 s"
    assert not waiting.done()
    go_on.set()
    await waiting
    assert log.trouble == ""
    await log.close()


@on_loop
async def test_what_nobody_waits_for_is_written_also_when_it_comes_while_something_is(tmp_path: Path) -> None:
    path = tmp_path / "log"
    log = CommitLog(path, lambda: ())
    for number in range(1, 12):
        log.append(acked(number))
        log.flush()
        while len(on_disk(path)) < number:  # that it is written is known to the loop later
            await asyncio.sleep(0)
    assert on_disk(path) == [acked(number) for number in range(1, 12)]
    await log.close()


@pytest.fixture
def syncs(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How much each has brought onto the disk; who may wait for another one does, for an hour."""
    append, sizes_bytes = LogFile.append, list[int]()

    def counted(self: LogFile, data: bytes) -> None:
        append(self, data)
        sizes_bytes.append(len(data))

    monkeypatch.setattr(commit_log, "SHARED_S", 3600.0)
    monkeypatch.setattr(LogFile, "append", counted)
    return sizes_bytes


@on_loop
async def test_what_nobody_waits_for_shares_flushes_and_holds_up_nobody_who_waits(
    tmp_path: Path, syncs: list[int]
) -> None:
    """As where a thousand nodes come back, one after the other."""
    path = tmp_path / "log"
    log = CommitLog(path, lambda: ())
    for number in range(1, 101):
        log.append(acked(number))
        log.flush()
        while not on_disk(path):  # the first one at once
            await asyncio.sleep(0)
        await asyncio.to_thread(int)
    assert 1 <= len(syncs) <= 2
    log.append(acked(101))
    async with asyncio.timeout(20):
        await log.synced()
    assert len(on_disk(path)) == 101
    log.append(acked(102))
    log.flush()
    async with asyncio.timeout(20):
        await log.close()
    assert on_disk(path) == [acked(number) for number in range(1, 103)]
    assert len(syncs) <= 5


@on_loop
async def test_who_may_wait_shares_a_sync_and_goes_with_one_that_begins_before(
    tmp_path: Path, syncs: list[int]
) -> None:
    path = tmp_path / "log"
    log, patient = CommitLog(path, lambda: ()), set[asyncio.Task[None]]()
    syncs.clear()
    for number in range(1, 21):
        log.append(acked(number))
        patient.add(asyncio.create_task(log.synced(3600.0)))
        await asyncio.to_thread(int)
    assert syncs == []
    async with asyncio.timeout(20):
        log.append(acked(21))
        await log.synced()
        await asyncio.gather(*patient)
        assert len(syncs) == 1
        for number in (22, 23):
            log.append(acked(number))
            patient.add(asyncio.create_task(log.synced(0.01)))
            await asyncio.sleep(0)
        await asyncio.gather(*patient)
    assert len(syncs) == 2
    log.append(acked(24))
    last = asyncio.create_task(log.synced(3600.0))
    await asyncio.sleep(0)
    await log.close()
    await last
    assert on_disk(path) == [acked(number) for number in range(1, 25)]


@on_loop
async def test_who_may_wait_and_comes_while_something_is_written_is_not_left_waiting(tmp_path: Path) -> None:
    log = CommitLog(tmp_path / "log", lambda: ())
    async with asyncio.timeout(20):
        for number in range(200):
            log.append(acked(number))
            urgent = asyncio.create_task(log.synced())
            for _ in range(number % 5):
                await asyncio.sleep(0)
            log.append(acked(number))
            await log.synced(0.001)
            await urgent
    await log.close()
