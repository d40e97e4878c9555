"""What scans have found, file by file: so that nothing is read twice to be cut, whatever listings it is part of.

A table is named by its file's URI, size and generation, the cutting policy and the place of the store: a changed file
simply has none. What this node has cut itself stands here, and what others have cut for it. Each is durable when its
file is done, which makes them the journal of a scan, too: one that fails after hours goes on with the files it had not
finished.

One SQLite file, held exclusively (so that nothing of it is memory-mapped: a failing disk must not kill the node); each
table with its checksum. A file that is damaged is thrown away: it only costs another scan.
"""

from __future__ import annotations

import contextlib
import sqlite3
import threading
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple, TypeVar

import google_crc32c
import numpy as np
from absl import logging

from tfquiver import durable, errors
from tfquiver.digests.file_entry import COMPRESSIONS, FileEntry
from tfquiver.listing.listing_terms import ListingTerms
from tfquiver.log_files_and_lines.rare_lines import every_n_seconds
from tfquiver.scanning.file_scan import ScannedFile
from tfquiver.scanning.scan_journal import ROW
from tfquiver.scanning.streams import with_compression
from tfquiver.service.node.hanging_disk.hanging import Hanging
from tfquiver.service.node.hanging_disk.patient_thread import PATIENCE_S, PatientThread

MAX_BYTES = 1 << 30
_ROW_BYTES = 64  # of SQLite's own, about, for each table
T = TypeVar("T")
_TOGETHER = 256  # tables in one transaction: each writes a page of the index and one of the tables
_PRUNED_SHARE = 0.1  # goes at once when there is no room
_DAMAGE = (sqlite3.SQLITE_ERROR, sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_FORMAT)
_SETUP = """
PRAGMA locking_mode = EXCLUSIVE;
PRAGMA journal_mode = WAL;
PRAGMA synchronous = NORMAL;
CREATE TABLE IF NOT EXISTS tables (
  key BLOB PRIMARY KEY, used INTEGER NOT NULL, compression INTEGER NOT NULL, crc INTEGER NOT NULL, rows BLOB NOT NULL
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS by_use ON tables (used);
"""


class FileTables:
    """Thread-safe; blocks on the disk, for some seconds at most. Trouble with the disk is logged and costs a scan,
    never fails one, nor holds one up.

    Args:
      path: of the SQLite file; one process's alone.
      max_bytes: of all tables; those that were used longest ago go first.
      hanging: of the disk that it is on.
    """

    def __init__(
        self,
        path: Path,
        max_bytes: int = MAX_BYTES,
        patience_s: float = PATIENCE_S,
        hanging: Hanging | None = None,
    ) -> None:
        self._path, self._max_bytes = path, max_bytes
        self._thread = PatientThread("tables", patience_s, hanging)
        self._lock = threading.Lock()
        self._db: sqlite3.Connection | None = None
        self._bytes = self._turn = 0
        with self._lock:
            self._open()

    def get(self, file: FileEntry, terms: ListingTerms) -> ScannedFile | None:
        """The file as it was cut. None: not known; or it has no generation to tell whether it is the same."""
        return self.get_all([file], terms)[0]

    def get_all(self, files: Sequence[FileEntry], terms: ListingTerms) -> list[ScannedFile | None]:
        """As `get`, of each: in transactions of some hundreds, between which others have their turn."""
        found: list[ScannedFile | None] = []
        for some in in_parts(files):
            try:
                found += self._thread.run(self._got, some, terms)
            except errors.UnavailableError as error:
                every_n_seconds(logging.WARNING, "%s: %s: what was scanned before is not known", 60, self._path, error)
                found += [None] * len(some)
        return found

    def put(self, file: FileEntry, terms: ListingTerms, scanned: ScannedFile) -> None:
        self.put_all([(file, scanned)], terms)

    def put_all(self, scanned: Sequence[tuple[FileEntry, ScannedFile]], terms: ListingTerms) -> None:
        """Each in the place of what was known of that file; as `get_all`."""
        rows = [_Table.of(file, terms, one) for file, one in scanned if file.generation]
        for some in in_parts([row for row in rows if len(row.packed) <= self._max_bytes]):
            try:
                self._thread.run(self._put, some)
            except errors.UnavailableError as error:
                every_n_seconds(logging.WARNING, "%s: %s: what is scanned is not remembered", 60, self._path, error)

    def _put(self, some: Sequence[_Table]) -> None:
        with self._guarded() as db:
            if db is None:
                return
            self._delete(db, [row.key for row in some])
            self._make_room(db, sum(len(row.packed) + _ROW_BYTES for row in some))
            for row in some:
                self._turn += 1
                db.execute(
                    "INSERT OR REPLACE INTO tables VALUES (?, ?, ?, ?, ?)",
                    (row.key, self._turn, row.compression, row.crc, row.packed),
                )
            self._bytes += sum(len(row.packed) + _ROW_BYTES for row in {row.key: row for row in some}.values())

    def _got(self, files: Sequence[FileEntry], terms: ListingTerms) -> list[ScannedFile | None]:
        keys = [terms.key([file]) if file.generation else None for file in files]
        results: list[ScannedFile | None] = [None] * len(files)
        with self._guarded() as db:
            if db is None:
                return results
            for number, (file, key) in enumerate(zip(files, keys, strict=True)):
                if key is not None:
                    results[number] = self._one(db, file, key)
        return results

    def _one(self, db: sqlite3.Connection, file: FileEntry, key: bytes) -> ScannedFile | None:
        found = db.execute("SELECT compression, crc, rows FROM tables WHERE key = ?", (key,)).fetchone()
        if found is None:
            return None
        compression, crc, rows = found
        try:
            raw = zlib.decompress(rows)
            if google_crc32c.value(raw) != crc or len(raw) % ROW.itemsize:
                raise ValueError("its checksum")
            entry = with_compression(file, COMPRESSIONS[compression])
        except (ValueError, IndexError, zlib.error) as error:
            logging.warning("%s: the table of %s is damaged (%s): cutting it again", self._path, file.uri, error)
            self._delete(db, [key])
            return None
        self._turn += 1
        db.execute("UPDATE tables SET used = ? WHERE key = ?", (self._turn, key))
        return ScannedFile(entry, np.frombuffer(raw, ROW))

    def close(self) -> None:
        self._thread.close()
        with self._lock:
            if self._db is not None:
                with contextlib.suppress(sqlite3.Error):
                    self._db.close()
                self._db = None

    @contextlib.contextmanager
    def _guarded(self) -> Iterator[sqlite3.Connection | None]:
        """The database, or None, for one transaction; what it throws is logged, and one that is no database any more is
        begun anew."""
        with self._lock:
            if self._db is None:
                yield None
                return
            stored_bytes = self._bytes
            begun = False
            try:
                self._db.execute("BEGIN")
                begun = True
                yield self._db
                self._db.execute("COMMIT")
            except BaseException as error:
                self._bytes = stored_bytes
                with contextlib.suppress(sqlite3.Error):
                    self._db.execute("ROLLBACK")
                if not isinstance(error, sqlite3.DatabaseError):
                    raise
                every_n_seconds(logging.WARNING, "%s: %s", 60, self._path, str(error))
                if _is_damage(error):
                    self._begin_anew()
            if not begun:
                yield None

    def _open(self) -> None:
        try:
            self._connect()
        except sqlite3.DatabaseError as error:
            if _is_damage(error):
                logging.warning("%s: %s; beginning anew", self._path, str(error))
                self._begin_anew()
            else:
                logging.error("%s: %s; until a restart no scan is remembered, or has been", self._path, str(error))

    def _connect(self) -> None:
        db = sqlite3.connect(self._path, isolation_level=None, check_same_thread=False, timeout=1.0)
        try:
            db.executescript(_SETUP)
            size = f"SELECT TOTAL(LENGTH(rows) + {_ROW_BYTES}), IFNULL(MAX(used), 0) FROM tables"
            stored_bytes, self._turn = db.execute(size).fetchone()
        except sqlite3.DatabaseError:
            db.close()
            raise
        self._db, self._bytes = db, int(stored_bytes)

    def _begin_anew(self) -> None:
        if self._db is not None:
            with contextlib.suppress(sqlite3.Error):
                self._db.close()
        self._db = None
        try:
            for left in self._path.parent.glob(f"{self._path.name}*"):
                left.unlink()
            self._connect()
        except (sqlite3.DatabaseError, OSError) as error:
            logging.error("%s: %s; what is scanned is not remembered", self._path, str(error))

    def _make_room(self, db: sqlite3.Connection, wanted_bytes: int) -> None:
        if self._bytes + wanted_bytes <= self._max_bytes:
            return
        to_free = self._bytes + wanted_bytes - int(self._max_bytes * (1 - _PRUNED_SHARE))
        keys, freed = [], 0
        for key, size in db.execute(f"SELECT key, LENGTH(rows) + {_ROW_BYTES} FROM tables ORDER BY used"):
            if freed >= to_free:
                break
            keys.append(key)
            freed += size
        self._delete(db, keys)

    def _delete(self, db: sqlite3.Connection, keys: list[bytes]) -> None:
        for key in keys:
            found = db.execute("SELECT LENGTH(rows) FROM tables WHERE key = ?", (key,)).fetchone()
            if found:
                db.execute("DELETE FROM tables WHERE key = ?", (key,))
                self._bytes -= found[0] + _ROW_BYTES


class _Table(NamedTuple):
    key: bytes
    compression: int
    crc: int
    packed: bytes

    @classmethod
    def of(cls, file: FileEntry, terms: ListingTerms, scanned: ScannedFile) -> _Table:
        raw = scanned.rows.tobytes()
        compression = COMPRESSIONS.index(scanned.entry.compression)
        return cls(terms.key([file]), compression, google_crc32c.value(raw), zlib.compress(raw, 1))


def in_parts(several: Sequence[T]) -> Iterator[Sequence[T]]:
    for at in range(0, len(several), _TOGETHER):
        yield several[at : at + _TOGETHER]


def _is_damage(error: sqlite3.Error) -> bool:
    """Not a disk that is full or fails, or a lock of somebody who looks at the file (a backup): those pass."""
    return getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR) & 0xFF in _DAMAGE


def of_directory(cache_dir: Path, hanging: Hanging) -> FileTables:
    """The tables of a node's cache directory. Raises PermissionError_ and others: the directory cannot be used."""
    directory = cache_dir / "tables"
    try:
        durable.private_directory(directory)
    except OSError as error:
        raise errors.from_os_error(error, str(directory)) from error
    return FileTables(directory / "files.db", hanging=hanging)
