"""The store on real disks that hang, become read-only, or cannot read what they hold."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.contract.test_disk_accounts import A, all_in, put, shards
from tests.contract.test_disk_cache import disk_bytes, noise, path_of, raw_of
from tests.support.disks import Disk, ext4
from tests.support.privileges import needs_disks
from tfquiver import errors
from tfquiver.clock import ManualClock
from tfquiver.service.node.disk.disk_cache import DiskCache
from tfquiver.service.node.disk_quota_books_and_eviction.accounts import AccountTerms
from tfquiver.service.node.disk_quota_books_and_eviction.rules import KeepAll

pytestmark = needs_disks
ENTRY_BYTES = 3 * 4096
SOON_S = 2.0  # a call that waits for a frozen disk waits for ever


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Disk]:
    with ext4(tmp_path) as disk:
        yield disk


def test_only_those_who_use_the_disk_wait_for_one_that_hangs(disk: Disk) -> None:
    made = shards(12)
    store = DiskCache(disk.path / "cache", 8 * ENTRY_BYTES, mode="raw")
    store.use(all_in(A, AccountTerms("a", 6 * ENTRY_BYTES, lru=True), made))
    put(store, made[:6])
    disk.freeze()
    with ThreadPoolExecutor(8) as pool:
        try:
            waiting = [
                pool.submit(store.insert, made[6]),
                pool.submit(store.insert, made[7]),
                pool.submit(store.delete, made[2].hash),
                pool.submit(store.resize, 5 * ENTRY_BYTES),
            ]
            begun = threading.Event()
            threading.Timer(0.3, begun.set).start()
            begun.wait()
            began = time.monotonic()
            for _ in range(100):
                store.hashes()
                assert not store.has_room(made[9].hash, 1 << 40)
                store.used(made[5].hash)
                store.use(all_in(A, AccountTerms("a", 6 * ENTRY_BYTES, lru=True), made))
                store.use(KeepAll())
                assert store.wanted(made[9].hash)
                assert made[8].hash not in store
            assert raw_of(store, made[5].hash) in (made[5].raw, None), "reading does not wait for those who write"
            assert time.monotonic() - began < SOON_S
            assert not any(call.done() for call in waiting)
        finally:
            disk.thaw()
        for call in waiting:
            call.exception(timeout=30)
    assert store.used_bytes == disk_bytes(disk.path / "cache") == len(store) * ENTRY_BYTES <= 5 * ENTRY_BYTES
    assert all(raw_of(store, hash) for hash in store.hashes())


def test_a_shard_that_is_evicted_and_inserted_again_stands(disk: Disk) -> None:
    (shard,) = shards(1)
    store = DiskCache(disk.path / "cache", 8 * ENTRY_BYTES, mode="raw")
    store.insert(shard)
    disk.freeze()
    with ThreadPoolExecutor(4) as pool:
        try:
            calls = [pool.submit(store.delete, shard.hash), *(pool.submit(store.insert, shard) for _ in range(3))]
            assert not calls[0].done()
        finally:
            disk.thaw()
        for call in calls:
            call.result(30)
    if shard.hash not in store:  # the inserts came first, and found it there
        store.insert(shard)
    assert raw_of(store, shard.hash) == shard.raw
    assert store.used_bytes == disk_bytes(disk.path / "cache") == ENTRY_BYTES


def test_a_disk_that_became_read_only_keeps_what_it_holds(disk: Disk) -> None:
    made, clock = shards(30), ManualClock()
    told: dict[bytes, bool] = {}
    store = DiskCache(
        disk.path / "cache", 10 * ENTRY_BYTES, mode="raw", on_change=lambda *change: told.update([change]), clock=clock
    )
    store.use(all_in(A, AccountTerms("a", 10 * ENTRY_BYTES, lru=True), made))
    assert put(store, made[:10]) == 10
    held = set(store.hashes())
    disk.read_only()
    for _ in range(3):
        clock.advance(60)
        assert put(store, made[10:]) == 0
    assert not store.has_room(made[11].hash, ENTRY_BYTES), "nobody needs to fetch for it"
    store.use(all_in(A, AccountTerms("a", 3 * ENTRY_BYTES), made))
    assert not store.settle()
    store.use(all_in(A, AccountTerms("a", 10 * ENTRY_BYTES, lru=True), []))
    assert store.give_up(store.hashes()) == (0, 0, 10)
    store.resize(ENTRY_BYTES)
    store.resize(10 * ENTRY_BYTES)
    assert set(store.hashes()) == held == {hash for hash, here in told.items() if here}
    assert all(raw_of(store, shard.hash) == shard.raw for shard in made[:10])
    assert (store.used_bytes, store.evictions, store.corrupt_entries) == (10 * ENTRY_BYTES, 0, 0)
    disk.read_only(False)
    clock.advance(60)
    store.use(all_in(A, AccountTerms("a", 10 * ENTRY_BYTES, lru=True), made))
    assert store.settle()
    assert put(store, made[10:14]) == 4
    assert (len(store), store.evictions) == (10, 4)
    assert store.used_bytes == disk_bytes(disk.path / "cache")


def test_a_disk_that_refuses_is_not_asked_again_at_once(disk: Disk) -> None:
    clock = ManualClock()
    store = DiskCache(disk.path / "cache", 1 << 20, mode="raw", clock=clock)
    store.insert(noise(100))
    disk.read_only()
    with pytest.raises(errors.ResourceExhaustedError, match="an entry cannot be written: Read-only file system"):
        store.insert(noise(100))
    disk.read_only(False)
    with pytest.raises(errors.ResourceExhaustedError, match="an entry cannot be written: Read-only file system"):
        store.insert(noise(100))
    clock.advance(1)
    store.insert(noise(100))
    assert len(store) == 2


def test_an_entry_whose_sectors_cannot_be_read_is_a_miss(disk: Disk) -> None:
    shard = noise(2 << 20)
    root = disk.path / "cache"
    DiskCache(root, 1 << 30, mode="raw").insert(shard)
    disk.remount()
    store = DiskCache(root, 1 << 30, mode="raw")
    disk.lose_sectors(shard.raw[4096 * 8 : 4096 * 8 + 64])
    opened = store.open_entry(shard.hash)
    if opened:  # its first page may be there
        with pytest.raises(OSError, match="Input/output error"):
            opened.read_stored()
        opened.close()
        assert store.drop_if_damaged(shard.hash, "a reader could not read it")
    assert store.open_entry(shard.hash) is None
    assert shard.hash not in store
    assert store.corrupt_entries == 1


@pytest.mark.parametrize("seed", range(3))
def test_files_that_vanish_while_they_come_back_never_take_another_with_them(tmp_path: Path, seed: int) -> None:
    """Readers find an entry gone while others put it there again: what stands then is what is known."""
    made = shards(4)
    root = tmp_path / "cache"
    store = DiskCache(root, 1 << 30, mode="raw")
    stop = threading.Event()
    rng = random.Random(seed)

    def read() -> None:
        while not stop.is_set():
            for shard in made:
                assert raw_of(store, shard.hash) in (shard.raw, None)

    def write() -> None:
        while not stop.is_set():
            put(store, made)

    threads = [threading.Thread(target=work) for work in (read, read, write, write)]
    for thread in threads:
        thread.start()
    for _ in range(300):
        path_of(root, rng.choice(made).hash).unlink(missing_ok=True)
    stop.set()
    for thread in threads:
        thread.join()
    for shard in made:  # what was deleted last is found to be gone
        raw_of(store, shard.hash)
    assert {shard.hash for shard in made if path_of(root, shard.hash).exists()} == set(store.hashes())
    assert store.used_bytes == disk_bytes(root) == len(store) * ENTRY_BYTES
