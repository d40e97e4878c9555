"""The store on a real directory: I-3, I-4, I-5, and the directories that cannot be one."""

from __future__ import annotations

import hashlib
import os
import random
import shutil
import stat
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.support.disks import tmpfs
from tests.support.privileges import needs_mounts
from tfquiver import errors
from tfquiver.clock import ManualClock
from tfquiver.service.node.disk import codec, entry
from tfquiver.service.node.disk.disk_cache import DiskCache
from tfquiver.service.node.sealed_memory_of_checked_shards.verified import VerifiedShard

NOISE = random.Random(1)


def noise(length: int) -> VerifiedShard:
    return verified(NOISE.randbytes(length))


def verified(raw: bytes) -> VerifiedShard:
    return VerifiedShard.check(hashlib.sha256(raw).digest(), raw, "test")


def raw_of(store: DiskCache, hash: bytes) -> bytes | None:
    opened = store.open_entry(hash)
    if opened is None:
        return None
    try:
        stored = opened.read_stored()
        return (
            stored if opened.header.codec == entry.RAW else codec.decompress(stored, opened.header.raw_length, "test")
        )
    finally:
        opened.close()


def path_of(root: Path, hash: bytes) -> Path:
    return root / "objects" / hash.hex()[:2] / hash.hex()[2:4] / hash.hex()


def disk_bytes(root: Path) -> int:
    files = [path for part in ("objects", "tmp") for path in (root / part).rglob("*") if path.is_file()]
    return sum(-(-path.stat().st_size // 4096) * 4096 for path in files)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "cache"


@pytest.mark.parametrize("mode", ["auto", "raw", "zstd"])
def test_what_goes_in_comes_out_also_after_a_restart(root: Path, mode: codec.Mode) -> None:
    shards = [noise(1), noise(5000), noise(2 << 20), verified(b"text " * 100_000)]
    told: list[tuple[bytes, bool]] = []
    store = DiskCache(root, 1 << 30, mode=mode, on_change=lambda *change: told.append(change))
    for shard in [*shards, *shards]:
        store.insert(shard)
    assert told == [(shard.hash, True) for shard in shards]
    for again in (store, DiskCache(root, 1 << 30)):
        assert set(again.hashes()) == {shard.hash for shard in shards}
        assert [raw_of(again, shard.hash) for shard in shards] == [shard.raw for shard in shards]
        assert again.used_bytes == disk_bytes(root)
    assert raw_of(store, bytes(32)) is None


def test_nobody_else_can_look_inside(root: Path) -> None:
    DiskCache(root, 1 << 30).insert(noise(100))
    for path in [root, *root.rglob("*")]:
        if path.is_dir() and path.parent in (root.parent, root):
            assert stat.S_IMODE(path.stat().st_mode) == 0o700
        elif path.is_file():
            assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_bytes_with_another_hash_are_never_a_shard() -> None:
    with pytest.raises(errors.DataLossError, match="gs://bucket/file at 7"):
        VerifiedShard.check(bytes(32), b"abc", "gs://bucket/file at 7")


def another(path: Path) -> Path:
    return next(found for found in path.parents[2].rglob("*") if found.is_file() and found != path)


DAMAGE = {
    "truncated to nothing": lambda path: os.truncate(path, 0),
    "truncated in the header": lambda path: os.truncate(path, 100),
    "truncated to the header": lambda path: os.truncate(path, 4096),
    "truncated in the body": lambda path: os.truncate(path, 4096 + 100),
    "longer": lambda path: os.truncate(path, 4096 + 6000),
    "deleted": os.unlink,
    "a directory": lambda path: (path.unlink(), path.mkdir()),
    "a link": lambda path: (path.rename(path.parent / "x"), path.symlink_to(path.parent / "x")),
    "header flipped": lambda path: flip(path, 9),
    "padding flipped": lambda path: flip(path, 3000),
    "another entry": lambda path: shutil.copy(another(path), path),
}  # fmt: skip


def flip(path: Path, at: int) -> None:
    with path.open("r+b") as file:
        file.seek(at)
        byte = file.read(1)[0]
        file.seek(at)
        file.write(bytes([byte ^ 0x10]))


@pytest.mark.parametrize("damage", DAMAGE)
@pytest.mark.parametrize("restart", [False, True])
def test_a_damaged_entry_is_a_miss_and_can_be_stored_again(root: Path, damage: str, restart: bool) -> None:
    shard, other = noise(5000), noise(7000)
    store = DiskCache(root, 1 << 30)
    store.insert(shard)
    store.insert(other)
    DAMAGE[damage](path_of(root, shard.hash))
    gone: list[bytes] = []
    if restart:
        store = DiskCache(root, 1 << 30)
    store._on_change = lambda hash, held: held or gone.append(hash)
    was_there = shard.hash in store
    assert raw_of(store, shard.hash) is None
    assert gone == [shard.hash] * was_there
    assert store.corrupt_entries == was_there
    if damage == "a directory":
        return  # nothing of ours: it stays, and the shard is not kept
    store.insert(shard)
    assert raw_of(store, shard.hash) == shard.raw
    assert raw_of(store, other.hash) == other.raw
    assert store.used_bytes == disk_bytes(root) - (12288 if damage == "a link" else 0)


@pytest.mark.parametrize("mode", ["raw", "zstd"])
def test_a_flipped_body_is_found_when_a_reader_complains(root: Path, mode: codec.Mode) -> None:
    shard = verified(b"some text " * 5000)
    store = DiskCache(root, 1 << 30, mode=mode)
    store.insert(shard)
    assert not store.drop_if_damaged(shard.hash, "a reader that lies")
    flip(path_of(root, shard.hash), 4096 + 10)
    assert store.drop_if_damaged(shard.hash, "a reader that does not")
    assert shard.hash not in store
    assert store.used_bytes == disk_bytes(root) == 0
    assert store.drop_if_damaged(shard.hash, "it is not here at all")
    assert store.corrupt_entries == 1


def test_an_entry_that_is_being_read_can_be_deleted(root: Path) -> None:
    shard = noise(50_000)
    store = DiskCache(root, 1 << 30)
    store.insert(shard)
    opened = store.open_entry(shard.hash)
    assert opened
    store.delete(shard.hash)
    assert store.open_entry(shard.hash) is None
    assert opened.read_stored() == shard.raw
    opened.close()
    assert store.corrupt_entries == 0


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.integers(1, 30_000), max_size=12), st.integers(0, 60_000), st.integers(0, 60_000), st.integers(0, 9))
def test_the_quota_holds_at_every_moment_and_a_lower_one_evicts(
    tmp_path: Path, sizes: list[int], quota_bytes: int, later_bytes: int, seed: int
) -> None:
    root = tmp_path / f"{NOISE.getrandbits(64):x}"
    store = DiskCache(root, quota_bytes, mode="raw")
    kept = []
    for size in sizes:
        shard = noise(size)
        try:
            store.insert(shard)
            kept.append(shard)
        except errors.NeverFitsError:
            assert entry.disk_bytes(4096 + size) > quota_bytes
        except errors.ResourceExhaustedError:
            assert store.used_bytes + entry.disk_bytes(4096 + size) > quota_bytes
        assert store.used_bytes == disk_bytes(root) <= quota_bytes
    assert store.refusals.inserts == len(sizes) - len(kept)
    assert store.refusals.by_disk == 0, "of all of them it was the quota"
    for smaller in (DiskCache(root, later_bytes, rng=random.Random(seed)), store):
        smaller.resize(later_bytes)
        assert smaller.used_bytes <= later_bytes
    store = DiskCache(root, later_bytes)
    assert store.used_bytes == disk_bytes(root) <= later_bytes
    assert all(raw_of(store, shard.hash) in (shard.raw, None) for shard in kept)


def test_the_quota_holds_while_many_insert_at_once(root: Path) -> None:
    store = DiskCache(root, 200_000, mode="raw")
    shards = [noise(20_000) for _ in range(12)]
    most: list[int] = []
    stop = threading.Event()

    def watch() -> None:
        while not stop.is_set():
            try:
                most.append(disk_bytes(root))
            except FileNotFoundError:
                continue  # renamed while it was looked at

    def insert() -> None:
        for shard in shards:
            try:
                store.insert(shard)
            except errors.ResourceExhaustedError:
                continue

    watcher = threading.Thread(target=watch)
    writers = [threading.Thread(target=insert) for _ in range(4)]
    watcher.start()
    for thread in writers:
        thread.start()
    for thread in writers:
        thread.join()
    stop.set()
    watcher.join()
    assert max(most) <= 200_000
    assert store.used_bytes == disk_bytes(root) == len(store) * 24_576
    assert len(store) == 8


def test_a_start_deletes_what_a_kill_left_half_written_and_leaves_strangers_alone(root: Path) -> None:
    store = DiskCache(root, 1 << 30)
    shard = noise(100)
    store.insert(shard)
    half = root / "tmp" / f"{bytes(32).hex()}.7.part"
    half.write_bytes(b"half")
    strangers = [
        root / "tmp" / "notes.txt",
        root / "objects" / "README",
        path_of(root, shard.hash).parent / ("ab" * 32),
    ]
    for path in strangers:
        path.write_bytes(b"mine")
    assert DiskCache(root, 1 << 30).hashes() == [shard.hash]
    assert not half.exists()
    assert all(path.exists() for path in strangers)


@pytest.mark.parametrize("place", ["", "objects", "tmp"])
def test_a_file_in_the_place_of_a_directory_is_named(root: Path, place: str) -> None:
    (root / place).parent.mkdir(parents=True, exist_ok=True)
    (root / place).write_bytes(b"")
    with pytest.raises(errors.InvalidArgumentError, match=f"{root / place}: a file is in the way"):
        DiskCache(root, 1 << 30)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    with tmpfs(tmp_path / "small", 1 << 20) as mounted:
        yield mounted


@needs_mounts
def test_a_full_disk_refuses_inserts_and_nothing_else(small_disk: Path) -> None:
    clock = ManualClock()
    store = DiskCache(small_disk, 1 << 30, mode="raw", clock=clock)
    assert store.refusals.ms_ago() == {}
    kept = []
    with pytest.raises(errors.ResourceExhaustedError, match=r"of the disk are free, of which entries leave 52\.4 kB"):
        while True:
            shard = noise(200_000)
            store.insert(shard)
            kept.append(shard)
    assert 1 <= len(kept) <= 5
    assert list((small_disk / "tmp").iterdir()) == []
    assert store.used_bytes == disk_bytes(small_disk)
    assert all(raw_of(store, shard.hash) == shard.raw for shard in kept)
    assert not store.has_room(kept[0].hash, 200_000), "nothing is to be fetched that could not be kept"
    assert " of the disk are free" in store.lacking(kept[0].hash, 200_000), "and it is known why"
    (small_disk / "digest").write_bytes(bytes(40_000))  # there is room for what is no entry
    store.delete(kept.pop().hash)
    store.insert(noise(150_000))
    assert store.refusals.inserts == store.refusals.by_disk == 1
    clock.advance(90.0)
    assert store.refusals.ms_ago() == {"refused_ms": 90_000, "refused_by_disk_ms": 90_000}


@needs_mounts
def test_a_disk_that_cannot_be_written_is_named(small_disk: Path) -> None:
    store = DiskCache(small_disk / "cache", 1 << 30)
    shard = noise(1000)
    store.insert(shard)
    subprocess.run(["mount", "-o", "remount,ro", small_disk], check=True)
    with pytest.raises(
        errors.PermissionError_, match=r"small/other: Read-only file system; the cache needs a directory"
    ):
        DiskCache(small_disk / "other", 1 << 30)
    with pytest.raises(errors.ResourceExhaustedError, match="Read-only file system"):
        store.insert(noise(1000))
    assert raw_of(store, shard.hash) == shard.raw


@needs_mounts
def test_objects_on_another_file_system_are_refused(small_disk: Path) -> None:
    with tmpfs(small_disk / "objects", 4096), pytest.raises(errors.InvalidArgumentError, match="different file system"):
        DiskCache(small_disk, 1 << 30)


@pytest.mark.parametrize("place", ["objects", "tmp"])
def test_a_link_that_somebody_has_put_there_is_not_followed(root: Path, tmp_path: Path, place: str) -> None:
    target = tmp_path / "target"
    target.mkdir(mode=0o755)
    root.mkdir()
    (root / place).symlink_to(target)
    with pytest.raises(errors.InvalidArgumentError, match=f"{root / place}: a symbolic link is in the way"):
        DiskCache(root, 1 << 30)
    assert stat.S_IMODE(target.stat().st_mode) == 0o755


@pytest.mark.parametrize("part", ["objects", "tmp", "tmp and objects"])
def test_what_is_deleted_under_a_running_store_comes_back(root: Path, part: str) -> None:
    store = DiskCache(root, 1 << 30)
    shard, other = noise(5000), noise(100)
    store.insert(shard)
    for name in part.split(" and "):
        shutil.rmtree(root / name)
    assert raw_of(store, shard.hash) == (shard.raw if part == "tmp" else None)
    store.insert(shard)
    store.insert(other)
    assert [raw_of(store, its.hash) for its in (shard, other)] == [shard.raw, other.raw]
    assert store.used_bytes == disk_bytes(root)
    assert {stat.S_IMODE((root / name).stat().st_mode) for name in ("objects", "tmp")} == {0o700}


def test_a_store_whose_directory_is_gone_does_not_make_it_again(root: Path) -> None:
    store = DiskCache(root, 1 << 30)
    shutil.rmtree(root)
    with pytest.raises(errors.ResourceExhaustedError, match="No such file or directory"):
        store.insert(noise(10))
    assert not root.exists()


def test_a_quota_that_there_is_no_room_for_is_said(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    DiskCache(tmp_path / "much", 1 << 60)
    assert f"{tmp_path}/much: a quota of 1.2 EB, and room for " in caplog.text
    caplog.clear()
    DiskCache(tmp_path / "little", 1 << 20)
    DiskCache(tmp_path / "as it comes", None)
    assert not caplog.records
