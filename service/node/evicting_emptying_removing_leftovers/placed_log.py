"""Which entries came by before any data set named them, as a scan's do, and when: until one does nobody owns them. And
those that came while a digest had not been written here yet: after a kill nothing here would name them.

One file, appended to before an entry stands, so that a node that is killed knows of them; what has an owner is taken
out. A 40-byte head, then 40 bytes each: the hash, and Unix seconds (little endian). It is a hint: what a power cut
takes of it, or damages, costs bytes that stay longer than they should, and no entry.

In memory all times are of a clock that is not set: what a scan placed while the wall clock stood in 1970 was placed
just now all the same. The wall clock tells the next process only how long ago that was.
"""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from absl import logging

from tfquiver import durable
from tfquiver.log_files_and_lines.rare_lines import every_n_seconds
from tfquiver.sizes_durations_amounts.amounts import many

MAX_NOTED = 1 << 20
_RECORD_BYTES = 40
_PAUSE, _LEAST_PAUSE_S = 10, 1.0  # times as long as it took to find that the disk takes nothing
_HEAD = b"tfquiver placed v1\n".ljust(_RECORD_BYTES, b"\0")


class PlacedLog:
    """Thread-safe; blocks on the disk. Trouble with the disk is logged; what is noted is in memory only until it takes
    something again, which is tried now and then, also when nothing more is noted."""

    def __init__(
        self,
        path: Path,
        now_s: Callable[[], float] = time.time,
        steady_s: Callable[[], float] = time.monotonic,
        max_noted: int = MAX_NOTED,
    ) -> None:
        """`now_s`: Unix time. `steady_s`: a clock that never goes back; its zero point means nothing.

        Raises InvalidArgumentError: what is there is no file.
        """
        self._path, self._now_s, self._steady_s, self._max_noted = path, now_s, steady_s, max_noted
        self._lock = threading.Lock()  # of what is noted
        self._writing = threading.Lock()  # of the file; taken before the other one
        self._waiting: dict[bytes, bytes] = {}  # records that are noted, by hash, and in nobody's hands yet
        self._unwritten = set[bytes]()  # hashes of these, and of what is being written
        wall_s, steady = int(now_s()), steady_s()  # what is of later was noted when the clock ran ahead: just now
        self._noted = {hash: steady - max(0, wall_s - at_s) for hash, at_s in _read(path, max_noted).items()}
        self._records = 0
        self._fd, self._closed = -1, False
        self._again: threading.Timer | None = None  # after the disk has refused: when it is written anew
        with self._writing:
            self._rewrite()

    def note(self, hash: bytes) -> None:
        """Before an entry stands. One that is noted already keeps its time. Of many at the same time one thread writes
        what all of them note: each would wait for the others, one after the other."""
        with self._lock:
            if hash in self._noted and hash not in self._unwritten:
                return
            if hash not in self._noted and not self._begin(hash):
                return
        with self._writing:
            with self._lock:
                records, self._waiting = self._waiting, {}
            if records:
                self._append(b"".join(records.values()))
                with self._lock:
                    self._unwritten -= records.keys()

    def _begin(self, hash: bytes) -> bool:
        """Whether it is noted now. Under the lock."""
        if len(self._noted) >= self._max_noted:
            every_n_seconds(
                logging.WARNING, "%s: %s noted: others stay if their scan fails", 600,
                self._path, many(self._max_noted, "shard of scans is", "shards of scans are"),
            )  # fmt: skip
            return False
        self._noted[hash], self._waiting[hash] = self._steady_s(), _record(hash, self._now_s())
        self._unwritten.add(hash)
        return True

    def noted(self) -> Mapping[bytes, float]:
        """When, by hash: on the clock that never goes back."""
        with self._lock:
            return dict(self._noted)

    def settle(self, hashes: Iterable[bytes]) -> None:
        """They have an owner, or are gone."""
        with self._writing:
            with self._lock:
                for hash in hashes:
                    self._noted.pop(hash, None)
                left = len(self._noted)
            if self._records > 2 * left:
                self._rewrite()

    def close(self) -> None:
        with self._writing:
            self._closed = True
            if self._again is not None:
                self._again.cancel()
            self._close()

    def _append(self, records: bytes) -> None:
        """Or writes it anew, with all that is noted: after the disk was full in the middle of one, or refused some."""
        if self._fd >= 0:
            try:
                if os.write(self._fd, records) == len(records):
                    self._records += len(records) // _RECORD_BYTES
                    return
            except OSError as error:
                every_n_seconds(logging.WARNING, "%s: %s", 60, self._path, error)
            self._close()
        if not self._closed and self._again is None:
            self._rewrite()

    def _rewrite(self) -> None:
        self._close()
        began_s = time.monotonic()
        with self._lock:
            noted = dict(self._noted)
        behind_s = self._now_s() - self._steady_s()
        pieces = [_HEAD, *(_record(hash, at_s + behind_s) for hash, at_s in noted.items())]
        try:
            durable.write(self._path, pieces)
            self._fd = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW)
            self._records = len(noted)
        except OSError as error:
            if self._again is None:
                self._again = threading.Timer(
                    max(_LEAST_PAUSE_S, _PAUSE * (time.monotonic() - began_s)), self._rewrite_late
                )
                self._again.daemon = True
                self._again.start()
            every_n_seconds(logging.WARNING, "%s: %s", 60, self._path, error)

    def _rewrite_late(self) -> None:
        with self._writing:
            self._again = None
            if not self._closed and self._fd < 0:
                self._rewrite()

    def _close(self) -> None:
        if self._fd >= 0:
            with contextlib.suppress(OSError):
                os.close(self._fd)
        self._fd = -1


def _record(hash: bytes, unix_s: float) -> bytes:
    return hash + max(0, int(unix_s)).to_bytes(8, "little")


def _read(path: Path, most: int) -> dict[bytes, int]:
    try:
        durable.check_file(path)
        with path.open("rb") as file:
            data = file.read((4 * most + 1) * _RECORD_BYTES)
    except FileNotFoundError:
        return {}
    except OSError as error:
        logging.warning("%s: %s; beginning anew", path, error)
        return {}
    if data[:_RECORD_BYTES] != _HEAD:
        logging.warning("%s: not of this version; beginning anew", path)
        return {}
    found: dict[bytes, int] = {}
    for at in range(_RECORD_BYTES, len(data) - _RECORD_BYTES + 1, _RECORD_BYTES):
        found.setdefault(data[at : at + 32], int.from_bytes(data[at + 32 : at + 40], "little"))
    return found
