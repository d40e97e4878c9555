"""The store on the disk: one file a shard, named by its hash. What stands under a hash has that hash (I-3)."""

from __future__ import annotations

import errno
import itertools
import os
import random
import threading
from collections.abc import Callable, Sequence
from pathlib import Path

import google_crc32c
from absl import logging

from tfquiver import errors
from tfquiver.service.node.store import codec, entry, entry_file
from tfquiver.service.node.store.accounts import UNSET, Accounts
from tfquiver.service.node.store.entry_file import OpenEntry as OpenEntry
from tfquiver.service.node.store.layout import Layout
from tfquiver.service.node.store.ledger import Ledger
from tfquiver.service.node.store.rules import KeepAll, Rules, Why
from tfquiver.service.node.store.verified import VerifiedShard

_SHRINKS = 16
_BATCH = 64  # entries that are dealt with under the lock at one time
_OUT_OF_DESCRIPTORS = (errno.EMFILE, errno.ENFILE)


class DiskStore:
    """Thread-safe; every call may wait for the disk. One process has the directory (see directory.py).

    Invariants: I-3 and I-5 (an entry is checked when it goes in and when it is opened; what fails is dropped and a
    miss), I-4 (the sizes of all entries and temporary files, in whole pages, never exceed the quota). Each entry is in
    one account (see accounts.py), which the rules name; until `use` gives it some, everything is kept.

    Args:
      quota_bytes: 0 stores nothing. What a lower quota than last time has no room for is deleted, at random.
      on_change: told, in order, of every hash that comes (True) or goes (False); called under the store's lock, so it
        must neither wait nor call back.
    """

    def __init__(
        self,
        root: Path,
        quota_bytes: int,
        *,
        mode: codec.Mode = "auto",
        on_change: Callable[[bytes, bool], None] = lambda hash, held: None,
        rng: random.Random | None = None,
    ) -> None:
        self._layout = Layout(root)
        self._ledger = Ledger(quota_bytes)
        self._mode: codec.Mode = mode
        self._on_change = on_change
        self._rng = rng or random.Random()
        self._sizes: dict[bytes, int] = {}  # hash -> disk bytes, of every entry
        self._accounts = Accounts(self._rng)
        self._rules: Rules = KeepAll()
        self._numbers = itertools.count()
        self._lock = threading.Lock()
        self.corrupt_entries = 0
        self.refused_inserts = 0
        self.evictions = 0
        self.evicted_bytes = 0
        self._recover()

    @property
    def quota_bytes(self) -> int:
        return self._ledger.quota_bytes

    @property
    def used_bytes(self) -> int:
        return self._ledger.stored_bytes

    def hashes(self) -> list[bytes]:
        """Of every entry, now."""
        with self._lock:
            return list(self._sizes)

    def __len__(self) -> int:
        return len(self._sizes)

    def __contains__(self, hash: bytes) -> bool:
        return hash in self._sizes

    def open_entry(self, hash: bytes) -> OpenEntry | None:
        """The entry, or None: not here, or damaged and therefore dropped."""
        if hash not in self._sizes:
            return None
        path = self._layout.path_of(hash)
        try:
            fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
        except FileNotFoundError:
            self.drop(hash, "somebody else has deleted it")
            return None
        except OSError as error:
            if error.errno in _OUT_OF_DESCRIPTORS:
                raise errors.ResourceExhaustedError(f"{path}: {error.strerror}") from error
            self.drop(hash, str(error))
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
        if self._accounts.counts_uses:
            with self._lock:
                self._accounts.touch(hash)

    def wanted(self, hash: bytes, why: Why = Why.ASKED) -> bool:
        """Whether it would be kept if there is room."""
        return bool(self._rules.accounts(hash, why))

    def may_stand_in(self, hash: bytes) -> bool:
        """Whether another node may keep it where this one has no room: it was ordered."""
        rules = self._rules
        keys = rules.accounts(hash, Why.PASSES)
        return any(key in rules.terms and rules.terms[key].by_order for key in keys)

    def has_room(self, hash: bytes, disk_bytes: int, besides_bytes: int = 0) -> bool:
        """Whether an entry of that size that this node is asked for would be kept now, after `besides_bytes` more."""
        with self._lock:
            try:
                self._choose(hash, disk_bytes + besides_bytes, Why.ASKED)
            except errors.ResourceExhaustedError:
                return False
        return True

    def insert(self, shard: VerifiedShard, why: Why = Why.ASKED) -> None:
        """Stores a shard, unless it is here already, or not to be kept (see `wanted`).

        Raises:
          NeverFitsError: larger than the quota.
          ResourceExhaustedError: no room now (quota, account or disk), or the disk refuses.
        """
        if shard.hash in self._sizes or not self.wanted(shard.hash, why):
            return
        try:
            with self._lock:  # when even a sixteenth does not fit, compressing would be in vain
                self._choose(shard.hash, entry.disk_bytes(entry.HEADER_BYTES + len(shard.raw) // _SHRINKS), why)
            kind, stored = codec.compress(shard.raw, self._mode)
            crc32c_stored = shard.crc32c if kind == entry.RAW else google_crc32c.value(stored)
            header = entry.Header(kind, len(shard.raw), len(stored), shard.crc32c, crc32c_stored, shard.hash)
            with self._lock:
                account = self._reserve(header, why)
            if account is not None:
                self._write(header, stored, account, why)
        except errors.ResourceExhaustedError:
            self.refused_inserts += 1
            raise

    def check_room(self, hash: bytes, disk_bytes: int, why: Why = Why.ASKED) -> None:
        """Raises as `insert` would now for an entry of that size; says nothing about the next moment."""
        if hash in self._sizes or not self.wanted(hash, why):
            return
        try:
            with self._lock:
                self._choose(hash, disk_bytes, why)
        except errors.ResourceExhaustedError:
            self.refused_inserts += 1
            raise

    def drop_if_damaged(self, hash: bytes, reason: str) -> bool:
        """A reader says that the entry is bad: whether it was (then it is gone now). Good ones are not given up."""
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

    def delete(self, hash: bytes) -> None:
        """Gives an entry up. Those who read it keep their descriptors."""
        with self._lock:
            self._remove(hash)

    def resize(self, quota_bytes: int) -> None:
        """Another quota; when it is lower, entries go at random until it is kept."""
        with self._lock:
            self._ledger.resize(quota_bytes)
            self._shrink()

    def use(self, rules: Rules) -> None:
        """Other rules, for what comes from now on. What stands moves, or goes, with `settle` and `evict`."""
        with self._lock:
            if rules.terms != self._rules.terms:
                self._accounts.set_terms(rules.terms)
            self._rules = rules

    def settle(self) -> None:
        """Every entry goes to the account that the rules say, or goes; then accounts shrink to their limits."""
        hashes = self.hashes()
        for at in range(0, len(hashes), _BATCH):
            batch = hashes[at : at + _BATCH]
            self._sort_out(batch, self._rules.accounts_of(batch))
        while True:
            with self._lock:
                victims = self._accounts.excess()
                self._evict(victims[:_BATCH])
            if len(victims) <= _BATCH:
                return

    def evict(self, hashes: Sequence[bytes]) -> None:
        """Gives up those of these entries that the rules do not keep."""
        here = [hash for hash in hashes if hash in self._sizes]
        for at in range(0, len(here), _BATCH):
            batch = here[at : at + _BATCH]
            self._sort_out(batch, [self._rules.accounts(hash, Why.STANDS) for hash in batch])

    def give_up(self, hashes: Sequence[bytes]) -> None:
        """Evicts these."""
        for at in range(0, len(hashes), _BATCH):
            with self._lock:
                self._evict([hash for hash in hashes[at : at + _BATCH] if hash in self._sizes])

    def _sort_out(self, hashes: Sequence[bytes], accounts: Sequence[Sequence[bytes]]) -> None:
        with self._lock:
            known = {UNSET, *self._rules.terms}
            for hash, keys in zip(hashes, accounts, strict=True):
                key = next((key for key in keys if key in known), None)
                if hash not in self._sizes:
                    continue
                if key is None:
                    self._evict([hash])
                elif self._accounts.key_of(hash) not in keys:
                    self._accounts.move(hash, key)

    def _choose(self, hash: bytes, disk_bytes: int, why: Why) -> bytes:
        """The account that such an entry can go to. Raises as `insert`."""
        if disk_bytes > self._ledger.quota_bytes:
            self._ledger.check(disk_bytes)
        return self._accounts.choose(self._rules.accounts(hash, why), disk_bytes, self._ledger.free_bytes)

    def _reserve(self, header: entry.Header, why: Why) -> bytes | None:
        """Makes room and sets it aside; its account. None: it is not to be kept any more."""
        if not self.wanted(header.hash, why):
            return None
        size_bytes = header.disk_bytes
        account = self._choose(header.hash, size_bytes, why)
        self._evict(self._accounts.victims(account, size_bytes, self._ledger.free_bytes))
        self._ledger.reserve(size_bytes)
        self._accounts.reserve(account, size_bytes)
        return account

    def _evict(self, hashes: Sequence[bytes]) -> None:
        for hash in hashes:
            self.evictions += 1
            self.evicted_bytes += self._sizes[hash]
            self._remove(hash)

    def _recover(self) -> None:
        try:
            self._layout.remove_temporaries()
            for hash, size_bytes in self._layout.entries():
                self._sizes[hash] = size_bytes
                self._ledger.found(size_bytes)
                self._accounts.add(hash, size_bytes)
            for hash in [hash for hash, size_bytes in self._sizes.items() if size_bytes <= entry.HEADER_BYTES]:
                self._remove(hash)  # torn: not even one stored byte
            self._shrink()
        except OSError as error:
            raise errors.PermissionError_(f"{self._layout.objects}: cannot be scanned: {error}") from error

    def _shrink(self) -> None:
        if not self._ledger.excess_bytes:
            return
        victims = list(self._sizes)
        self._rng.shuffle(victims)
        logging.warning("%d bytes over the quota: deleting entries at random", self._ledger.excess_bytes)
        while self._ledger.excess_bytes and victims:
            self._evict([victims.pop()])

    def _write(self, header: entry.Header, stored: bytes, account: bytes, why: Why) -> None:
        """Makes the reserved entry. Whatever goes wrong with the disk is a refusal (and never a torn entry)."""
        temporary = self._layout.temporary_path(header.hash, next(self._numbers))
        size_bytes = header.disk_bytes
        standing = False
        try:
            entry_file.write_synced(temporary, entry.encode(header), stored)
            with self._lock:
                key = self._account_now(header, account, why)
                if key is not None:
                    entry_file.rename(temporary, self._layout.path_of(header.hash))
                    self._ledger.commit(size_bytes)
                    self._sizes[header.hash] = size_bytes
                    self._accounts.release(account, size_bytes)
                    self._accounts.add(header.hash, size_bytes, key)
                    standing = True
                    self._on_change(header.hash, True)
        except OSError as error:
            raise errors.ResourceExhaustedError(f"{temporary}: {error.strerror}: the shard is not kept") from error
        finally:
            if not standing:
                gone = entry_file.unlink(temporary)
                with self._lock:
                    self._accounts.release(account, size_bytes)
                    if gone:
                        self._ledger.release(size_bytes)

    def _account_now(self, header: entry.Header, account: bytes, why: Why) -> bytes | None:
        """Where an entry goes that has been written. None: meanwhile somebody else was quicker, or it was ordered away,
        or a limit was lowered."""
        if header.hash in self._sizes:
            return None
        keys = self._rules.accounts(header.hash, why)
        key = account if account in keys else next(iter(keys), None)
        admitted = key is not None and self._accounts.admits(key, header.disk_bytes, account)
        return key if admitted else None

    def drop(self, hash: bytes, reason: str, fd: int | None = None) -> None:
        """Drops an entry that failed a check (I-5); with `fd`, only if it is still that file."""
        with self._lock:
            if hash not in self._sizes:
                return
            if fd is not None and not entry_file.is_same_file(fd, self._layout.path_of(hash)):
                return
            self.corrupt_entries += 1
            logging.warning("dropped entry %s: %s", hash.hex(), reason)
            self._remove(hash)

    def _remove(self, hash: bytes) -> None:
        size_bytes = self._sizes.pop(hash, None)
        if size_bytes is None:
            return
        self._accounts.remove(hash)
        if entry_file.unlink(self._layout.path_of(hash)):
            self._ledger.remove(size_bytes)
        self._on_change(hash, False)
