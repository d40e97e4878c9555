"""Scanning one file for a digest: cut, count, keep a journal. Runs in whichever process is given the file."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from tfquiver.digests.digest import Digest
from tfquiver.digests.file_entry import FileEntry
from tfquiver.scanning import streams
from tfquiver.scanning.cutting import CutPolicy
from tfquiver.scanning.file_cut import cut_file, settled
from tfquiver.scanning.scan_journal import ROW, Rows, ScanJournal, to_rows
from tfquiver.stores import CountedStore, ObjectStore

Report = Callable[[int, int], None]  # (stored bytes, records) more than at the last call; may raise to stop the scan
_FLUSH_ROWS = 4096
_FLUSH_BYTES = 64 << 20


@dataclass(frozen=True, slots=True)
class ScannedFile:
    entry: FileEntry  # resolved
    rows: Rows


def scanned_of(digest: Digest, file_index: int) -> ScannedFile:
    """One of its files, as it was scanned."""
    shards = digest.file_shards(file_index)
    its = slice(shards.start, shards.stop)
    rows = np.zeros(len(shards), ROW)
    rows["hash"], rows["offset"], rows["length"] = digest.hashes[its], digest.offsets[its], digest.lengths[its]
    rows["records"] = digest.records[its]
    return ScannedFile(digest.files[file_index], rows)


def scan_file(
    entry: FileEntry, store: ObjectStore, policy: CutPolicy, journal_dir: Path | None, report: Report
) -> ScannedFile:
    """Cuts and hashes one file, from where its journal ends. Raises as cut_file does."""
    # Without a generation nothing says that the file is still the one the journal is about.
    if journal_dir is None or not entry.generation:
        entry = settled(entry, store, policy)
        shards = cut_file(entry, _counted(store, report), policy, keep_data=False)
        rows = []
        for shard in shards:
            report(0, shard.records)
            rows.append((shard.hash, shard.offset, shard.length_bytes, shard.records))
        return ScannedFile(entry, to_rows(rows))
    journal = ScanJournal(journal_dir, entry, policy)
    try:
        return _scan_on(entry, store, policy, journal, report)
    finally:
        journal.close()


def _scan_on(
    entry: FileEntry, store: ObjectStore, policy: CutPolicy, journal: ScanJournal, report: Report
) -> ScannedFile:
    known = journal.rows
    done_bytes = int(known["offset"][-1] + known["length"][-1]) if len(known) else 0
    records = int(known["records"].sum(dtype="u8"))
    if journal.compression is not None:
        report(entry.size_bytes, records)
        return ScannedFile(streams.with_compression(entry, journal.compression), known)
    entry = settled(entry, store, policy)
    plain = entry.compression == "none"
    if plain:
        report(done_bytes, records)
    # A compressed stream has no way in but its start: what the journal has of it is cut again and skipped.
    shards = cut_file(entry, _counted(store, report), policy, start=done_bytes if plain else 0, keep_data=False)
    fresh: list[tuple[bytes, int, int, int]] = []
    unwritten_bytes = 0
    for shard in shards:
        report(0, shard.records)
        if shard.offset < done_bytes:
            continue
        fresh.append((shard.hash, shard.offset, shard.length_bytes, shard.records))
        unwritten_bytes += shard.length_bytes
        if len(fresh) >= _FLUSH_ROWS or unwritten_bytes >= _FLUSH_BYTES:
            journal.append(fresh)
            fresh, unwritten_bytes = [], 0
    journal.append(fresh)
    journal.finish(entry.compression)
    return ScannedFile(entry, journal.rows)


def _counted(store: ObjectStore, report: Report) -> CountedStore:
    """Reads are reported in stored bytes, whatever the compression."""
    return CountedStore(store, lambda size_bytes: report(size_bytes, 0))
