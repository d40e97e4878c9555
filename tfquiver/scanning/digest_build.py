"""Building a digest: every file is cut into shards, several files at a time, and the columns put together."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from tfquiver import errors, stores
from tfquiver.digests import formats
from tfquiver.digests.digest import Digest
from tfquiver.digests.file_entry import FileEntry
from tfquiver.scanning.cutting import CutPolicy
from tfquiver.scanning.file_cut import CutShard as CutShard
from tfquiver.scanning.file_cut import cut_file as cut_file
from tfquiver.scanning.file_scan import ScannedFile, scan_file
from tfquiver.scanning.scan_pool import ScanPool
from tfquiver.stores import ObjectStore

_INLINE_BYTES = 32 << 20  # less than this is scanned sooner than processes start


@dataclass(frozen=True, slots=True)
class BuildProgress:
    """How far a build is. Bytes are stored bytes; those that a journal saved from being read again count as done."""

    files_done: int
    files: int
    done_bytes: int
    total_bytes: int
    records: int


def build(
    files: Sequence[FileEntry],
    policy: CutPolicy,
    *,
    name: str = "",
    store_for: Callable[[str], ObjectStore] = stores.for_uri,
    journal_dir: Path | None = None,
    workers: int = 1,
    progress: Callable[[BuildProgress], None] = lambda _: None,
) -> Digest:
    """The digest of `files` (as listing.expand gives them), every record's CRCs checked.

    Args:
      journal_dir: what was scanned is kept there, and not scanned again after a kill. The caller removes it once the
        digest is safe. Made when it is not there.
      workers: processes that scan; 1: none, the caller's thread does. With more, `store_for` must be importable by
        name, and the caller's main module must be safe to import.
      progress: called a few times a second from the calling thread; what it raises stops the build.

    Raises:
      DataLossError: a damaged record, naming file and offset; and what the stores raise.
    """
    if journal_dir is not None:
        try:
            journal_dir.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise errors.from_os_error(error, str(journal_dir)) from error
    total_bytes = sum(file.size_bytes for file in files)
    done_bytes = records = files_done = 0

    def report(more_bytes: int, more_records: int) -> None:
        nonlocal done_bytes, records
        done_bytes += more_bytes
        records += more_records
        progress(BuildProgress(files_done, len(files), done_bytes, total_bytes, records))

    scanned: list[ScannedFile] = []
    if workers <= 1 or len(files) <= 1 or total_bytes < _INLINE_BYTES:
        for file in files:
            scanned.append(scan_file(file, store_for(file.uri), policy, journal_dir, report))
            files_done += 1
    else:
        with ScanPool(min(workers, len(files)), policy, store_for, journal_dir) as pool:
            for found in pool.scan(files, report):
                scanned.append(found)
                files_done += 1
    report(0, 0)
    return assemble(name, scanned, policy.format)


def assemble(name: str, scanned: Sequence[ScannedFile], format: str = formats.TFRECORD) -> Digest:
    """The digest of scanned files, in that order."""
    if not scanned:
        raise errors.InvalidArgumentError("a digest needs at least one file")
    rows = np.concatenate([file.rows for file in scanned])
    index = np.repeat(np.arange(len(scanned), dtype=np.uint32), [len(file.rows) for file in scanned])
    files = [file.entry for file in scanned]
    return Digest.build(name, files, rows["hash"], index, rows["offset"], rows["length"], rows["records"], format)
