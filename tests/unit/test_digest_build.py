from __future__ import annotations

import gzip
import hashlib
import struct
import tracemalloc
import zlib
from pathlib import Path

import google_crc32c
import pytest

from tests.support.records import SMALL_SHARDS, MemoryStore, length_header, stream
from tfquiver import errors
from tfquiver.digests.digest import Digest
from tfquiver.digests.file_entry import FileEntry
from tfquiver.listing import listing
from tfquiver.scanning import digest_build, tfrecord
from tfquiver.scanning.cutting import CutPolicy
from tfquiver.scanning.digest_verify import check_content

PAYLOADS = [(hashlib.sha512(bytes([i % 256, i // 256])).digest() * 3)[: i % 180] for i in range(600)]


def build(store: MemoryStore, journal_dir: Path | None = None, **options: object) -> Digest:
    files = listing.expand("mem://*", lambda _: store)
    return digest_build.build(
        files,
        SMALL_SHARDS,
        store_for=lambda _: store,
        journal_dir=journal_dir,
        **options,  # type: ignore[arg-type]
    )


def three_files() -> MemoryStore:
    data = stream(PAYLOADS)
    return MemoryStore(
        {"mem://a": data, "mem://b": gzip.compress(data), "mem://c": zlib.compress(data), "mem://d": b""}
    )


def test_plain_gzip_zlib_and_empty_files() -> None:
    digest = build(three_files(), name="three")
    digest.verify_ids()
    assert [file.compression for file in digest.files] == ["none", "gzip", "zlib", "none"]
    assert digest.num_records == 1800
    one, two, three, four = (digest.hashes[digest.file_shards(f).start : digest.file_shards(f).stop] for f in range(4))
    assert one.tolist() == two.tolist() == three.tolist()
    assert len(one) > 10
    assert len(four) == 0
    data = stream(PAYLOADS)
    for index in digest.file_shards(1):
        shard = digest.shard(index)
        assert hashlib.sha256(data[shard.offset : shard.offset + shard.length_bytes]).digest() == shard.hash


def test_cut_file_gives_the_bytes_and_their_crc() -> None:
    store = three_files()
    for uri in store.objects:
        info = store.stat(uri)
        shards = list(digest_build.cut_file(FileEntry(uri, info.size_bytes, "1"), store, SMALL_SHARDS))
        assert b"".join(shard.data for shard in shards) == (stream(PAYLOADS) if info.size_bytes else b"")
        for shard in shards:
            assert shard.hash == hashlib.sha256(shard.data).digest()
            assert shard.crc32c == google_crc32c.value(shard.data)


def test_progress_counts_stored_bytes_and_records() -> None:
    store, seen = three_files(), []
    build(store, progress=seen.append)
    total = sum(map(len, store.objects.values()))
    last = seen[-1]
    assert (last.files_done, last.files, last.total_bytes, last.records) == (4, 4, total, 1800)
    assert last.done_bytes == total
    assert [p.done_bytes for p in seen] == sorted(p.done_bytes for p in seen)


class Killed(BaseException):
    """Stands for kill -9: nothing of ours handles it."""


@pytest.mark.slow
def test_a_build_goes_on_where_it_was_stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tfquiver.scanning.file_scan._FLUSH_ROWS", 3)
    expected = build(three_files()).to_bytes()
    for stop_after in range(50, 1800, 150):
        store, journal = three_files(), tmp_path / str(stop_after)

        def stop(now: digest_build.BuildProgress, limit: int = stop_after) -> None:
            if now.records >= limit:
                raise Killed

        with pytest.raises(Killed):
            build(store, journal, progress=stop)
        again = three_files()
        assert build(again, journal).to_bytes() == expected
        if stop_after > 300:  # the first, plain file was under way: it is not read from its start again
            assert ("mem://a", 0, len(stream(PAYLOADS))) not in again.reads
        if stop_after > 700:
            assert not [read for read in again.reads if read[0] == "mem://a"]
        done = three_files()
        assert build(done, journal).to_bytes() == expected
        assert done.reads == []


def test_a_torn_or_damaged_journal_costs_time_and_nothing_else(tmp_path: Path) -> None:
    expected = build(three_files(), tmp_path).to_bytes()
    for path in tmp_path.iterdir():
        data = path.read_bytes()
        for damage in (data[:-1], data[: len(data) // 2], data + b"garbage", data[:40] + b"\0" + data[41:], b"x" * 99):
            path.write_bytes(damage)
            assert build(three_files(), tmp_path).to_bytes() == expected
            assert path.read_bytes() == data


def test_two_writers_of_one_journal_do_no_harm(tmp_path: Path) -> None:
    expected = build(three_files(), tmp_path).to_bytes()
    for path in tmp_path.iterdir():
        path.write_bytes(path.read_bytes() * 2)
    assert build(three_files(), tmp_path).to_bytes() == expected


def test_a_changed_object_does_not_find_the_old_journal(tmp_path: Path) -> None:
    build(three_files(), tmp_path)
    store = three_files()
    store.objects["mem://a"] = stream(PAYLOADS[::-1])
    store.generations["mem://a"] = "2"
    assert build(store, tmp_path).to_bytes() == build(store).to_bytes()


def test_without_generations_nothing_is_taken_from_a_journal(tmp_path: Path) -> None:
    store = three_files()
    store.generations = dict.fromkeys(store.objects, "")
    build(store, tmp_path)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda data: data[:-1], r"truncated"),
        (lambda data: data[:10], r"truncated: the record at offset 0 is cut off .*; is it a TFRecord file\?"),
        (lambda data: data + length_header(1 << 60), r"record at offset 12000 claims 1152921504606846976 bytes"),
        (lambda data: data[:108] + b"\xff" + data[109:], r"damaged length CRC of the record at offset 100"),
        (lambda data: data[:150] + b"\xff" + data[151:], r"damaged data CRC of the record at offset 100"),
    ],
)
def test_damaged_files_are_named(damage, message: str) -> None:  # type: ignore[no-untyped-def]
    store = MemoryStore(
        {"mem://good": stream([b"x"]), "mem://z": damage(stream([bytes([i]) * 84 for i in range(120)]))}
    )
    with pytest.raises(errors.DataLossError, match="mem://z: .*" + message):
        build(store)


def test_verify_finds_what_changed_and_goes_on() -> None:
    store = three_files()
    digest = build(store)
    assert list(check_content(digest, lambda _: store)) == []
    shard = digest.shard(2)
    data = bytearray(store.objects["mem://a"])
    data[shard.offset] ^= 1
    store.objects["mem://a"] = bytes(data)
    store.objects["mem://b"] = gzip.compress(stream(PAYLOADS) + stream([b"more"]))
    store.objects["mem://c"] = zlib.compress(stream(PAYLOADS[:-200]))
    del store.objects["mem://d"]
    store.objects["mem://d"] = b""
    problems = list(check_content(digest, lambda _: store))
    assert (problems[0].uri, problems[0].offset) == ("mem://a", shard.offset)
    assert {problem.uri for problem in problems} == {"mem://a", "mem://b", "mem://c"}
    store.generations["mem://a"] = "9"
    assert next(check_content(digest, lambda _: store)).what == "mem://a: changed"


def test_nothing_to_build_from() -> None:
    with pytest.raises(errors.InvalidArgumentError, match="at least one file"):
        digest_build.build([], CutPolicy())


class OneHugeRecord(MemoryStore):
    """A file of one 300 MB record that exists only while it is read."""

    payload_bytes = 300 << 20
    piece = bytes(1 << 20)

    def __init__(self) -> None:
        crc = 0
        for _ in range(300):
            crc = google_crc32c.extend(crc, self.piece)
        self.head = length_header(self.payload_bytes)
        self.foot = struct.pack("<I", tfrecord.masked(crc))

    def read(self, uri: str, offset: int, length: int, generation: str, deadline_s: float) -> bytes:
        head = self.head[offset : offset + length]
        foot = self.foot[-(offset + length - self.payload_bytes - 12) :] if offset + length > 12 + (300 << 20) else b""
        return head + bytes(length - len(head) - len(foot)) + foot


@pytest.mark.slow
def test_a_300_mb_record_is_digested_in_bounded_memory() -> None:
    store = OneHugeRecord()
    entry = FileEntry("mem://huge", store.payload_bytes + 16, "1")
    tracemalloc.start()
    try:
        shards = list(digest_build.cut_file(entry, store, CutPolicy(), keep_data=False))
        assert tracemalloc.get_traced_memory()[1] < 24 << 20
    finally:
        tracemalloc.stop()
    assert [(shard.records, shard.length_bytes) for shard in shards] == [(1, entry.size_bytes)]
