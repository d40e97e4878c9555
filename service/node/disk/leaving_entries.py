"""Entries that leave the disk: given up, ordered away, over a limit or the quota, damaged."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from absl import logging

from tfquiver.clock import Clock
from tfquiver.log_files_and_lines.logs import about
from tfquiver.service.node.disk import entry_file
from tfquiver.service.node.disk.layout import Layout
from tfquiver.service.node.disk_quota_books_and_eviction.books import Books
from tfquiver.service.node.disk_quota_books_and_eviction.rules import Why
from tfquiver.service.node.hanging_disk.hanging import Hanging
from tfquiver.sizes_durations_amounts.amounts import of_bytes

_BATCH = 64  # entries that are dealt with under the lock at one time


class GaveUp(NamedTuple):
    """Entries that went, their bytes on the disk, and how many it did not let go."""

    entries: int
    size_bytes: int
    stay: int


class LeavingEntries:
    """What `DiskCache` has of it. Thread-safe.

    Calls that may wait for the disk say so; no other waits for it, not even for one that hangs: the lock guards what
    is known of the entries (see disk_quota_books_and_eviction/), and is never held over a call to the file system.
    """

    def __init__(self, root: Path, books: Books, clock: Clock) -> None:
        self._layout, self._books = Layout(root), books
        self._lock = threading.Lock()
        self._settled = threading.Condition(self._lock)  # something that was going is gone, or back
        self.hanging = Hanging(root, clock)
        self._aside_bytes: dict[str, int] = {}
        self.corrupt_entries = 0

    def hashes(self) -> list[bytes]:
        """Of every entry, now."""
        with self._lock:
            return list(self._books.sizes)

    def __len__(self) -> int:
        return len(self._books.sizes)

    def __contains__(self, hash: bytes) -> bool:
        return hash in self._books.sizes

    def delete(self, hash: bytes) -> None:
        """Gives an entry up. Those who read it keep their descriptors. May wait for the disk."""
        self.give_up([hash])

    def resize(self, quota_bytes: int) -> None:
        """Another quota; when it is lower, entries go at random until it is kept. May wait for the disk."""
        with self._lock:
            self._books.ledger.resize(quota_bytes)
        self._shrink()

    def set_aside(self, size_bytes: int, whose: str = "") -> None:
        """So much of the quota is used by `whose` files of this cache; entries make room. May wait for the disk."""
        with self._lock:
            self._aside_bytes[whose] = size_bytes
            self._books.ledger.set_aside(sum(self._aside_bytes.values()))
        self._shrink()

    def settle(self) -> bool:
        """Every entry goes to the account that the rules say, or goes; then accounts shrink to their limits.

        May wait for the disk. False: the disk did not let everything go that had to; it is here as before.
        """
        hashes, whole = self.hashes(), True
        for at in range(0, len(hashes), _BATCH):
            batch = hashes[at : at + _BATCH]
            whole = self._sort_out(batch, self._books.rules.accounts_of(batch)) and whole
        while True:
            with self._lock:
                victims = self._books.take(self._books.accounts.excess(_BATCH))
            if not victims:
                return whole
            if self._unlinked(victims) < len(victims):
                return False

    def evict(self, hashes: Sequence[bytes]) -> bool:
        """Gives up those of these entries that the rules do not keep. As `settle`."""
        here, whole = [hash for hash in hashes if hash in self], True
        for at in range(0, len(here), _BATCH):
            batch = here[at : at + _BATCH]
            whole = self._sort_out(batch, [self._books.rules.accounts(hash, Why.STANDS) for hash in batch]) and whole
        return whole

    def give_up(self, hashes: Sequence[bytes]) -> GaveUp:
        """Evicts these. May wait for the disk."""
        entries = size_bytes = stay = 0
        for at in range(0, len(hashes), _BATCH):
            with self._lock:
                sizes = {hash: self._books.sizes.get(hash, 0) for hash in hashes[at : at + _BATCH]}
                taken = self._books.take(sizes)
            gone = [hash for hash in taken if self._unlinked([hash])]
            entries, stay = entries + len(gone), stay + len(taken) - len(gone)
            size_bytes += sum(sizes[hash] for hash in gone)
        return GaveUp(entries, size_bytes, stay)

    def make_room(self, size_bytes: int) -> None:
        """Evicts entries of so many bytes, at random, for something that the disk has no room for. May wait for it."""
        with self._lock:
            victims, found_bytes = [], 0
            for hash in self._books.any_order():
                if found_bytes >= size_bytes:
                    break
                victims.append(hash)
                found_bytes += self._books.sizes[hash]
        self.give_up(victims)

    def drop(self, hash: bytes, reason: str, fd: int | None = None) -> None:
        """Drops an entry that failed a check (I-5): what cannot be opened, or is still the open file `fd`; not another
        that has come in its place. May wait for the disk."""
        with self._lock:
            if not self._books.take([hash], tell=False):
                return
        path = self._layout.path_of(hash)
        if not entry_file.is_same_file(fd, path) if fd is not None else entry_file.opens(path):
            with self._settled:
                self._books.back(hash, tell=False)
                self._settled.notify_all()
            return
        logging.warning("dropped entry %s: %s", hash.hex(), reason, extra=about(hash=hash))
        gone = entry_file.unlink(path)
        with self._settled:
            self.corrupt_entries += 1
            self._books.dropped(hash, gone)
            self._settled.notify_all()

    def _sort_out(self, hashes: Sequence[bytes], accounts: Sequence[Sequence[bytes]]) -> bool:
        with self._lock:
            unkept = self._books.sort_out(hashes, accounts)
        return self._unlinked(unkept) == len(unkept)

    def _unlinked(self, taken: Sequence[bytes]) -> int:
        """Deletes the files of what is going; how many of them. The others are here again."""
        deleted = 0
        for hash in taken:
            with self.hanging.waits():
                gone = entry_file.unlink(self._layout.path_of(hash))
            with self._settled:
                if gone:
                    self._books.gone(hash)
                else:
                    self._books.back(hash)
                self._settled.notify_all()
            deleted += gone
        return deleted

    def _shrink(self) -> None:
        if not self._books.ledger.excess_bytes:
            return
        with self._lock:
            logging.warning("%s over the quota: deleting entries at random", of_bytes(self._books.ledger.excess_bytes))
            victims = self._books.any_order()
        stay = 0
        for victim in victims:
            with self._lock:
                taken = self._books.take([victim]) if self._books.ledger.excess_bytes else []
            stay += len(taken) - self._unlinked(taken)
            if not self._books.ledger.excess_bytes or stay >= _BATCH:
                return
