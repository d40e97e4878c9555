"""A commit log does not grow for ever: it is written anew with what holds, and nothing is lost when that fails."""

from __future__ import annotations

import asyncio
import errno
import itertools
import threading
from functools import partial
from pathlib import Path

import pytest

from tests.support.aio import on_loop
from tests.support.logged_acks import acked, on_disk, some
from tfquiver import durable, errors
from tfquiver.proto.tfquiver.v1.commit_log_pb2 import CommitRecord
from tfquiver.service.coordinator.commit_log import log_file
from tfquiver.service.coordinator.commit_log.commit_log import CommitLog, Snapshot


@pytest.mark.slow
@on_loop
async def test_it_is_compacted_when_it_has_grown(tmp_path: Path) -> None:
    path = tmp_path / "log"
    total = 0
    sizes: list[int] = []
    log = CommitLog(path, lambda: [partial(some, total)], compact_bytes=500)
    for total in range(1, 500):
        log.append(acked(total))
        await log.synced()
        assert on_disk(path)[-1] == acked(total)
        sizes.append(path.stat().st_size)
    assert any(after < before for before, after in itertools.pairwise(sizes)), "without being asked to"
    await log.close()
    assert log.restored() == []


@on_loop
async def test_a_snapshot_without_room_costs_nothing_but_room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "log"
    log = CommitLog(path, lambda: [partial(some, 0)], compact_bytes=100)
    log.append(acked(1))
    await log.synced()

    def full(self: object, *_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    number = 1
    for broken, step in ((log_file.NewLog, "write"), (Path, "rename")):
        with monkeypatch.context() as patch:
            patch.setattr(broken, step, full)
            for _ in range(30):
                number += 1
                log.append(acked(number))
                await log.synced()
            await log.compact()
        assert on_disk(path) == [acked(earlier) for earlier in range(1, number + 1)]
    await log.close()


@on_loop
async def test_the_log_goes_on_while_a_snapshot_is_written(tmp_path: Path) -> None:
    path, gate = tmp_path / "log", threading.Event()
    state: list[CommitRecord] = []

    def slow(records: list[CommitRecord]) -> list[CommitRecord]:
        assert gate.wait(10)
        return records

    def append(number: int) -> None:
        state.append(acked(number))
        log.append(state[-1])

    log = CommitLog(path, lambda: [partial(slow, list(state))])
    for number in range(1, 4):
        append(number)
    compaction = asyncio.create_task(log.compact())
    async with asyncio.timeout(5):
        for number in range(4, 10):
            await asyncio.sleep(0)
            append(number)
            await log.synced()
            assert on_disk(path) == state
        append(10)  # nobody waits for this one
        gate.set()
        await compaction
    assert on_disk(path) == state
    append(11)
    await log.close()
    assert on_disk(path) == state, "each once"


@on_loop
async def test_a_new_log_whose_place_is_not_durable_yet_holds_each_record_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "log"
    state = [acked(1)]
    log = CommitLog(path, lambda: [partial(list, list(state))])
    log.append(acked(1))
    await log.synced()

    def broken(directory: Path) -> None:
        raise OSError(errno.EIO, "Input/output error")

    with monkeypatch.context() as patch:
        patch.setattr(durable, "sync_directory", broken)
        compaction = asyncio.create_task(log.compact())
        await asyncio.sleep(0)
        state.append(acked(2))
        log.append(acked(2))
        await compaction
        with pytest.raises(errors.UnavailableError, match="Input/output"):
            await log.synced()
    await log.synced()
    await log.close()
    assert on_disk(path) == state


@on_loop
@pytest.mark.parametrize("in_thread", [False, True])
async def test_a_snapshot_that_fails_does_not_stop_the_log(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, in_thread: bool
) -> None:
    path, fails = tmp_path / "log", True

    def fail() -> list[CommitRecord]:
        raise ZeroDivisionError("nobody has thought of this")

    def snapshot() -> Snapshot:
        if not fails:
            return [partial(some, total)]
        return [fail] if in_thread else [partial(some, record.shards_acked.shards[0]) for record in fail()]

    log = CommitLog(path, snapshot, compact_bytes=100)
    for total in range(1, 30):
        log.append(acked(total))
        await log.synced()
        await log.writable()
    await log.compact()
    assert "nobody has thought of this" in caplog.text
    caplog.clear()
    assert on_disk(path) == [acked(number) for number in range(1, 30)]
    fails = False
    await log.compact()
    assert on_disk(path) == [acked(29)]
    await log.close()
    assert list(tmp_path.iterdir()) == [path]
