"""What is known of the entries: where each belongs, what is coming, what is going. No disk, no locks: pure.

An entry is *here* (readers get it), or it is *going*: its file is about to be deleted, still takes its bytes, and comes
back when the disk refuses. Bytes are given up only when the file is gone, and a file is forgotten only when it is gone
or damaged; so a disk that has become read-only keeps what it has. Not thread-safe: its owner locks.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from tfquiver.service.node.disk_quota_books_and_eviction.accounts import UNSET, Accounts, drawn
from tfquiver.service.node.disk_quota_books_and_eviction.ledger import Ledger
from tfquiver.service.node.disk_quota_books_and_eviction.rules import KeepAll, Rules, Why


@dataclass(slots=True)
class Claim:
    """Room for an entry that is about to be written. `victims` are going; it must not be written before they are gone.

    `held_bytes` are reserved in the ledger: what the victims take, until they are gone, or what the entry will take.
    """

    hash: bytes
    size_bytes: int
    account: bytes
    why: Why
    victims: dict[bytes, int]
    held_bytes: int

    @property
    def victim_bytes(self) -> int:
        return sum(self.victims.values())


class Books:
    def __init__(self, quota_bytes: int, on_change: Callable[[bytes, bool], None], rng: random.Random) -> None:
        self.ledger = Ledger(quota_bytes)
        self.accounts = Accounts(rng)
        self.rules: Rules = KeepAll()
        self.sizes: dict[bytes, int] = {}  # hash -> disk bytes, of every entry that is here
        self._going: dict[bytes, tuple[int, bytes]] = {}  # disk bytes and account
        self._landing: set[bytes] = set()  # files that are being renamed to their names
        self._undeletable: dict[bytes, int] = {}  # damaged files that still take their bytes
        self._on_change, self._rng = on_change, rng
        self.evictions = 0
        self.evicted_bytes = 0

    def found(self, entries: Mapping[bytes, int]) -> None:
        """Entries that were on the disk at the start: disk bytes by hash."""
        self.sizes.update(entries)
        self.ledger.found(sum(entries.values()))
        self.accounts.found(entries)

    def use(self, rules: Rules) -> None:
        if rules.terms != self.rules.terms:
            self.accounts.set_terms(rules.terms)
        self.rules = rules

    def choose(self, hash: bytes, disk_bytes: int, why: Why) -> bytes:
        """The account that such an entry can go to. Raises NeverFitsError, ResourceExhaustedError."""
        if disk_bytes > self.ledger.quota_bytes:
            self.ledger.check(disk_bytes)
        return self.accounts.choose(self.rules.accounts(hash, why), disk_bytes, self.ledger.free_bytes)

    def lacking(self, hash: bytes, disk_bytes: int, why: Why) -> str:
        """What there is not for such entries, for people: quota, or the room of a setting; empty: nothing."""
        return self.accounts.lacking(self.rules.accounts(hash, why), disk_bytes, self.ledger.free_bytes)

    # An entry comes.

    def claim(self, hash: bytes, size_bytes: int, why: Why) -> Claim | None:
        """Sets room aside, and picks what has to go for it. None: it is not to be kept. Raises as `choose`."""
        if hash in self.sizes or not self.rules.accounts(hash, why):
            return None
        account = self.choose(hash, size_bytes, why)
        chosen = self.accounts.victims(account, size_bytes, self.ledger.free_bytes)
        victims = {victim: self.sizes[victim] for victim in chosen}
        victim_bytes = sum(victims.values())
        if victims:
            held_bytes = self.ledger.trade(victim_bytes, size_bytes)
        else:
            self.ledger.reserve(size_bytes)
            held_bytes = size_bytes
        self.take(chosen)
        self.accounts.reserve(account, size_bytes)
        return Claim(hash, size_bytes, account, why, victims, held_bytes)

    def victim_gone(self, claim: Claim, victim: bytes) -> None:
        """Its file is deleted; with the last one the claim holds only what it needs."""
        size_bytes = claim.victims.pop(victim)
        del self._going[victim]
        self.evictions += 1
        self.evicted_bytes += size_bytes
        if not claim.victims and claim.held_bytes > claim.size_bytes:
            self.ledger.release(claim.held_bytes - claim.size_bytes)
            claim.held_bytes = claim.size_bytes

    def abandon(self, claim: Claim, file_is_gone: bool) -> None:
        """It comes to nothing. What had to go for it, and did not yet, is back; a file that stays keeps its bytes."""
        self.accounts.release(claim.account, claim.size_bytes)
        if file_is_gone or claim.victims:  # before they are gone nothing is written
            self.ledger.release(claim.held_bytes)
        for victim, size_bytes in claim.victims.items():
            self.ledger.found(size_bytes)
            self.back(victim)
        claim.victims = {}

    def is_going(self, hash: bytes) -> bool:
        return hash in self._going

    def may_land(self, claim: Claim) -> bool:
        """Whether its file may get its name now. False: meanwhile somebody else was quicker, or it was ordered away, or
        a limit was lowered."""
        if claim.hash in self.sizes or claim.hash in self._landing or self._account_now(claim) is None:
            return False
        self._landing.add(claim.hash)
        return True

    def land(self, claim: Claim, renamed: bool) -> bool:
        """Its file has its name now, or did not get it. Whether the entry is here; if it is renamed and not here, it is
        going: it was ordered away in the meantime."""
        self._landing.discard(claim.hash)
        if not renamed:
            return False
        key = self._account_now(claim)
        if replaced_bytes := self._undeletable.pop(claim.hash, 0):
            self.ledger.remove(replaced_bytes)
        self.ledger.commit(claim.size_bytes)
        self.accounts.release(claim.account, claim.size_bytes)
        if key is None:
            self._going[claim.hash] = (claim.size_bytes, UNSET)
            return False
        self.sizes[claim.hash] = claim.size_bytes
        self.accounts.add(claim.hash, claim.size_bytes, key)
        self._on_change(claim.hash, True)
        return True

    # An entry goes.

    def take(self, hashes: Iterable[bytes], tell: bool = True) -> list[bytes]:
        """Those of them that are here are going from now on."""
        taken = []
        for hash in hashes:
            size_bytes = self.sizes.pop(hash, None)
            if size_bytes is None:
                continue
            self._going[hash] = (size_bytes, self.accounts.key_of(hash))
            self.accounts.remove(hash)
            if tell:
                self._on_change(hash, False)
            taken.append(hash)
        return taken

    def gone(self, hash: bytes) -> None:
        """Its file is deleted."""
        size_bytes, _ = self._going.pop(hash)
        self.ledger.remove(size_bytes)
        self.evictions += 1
        self.evicted_bytes += size_bytes

    def back(self, hash: bytes, tell: bool = True) -> None:
        """Its file is still there, and as good as it was."""
        size_bytes, key = self._going.pop(hash)
        self.sizes[hash] = size_bytes
        self.accounts.add(hash, size_bytes, key if key == UNSET or key in self.rules.terms else UNSET)
        if tell:
            self._on_change(hash, True)

    def dropped(self, hash: bytes, file_is_gone: bool) -> None:
        """It was taken, untold, because it is damaged. A file that cannot be deleted keeps its bytes."""
        size_bytes, _ = self._going.pop(hash)
        if file_is_gone:
            self.ledger.remove(size_bytes)
        else:
            self._undeletable[hash] = size_bytes
        self._on_change(hash, False)

    def sort_out(self, hashes: Sequence[bytes], accounts: Sequence[Sequence[bytes]]) -> list[bytes]:
        """Each goes to the first of its accounts that there is; takes, and returns, those without any."""
        known = {UNSET, *self.rules.terms}
        unkept = []
        for hash, keys in zip(hashes, accounts, strict=True):
            if hash not in self.sizes:
                continue
            key = next((key for key in keys if key in known), None)
            if key is None:
                unkept.append(hash)
            elif self.accounts.key_of(hash) not in keys:
                self.accounts.move(hash, key)
        return self.take(unkept)

    def any_order(self) -> Iterator[bytes]:
        """Every entry that is here now, in random order."""
        return drawn(list(self.sizes), self._rng)

    def _account_now(self, claim: Claim) -> bytes | None:
        """Where an entry that has been written goes; None: it is not to be kept any more."""
        keys = self.rules.accounts(claim.hash, claim.why)
        key = claim.account if claim.account in keys else next(iter(keys), None)
        admitted = key is not None and self.accounts.admits(key, claim.size_bytes, claim.account)
        return key if admitted else None
