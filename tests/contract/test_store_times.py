"""What a node's reads of the store take is told: of those that fail too, not the pauses of a limit."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from tests.support.aio import on_loop
from tests.support.store_node import build, write_files
from tfquiver import errors, stores
from tfquiver.clock import ManualClock
from tfquiver.service.node.reading_the_object_store.metered_store import Meter
from tfquiver.service.node.reading_the_object_store.timed_store import Stopwatch, TimedStore
from tfquiver.service.node.shards_from_disk_other_nodes_or_store.fetcher import Fetcher
from tfquiver.stores import ObjectInfo
from tfquiver.stores.local import LocalStore


class Slow:
    """Takes two seconds a read, by a clock of its own; every second one fails."""

    remote = False

    def __init__(self, clock: ManualClock) -> None:
        self._clock, self._asked = clock, 0

    def list(self, pattern: str) -> list[ObjectInfo]:
        return []

    def stat(self, uri: str) -> ObjectInfo:
        return ObjectInfo(uri, 1, "1")

    def read(self, uri: str, offset: int, length: int, generation: str, deadline_s: float) -> bytes:
        self._clock.advance(2.0)
        self._asked += 1
        if not self._asked % 2:
            raise errors.UnavailableError("away")
        return bytes(length)

    def close(self) -> None:
        raise AssertionError("it is everybody's")


def test_reads_that_fail_bring_nothing_and_took_their_time() -> None:
    clock = ManualClock()
    watch = Stopwatch(clock)
    store = TimedStore(Slow(clock), watch)
    assert len(store.read("file:///x", 0, 10, "1", 1.0)) == 10
    with pytest.raises(errors.UnavailableError):
        store.read("file:///x", 0, 10, "1", 1.0)
    store.close()
    reads = watch.reads()
    assert (reads.reads, reads.size_bytes, reads.busy_s, reads.request_s, reads.elapsed_s) == (2, 10, 4.0, 4.0, 4.0)


def test_threads_count_each() -> None:
    watch, barrier = Stopwatch(), threading.Barrier(8)

    class Waits(Slow):
        def read(self, uri: str, offset: int, length: int, generation: str, deadline_s: float) -> bytes:
            barrier.wait(20)  # all of them are under way
            return bytes(length)

    store = TimedStore(Waits(ManualClock()), watch)
    threads = [threading.Thread(target=store.read, args=("file:///x", 0, 10, "1", 1.0)) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    reads = watch.reads()
    assert (reads.reads, reads.size_bytes) == (8, 80)
    assert reads.busy_s <= reads.request_s <= 8 * reads.busy_s


@on_loop
async def test_a_nodes_misses_are_timed(tmp_path: Path) -> None:
    digest = build(write_files(tmp_path / "data"))
    assert isinstance(stores.for_uri(digest.files[0].uri), LocalStore)
    fetcher = Fetcher(Meter(), lambda shard: None, deadline_s=20.0)
    for index in range(5):
        await fetcher.fetch(digest, digest.shard(index), keep=False)
    reads = fetcher.watch.reads()
    await fetcher.close()
    assert (reads.reads, reads.size_bytes) == (5, int(digest.lengths[:5].sum()))
    assert 0 < reads.busy_s <= reads.request_s <= reads.elapsed_s
