"""Shards on the disk: one file each, named by its hash. What stands under a hash has that hash (I-3)."""

from __future__ import annotations

import errno
import os
import random
from collections.abc import Callable, Sequence
from pathlib import Path

import google_crc32c
from absl import logging

from tfquiver import errors
from tfquiver.clock import Clock, SystemClock
from tfquiver.service.node.counters.refusals import Refusals
from tfquiver.service.node.disk import codec, entry, free_room
from tfquiver.service.node.disk.entries_there import entries_there
from tfquiver.service.node.disk.entry_file import OpenEntry as OpenEntry
from tfquiver.service.node.disk.landing import Landing
from tfquiver.service.node.disk.leaving_entries import LeavingEntries
from tfquiver.service.node.disk_quota_books_and_eviction.accounts import UNSET
from tfquiver.service.node.disk_quota_books_and_eviction.books import Books, Claim
from tfquiver.service.node.disk_quota_books_and_eviction.rules import Rules, Why
from tfquiver.service.node.sealed_memory_of_checked_shards.sealed_memory import NoMemoryError
from tfquiver.service.node.sealed_memory_of_checked_shards.verified import VerifiedShard
from tfquiver.sizes_durations_amounts.amounts import apart, of_bytes

_SHRINKS = 16
_DEFAULT_SHARE = 0.8
_OUT_OF_DESCRIPTORS = (errno.EMFILE, errno.ENFILE)


class DiskCache(LeavingEntries):
    """Thread-safe. One process has the directory (see tfquiver/node_daemon_and_notes_in_directories).

    Invariants: I-3 and I-5 (an entry is checked when it goes in and when it is opened; what fails is dropped and a
    miss), I-4 (the sizes of all entries and temporary files, in whole pages, never exceed the quota). Each entry is in
    one account, which the rules name; until `use` gives it some, everything is kept. Nothing goes
    for an entry that the disk does not take: its file is made first. Entries leave the last bytes of the file system to
    the files that say what they are for (see free_room.py).

    Args:
      quota_bytes: 0 stores nothing; None: 80 % of what is free, or an entry already. What a lower quota than last time
        has no room for is deleted, at random.
      on_change: told, in order, of every hash that comes (True) or goes (False); called under the lock, so it
        must neither wait nor call back.
    """

    def __init__(
        self,
        root: Path,
        quota_bytes: int | None,
        *,
        mode: codec.Mode = "auto",
        on_change: Callable[[bytes, bool], None] = lambda hash, held: None,
        rng: random.Random | None = None,
        clock: Clock | None = None,
    ) -> None:
        self._root, clock = root, clock or SystemClock()
        self._mode: codec.Mode = mode
        self._on_change = on_change
        # Told of an entry that comes by, before it stands; in the thread that inserts it.
        self.on_placed: Callable[[bytes], None] = lambda hash: None
        # Whether whatever comes counts as that: what names it would be unknown here after a kill.
        self.all_is_placed: Callable[[], bool] = lambda: False
        books = Books(quota_bytes or 0, lambda hash, held: self._on_change(hash, held), rng or random.Random())
        super().__init__(root, books, clock)
        self._landing = Landing(root, self._layout, self._books, self._settled, clock, self._unlinked)
        self.refusals = Refusals(clock)
        self._recover(quota_bytes)

    @property
    def quota_bytes(self) -> int:
        return self._books.ledger.quota_bytes

    @property
    def used_bytes(self) -> int:
        return self._books.ledger.stored_bytes

    @property
    def evictions(self) -> int:
        return self._books.evictions

    @property
    def written_bytes(self) -> int:
        """Of entries, since it began, those that are gone again too."""
        return self._landing.written_bytes

    @property
    def evicted_bytes(self) -> int:
        return self._books.evicted_bytes

    @property
    def trouble(self) -> str:
        """Why the disk takes nothing just now; empty: it does, as far as is known."""
        with self._lock:
            return self.hanging.trouble() or self._landing.trouble()

    def open_entry(self, hash: bytes) -> OpenEntry | None:
        """The entry, or None: not here, or damaged and therefore dropped. May wait for the disk."""
        if hash not in self._books.sizes:
            return None
        path = self._layout.path_of(hash)
        try:
            fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
        except OSError as error:
            if error.errno in _OUT_OF_DESCRIPTORS:
                raise NoMemoryError(f"{path}: {error.strerror}") from error
            gone = "somebody else has deleted it"
            self.drop(hash, gone if isinstance(error, FileNotFoundError) else str(error))
            return None
        try:
            header = entry.decode(os.pread(fd, entry.HEADER_BYTES, 0), str(path))
            size_bytes = os.fstat(fd).st_size
            if header.hash != hash or size_bytes != header.file_bytes:
                raise errors.DataLossError(f"{path}: not this entry, or not all of it ({size_bytes} bytes)")
        except (errors.DataLossError, OSError) as error:
            self.drop(hash, str(error), fd)
            os.close(fd)
            return None
        except BaseException:
            os.close(fd)
            raise
        self.used(hash)
        return OpenEntry(fd, header)

    def used(self, hash: bytes) -> None:
        """Somebody has just been given an entry's bytes."""
        if self._books.accounts.counts_uses:
            with self._lock:
                self._books.accounts.touch(hash)

    def wanted(self, hash: bytes, why: Why = Why.ASKED) -> bool:
        """Whether it would be kept if there is room."""
        return bool(self._books.rules.accounts(hash, why))

    def accounts(self, hash: bytes) -> Sequence[bytes]:
        """Keys of those that it goes to when it comes by, by the rules of this node; none: it is not kept."""
        return self._books.rules.accounts(hash, Why.PASSES)

    def may_stand_in(self, hash: bytes) -> bool:
        """Whether another node may keep it where this one has no room: it was ordered."""
        rules = self._books.rules
        keys = rules.accounts(hash, Why.PASSES)
        return any(key in rules.terms and rules.terms[key].by_order for key in keys)

    def may_be_elsewhere(self, hash: bytes) -> bool:
        """Whether another node that has room may keep it where this one has none: nothing but the quotas limits it."""
        rules = self._books.rules
        keys = rules.accounts(hash, Why.PASSES)
        return any(key == UNSET or (key in rules.terms and rules.terms[key].limit_bytes is None) for key in keys) and (
            not any(key in rules.terms and rules.terms[key].lru for key in keys)
        )

    def has_room(self, hash: bytes, disk_bytes: int, besides_bytes: int = 0) -> bool:
        """Whether an entry of that size that this node is asked for would be kept now, after `besides_bytes` more."""
        return not self.lacking(hash, disk_bytes, besides_bytes)

    def lacking(self, hash: bytes, disk_bytes: int, besides_bytes: int = 0) -> str:
        """Why it would not be, for people: the disk, the quota, or a setting; empty: it would."""
        with self._lock:
            if trouble := self.hanging.trouble() or self._landing.trouble() or self._landing.lacks_room():
                return trouble
            return self._books.lacking(hash, disk_bytes + besides_bytes, Why.ASKED)

    def is_full(self, disk_bytes: int, besides_bytes: int = 0) -> bool:
        """Whether quota or disk have no room for such an entry, whatever its setting says."""
        with self._lock:
            return bool(self._landing.lacks_room()) or self._books.ledger.free_bytes < disk_bytes + besides_bytes

    def insert_placed(self, shard: VerifiedShard, why: Why = Why.ASKED) -> None:
        """As `insert`, of one that came by, as a scan's do: there may be no data set yet that names it."""
        comes = shard.hash not in self
        if comes:
            with self.hanging.waits():
                self.on_placed(shard.hash)
        self.insert(shard, why)
        if comes and shard.hash in self:  # if that took so long that it was taken for gone
            self.on_placed(shard.hash)

    def insert(self, shard: VerifiedShard, why: Why = Why.ASKED) -> None:
        """Stores a shard, unless it is here already, or not to be kept (see `wanted`). May wait for the disk.

        Raises:
          NeverFitsError: larger than the quota.
          ResourceExhaustedError: no room now (quota, account or disk), or the disk refuses.
        """
        if shard.hash in self or not self.wanted(shard.hash, why):
            return
        if self.all_is_placed():
            with self.hanging.waits():
                self.on_placed(shard.hash)
        try:
            with self._lock:  # when even a sixteenth does not fit, compressing would be in vain
                if trouble := self.hanging.trouble() or self._landing.trouble():
                    self.refusals.disk()
                    raise errors.ResourceExhaustedError(f"{trouble}: the shard is not kept")
                self._books.choose(shard.hash, entry.disk_bytes(entry.HEADER_BYTES + len(shard.raw) // _SHRINKS), why)
            kind, stored = codec.compress(shard.raw, self._mode)
            crc32c_stored = shard.crc32c if kind == entry.RAW else google_crc32c.value(stored)
            header = entry.Header(kind, len(shard.raw), len(stored), shard.crc32c, crc32c_stored, shard.hash)
            with self._lock:
                claim = self._books.claim(header.hash, header.disk_bytes, why)
            if claim is not None:
                self._write(claim, header, stored)
        except errors.ResourceExhaustedError:
            self.refusals.insert()
            raise

    def _write(self, claim: Claim, header: entry.Header, stored: bytes) -> None:
        try:
            with self.hanging.waits() as moved:
                self._landing.write(claim, header, stored, moved)
        except errors.ResourceExhaustedError:
            self.refusals.disk()
            raise

    def check_room(self, hash: bytes, disk_bytes: int, why: Why = Why.ASKED) -> None:
        """Raises as `insert` would now for an entry of that size; says nothing about the next moment."""
        if hash in self or not self.wanted(hash, why):
            return
        try:
            with self._lock:
                if trouble := self.hanging.trouble() or self._landing.trouble():
                    self.refusals.disk()
                    raise errors.ResourceExhaustedError(trouble)
                self._books.choose(hash, disk_bytes, why)
        except errors.ResourceExhaustedError:
            self.refusals.insert()
            raise

    def drop_if_damaged(self, hash: bytes, reason: str) -> bool:
        """A reader says that the entry is bad: whether it was (then it is gone now). Good ones are not given up. May
        wait for the disk."""
        opened = self.open_entry(hash)
        if opened is None:
            return True
        try:
            for _ in opened.pieces():
                pass
        except (errors.DataLossError, OSError) as error:
            self.drop(hash, f"{error} ({reason})", opened.fd)
            return True
        finally:
            opened.close()
        return False

    def use(self, rules: Rules) -> None:
        """Other rules, for what comes from now on. What stands moves, or goes, with `settle` and `evict`."""
        with self._lock:
            self._books.use(rules)

    def _recover(self, quota_bytes: int | None) -> None:
        try:
            self._layout.remove_temporaries()
            entries = entries_there(self._layout)
            self._books.found(entries)
            # Of those not even one byte is stored.
            self.give_up([hash for hash, size_bytes in entries.items() if size_bytes <= entry.HEADER_BYTES])
            room_bytes = free_room.look(self._root)[0] + self.used_bytes
            if quota_bytes is None:
                self._books.ledger.resize(int(_DEFAULT_SHARE * room_bytes))
                logging.info("quota: %s, 80 %% of what is free or ours: none was given", of_bytes(self.quota_bytes))
            elif quota_bytes > room_bytes:
                logging.warning(
                    "%s: a quota of %s, and room for %s: what is more will be read from the store; give less "
                    "(--quota), or make room", self._root, *apart(quota_bytes, room_bytes),
                )  # fmt: skip
            self._shrink()
        except OSError as error:
            raise errors.PermissionError_(f"{self._layout.objects}: cannot be scanned: {error}") from error
