"""What is remembered of files that were cut: nothing is read twice to be cut, and damage costs a scan only."""

from __future__ import annotations

import contextlib
import os
import sqlite3
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from tests.support.aio import on_loop
from tests.support.gcs_emulator import gcs_emulator, status
from tests.support.store_node import StoreNode, is_shard, write_files
from tfquiver import errors
from tfquiver.digests.file_entry import FileEntry
from tfquiver.listing import listing
from tfquiver.listing.listing_terms import ListingTerms
from tfquiver.scanning.cutting import CutPolicy
from tfquiver.scanning.file_scan import ScannedFile
from tfquiver.scanning.scan_journal import to_rows
from tfquiver.service.node.dataset_scans.file_tables import FileTables
from tfquiver.stores.gcs import GcsStore

POLICY = CutPolicy(4096, 16384, 65536)
TERMS = ListingTerms(POLICY)


def table(uri: str, shards: int = 3) -> tuple[FileEntry, ScannedFile]:
    file = FileEntry(uri, 100 * shards, "1")
    rows = to_rows([(os.urandom(32), 100 * at, 100, at + 1) for at in range(shards)])
    return file, ScannedFile(FileEntry(uri, 100 * shards, "1", "gzip"), rows)


@pytest.mark.slow
@on_loop
async def test_a_k_fold_reads_each_byte_once(tmp_path: Path) -> None:
    files = listing.expand(str(write_files(tmp_path / "data", files=8)))
    async with StoreNode(tmp_path / "cache") as node:
        await node.scan(files, POLICY)
        read = node.meter.store_bytes
        for left_out in range(8):
            fold = [file for at, file in enumerate(files) if at != left_out]
            digest = await node.scan(fold, POLICY)
            for index in (0, digest.num_shards - 1):
                assert is_shard(await node.source.get(digest, index, "node-a"), digest, index)
        assert node.meter.store_bytes == read == sum(file.size_bytes for file in files) + 12 * len(files)


@on_loop
async def test_only_what_is_new_is_read(tmp_path: Path) -> None:
    pattern = write_files(tmp_path / "data", files=3)
    async with StoreNode(tmp_path / "cache") as node:
        before = await node.scan(listing.expand(str(pattern)), POLICY)
    write_files(tmp_path / "more", files=1, records_each=50)
    (tmp_path / "more" / "0.tfrecord").rename(tmp_path / "data" / "1.tfrecord")  # one is replaced
    async with StoreNode(tmp_path / "cache") as node:  # and the node was restarted
        files = listing.expand(str(pattern))
        after = await node.scan(files, POLICY)
        assert node.meter.store_bytes == files[1].size_bytes + 12
        assert after.digest_id != before.digest_id
        other_cut = await node.scan(files[:1], CutPolicy())
        assert node.meter.store_bytes > files[1].size_bytes + 12
        assert other_cut.num_shards < len(before.file_shards(0))


@on_loop
async def test_a_scan_that_failed_goes_on_with_what_it_had_not_done(tmp_path: Path) -> None:
    pattern = write_files(tmp_path / "data", files=12, records_each=60)
    last = tmp_path / "data" / "9.tfrecord"
    good = last.read_bytes()
    last.write_bytes(good[:-10] + bytes([good[-10] ^ 1]) + good[-9:])
    async with StoreNode(tmp_path / "cache") as node:
        with pytest.raises(errors.DataLossError, match=r"9\.tfrecord"):
            await node.scan(listing.expand(str(pattern)), POLICY)
    last.write_bytes(good)
    async with StoreNode(tmp_path / "cache") as node:
        await node.scan(listing.expand(str(pattern)), POLICY)
        assert node.meter.store_bytes < 6 * len(good)  # of twelve; four at a time are under way


@pytest.mark.parametrize("other", [ListingTerms(CutPolicy()), ListingTerms(POLICY, "gs=http://elsewhere")])
def test_tables_are_of_a_policy_and_a_place(tmp_path: Path, other: ListingTerms) -> None:
    tables = FileTables(tmp_path / "files.db")
    file, scanned = table("gs://b/f")
    tables.put(file, TERMS, scanned)
    found = tables.get(file, TERMS)
    assert found is not None
    assert found.entry == scanned.entry
    assert np.array_equal(found.rows, scanned.rows)
    assert tables.get(file, other) is None
    for changed in (FileEntry("gs://b/f", 301, "1"), FileEntry("gs://b/f", 300, "2"), FileEntry("gs://b/g", 300, "1")):
        assert tables.get(changed, TERMS) is None
    tables.close()


def test_a_file_without_a_generation_is_not_remembered(tmp_path: Path) -> None:
    tables = FileTables(tmp_path / "files.db")
    _, scanned = table("x://b/f")
    tables.put(FileEntry("x://b/f", 300, ""), TERMS, scanned)
    assert tables.get(FileEntry("x://b/f", 300, ""), TERMS) is None
    tables.close()


def test_many_tables_take_few_transactions(tmp_path: Path) -> None:
    """One each took longer than to read a small file, and held up all who wanted one."""
    tables = FileTables(tmp_path / "files.db")
    made = [table(f"gs://b/{at}") for at in range(1000)]
    committed = list[str]()
    assert tables._db is not None
    tables._db.set_trace_callback(lambda said: committed.append(said) if said == "COMMIT" else None)
    tables.put_all(made, TERMS)
    tables.put_all(made[:10], TERMS)
    found = tables.get_all([file for file, _ in [*made, table("gs://b/another")]], TERMS)
    assert len(committed) == 4 + 1 + 4
    assert found[-1] is None
    for (_, scanned), one in zip(made, found, strict=False):
        assert one is not None
        assert one.entry == scanned.entry
        assert np.array_equal(one.rows, scanned.rows)
    stored_bytes = tables._bytes
    tables.close()
    again = FileTables(tmp_path / "files.db")
    assert again._bytes == stored_bytes
    again.close()


def test_the_bytes_are_bounded_and_what_was_not_used_goes_first(tmp_path: Path) -> None:
    tables = FileTables(tmp_path / "files.db", max_bytes=20_000)
    made = [table(f"gs://b/{at}", shards=20) for at in range(60)]
    for file, scanned in made:
        tables.put(file, TERMS, scanned)
        assert tables.get(made[0][0], TERMS) is not None
    kept = [tables.get(file, TERMS) is not None for file, _ in made]
    assert kept[0]
    assert kept[-1]
    assert not kept[1]
    assert 5 < sum(kept) < 30
    tables.close()
    again = FileTables(tmp_path / "files.db", max_bytes=20_000)
    assert [again.get(file, TERMS) is not None for file, _ in made] == kept
    again.close()


def garbled(path: Path) -> None:
    path.write_bytes(b"no database" * 1000)


def torn(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-1000])


def flipped(path: Path) -> None:
    """A bit in a row, of which SQLite knows nothing."""
    db = sqlite3.connect(path)
    db.execute("UPDATE tables SET crc = crc + 1")
    db.commit()
    db.close()


@pytest.mark.parametrize("damage", [garbled, torn, flipped])
def test_damage_costs_a_scan_and_nothing_else(tmp_path: Path, damage: Callable[[Path], None]) -> None:
    path = tmp_path / "files.db"
    tables = FileTables(path)
    made = [table(f"gs://b/{at}", shards=200) for at in range(20)]
    for file, scanned in made:
        tables.put(file, TERMS, scanned)
    tables.close()
    damage(path)
    tables = FileTables(path)
    for file, scanned in made:
        found = tables.get(file, TERMS)
        assert found is None or np.array_equal(found.rows, scanned.rows)
        tables.put(file, TERMS, scanned)
    tables.put(*[made[0][0], TERMS, made[0][1]])
    assert tables.get(made[0][0], TERMS) is not None
    tables.close()


def test_who_looks_at_the_file_costs_no_scan_after_the_next_start(tmp_path: Path) -> None:
    path = tmp_path / "files.db"
    file, scanned = table("gs://b/f")
    tables = FileTables(path)
    tables.put(file, TERMS, scanned)
    tables.close()
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as backup:
        backup.execute("BEGIN IMMEDIATE")
        tables = FileTables(path)
        assert tables.get(file, TERMS) is None
        tables.put(file, TERMS, scanned)
        tables.close()
    tables = FileTables(path)
    assert tables.get(file, TERMS) is not None
    tables.close()


def test_a_transaction_that_cannot_begin_costs_a_scan_and_nothing_else(tmp_path: Path) -> None:
    tables, (file, scanned) = FileTables(tmp_path / "t"), table("file:///f")
    tables.put(file, TERMS, scanned)
    assert tables._db is not None
    tables._db.execute("BEGIN")  # as if one before it had neither ended nor been rolled back
    assert tables.get(file, TERMS) is None
    tables.put(file, TERMS, scanned)
    found = tables.get(file, TERMS)
    assert found is not None
    assert found.entry == scanned.entry
    tables.close()


def test_tables_of_another_make_are_begun_anew(tmp_path: Path) -> None:
    with contextlib.closing(sqlite3.connect(tmp_path / "files.db")) as db:
        db.execute("CREATE TABLE tables (key BLOB)")
    tables = FileTables(tmp_path / "files.db")
    file, scanned = table("gs://b/f")
    tables.put(file, TERMS, scanned)
    assert tables.get(file, TERMS) is not None
    tables.close()


def test_a_directory_that_cannot_be_written_costs_scans_only(tmp_path: Path) -> None:
    tables = FileTables(tmp_path / "nowhere" / "files.db")
    file, scanned = table("gs://b/f")
    tables.put(file, TERMS, scanned)
    assert tables.get(file, TERMS) is None
    tables.close()


def test_a_scan_tells_what_it_tries_again(tmp_path: Path) -> None:
    write_files(tmp_path / "data", files=1)
    with gcs_emulator() as emulator:
        store = GcsStore({"endpoint": emulator.address})
        store._client.bucket("bucket").blob("f").upload_from_filename(tmp_path / "data" / "0.tfrecord")
        files = store.list("gs://bucket/*")
        told: list[str] = []

        @on_loop
        async def scan() -> None:
            async with StoreNode(tmp_path / "cache", store_for=lambda _: store) as node:
                emulator.faults += [
                    passed,
                    status(503),
                    status(503),
                ]  # the look at the first bytes passes
                entries = [FileEntry(info.uri, info.size_bytes, info.generation) for info in files]
                await node.scan(entries, POLICY, lambda _bytes, _records, trouble: told.append(trouble))

        scan()
        store.close()
    assert any("gs://bucket/f: " in trouble and "503" in trouble and "trying again" in trouble for trouble in told)
    assert told[-1] == ""


def passed(_handler: object) -> bool:
    return False
