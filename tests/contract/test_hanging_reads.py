"""One read of the disk that does not come back is said, and is the disk's trouble."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path

import pytest

from tests.support.aio import on_loop
from tests.support.cluster import wait_until
from tests.support.log_lines import capture_log
from tfquiver.clock import ManualClock
from tfquiver.service.node.disk.disk_cache import DiskCache
from tfquiver.service.node.sealed_memory_of_checked_shards.hot import HotSet
from tfquiver.service.node.shards_from_disk_other_nodes_or_store import disk_reads
from tfquiver.service.node.shards_from_disk_other_nodes_or_store.disk_reads import DiskReads


@on_loop
async def test_one_read_that_hangs_is_said_and_others_go_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Four had to, at once, before anybody heard of it; a trainer that read alone waited without a word."""
    monkeypatch.setattr(disk_reads, "HANGS_S", 0.05)
    clock = ManualClock()
    disk = DiskCache(tmp_path, 1 << 20, clock=clock)
    reads, answers = DiskReads(disk, HotSet(1 << 20)), threading.Event()
    with capture_log() as lines:
        waits = asyncio.create_task(reads.run(answers.wait, 60))
        try:
            await asyncio.to_thread(wait_until, lambda: bool(disk.hanging._since_s), "it waits")
            assert not disk.trouble
            clock.advance(41.0)
            assert disk.trouble == f"{tmp_path}: the disk has not answered for 41 s"
            assert not reads.hang, "three threads are there for other reads"
            assert await reads.run(int, "7") == 7
            await asyncio.to_thread(wait_until, lambda: bool(lines), "it is said")
        finally:
            answers.set()
    assert await waits and not disk.trouble
    assert lines[0] == f"{tmp_path}: the disk has not answered for 41 s: readers of what is there wait for it"
    await reads.close()
