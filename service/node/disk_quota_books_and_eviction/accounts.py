"""Whose room on the disk an entry takes: an account for each data set that has a setting, one for all others. Pure.

Invariant: an account whose terms have a limit holds at most that, reservations included, unless the limit was just
lowered or what had to go could not be deleted; of those whose entries go only by order, nothing is taken to get below
it. Entries of data sets that nobody has set give way, at random, to those that have an account of their own. Not
thread-safe: its owner locks.
"""

from __future__ import annotations

import itertools
import random
from collections import Counter, OrderedDict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from tfquiver import errors
from tfquiver.sizes_durations_amounts.amounts import of_bytes

UNSET = b""


@dataclass(frozen=True, slots=True)
class AccountTerms:
    """How an account is kept. `limit_bytes`, on the disk; None: the quota is the only limit.

    `lru`: an insert evicts what was used least recently; else it is refused when the account is full.
    `by_order`: somebody else says what goes; else a lowered limit evicts, at random (with `lru`: the oldest).
    """

    name: str
    limit_bytes: int | None = None
    lru: bool = False
    by_order: bool = False


class Accounts:
    def __init__(self, rng: random.Random) -> None:
        self._rng = rng
        self._accounts = {UNSET: _Account(AccountTerms("data sets without a setting"))}
        self._keys: dict[bytes, bytes] = {}  # of entries that are not in UNSET
        self._reserved: Counter[bytes] = Counter()  # also of accounts that are gone
        self._any_lru = False

    def set_terms(self, terms: Mapping[bytes, AccountTerms]) -> None:
        """The accounts there are from now on, UNSET beside them; entries of others go to UNSET until they are moved."""
        for key in [key for key in self._accounts if key != UNSET and key not in terms]:
            for hash in list(self._accounts[key].entries):
                self.move(hash, UNSET)
            del self._accounts[key]
        for key, its_terms in terms.items():
            account = self._accounts.get(key)
            if account is None:
                self._accounts[key] = _Account(its_terms)
            else:
                account.set_terms(its_terms)
        self._any_lru = any(account.terms.lru for account in self._accounts.values())

    def key_of(self, hash: bytes) -> bytes:
        return self._keys.get(hash, UNSET)

    def used_bytes(self, key: bytes) -> int:
        """Of an account's entries and reservations."""
        account = self._accounts.get(key)
        return (account.entry_bytes if account else 0) + self._reserved[key]

    def choose(self, keys: Sequence[bytes], size_bytes: int, free_bytes: int) -> bytes:
        """The first of these accounts that such an entry can go to.

        Args:
          free_bytes: of the quota; negative when it is exceeded.

        Raises: ResourceExhaustedError saying what the last of them lacks.
        """
        for key in keys:
            if self._trouble(key, size_bytes, free_bytes) is None:
                return key
        lacks = self.lacking(keys, size_bytes, free_bytes)
        raise errors.ResourceExhaustedError(f"an entry of {of_bytes(size_bytes)} does not fit: {lacks}")

    def lacking(self, keys: Sequence[bytes], size_bytes: int, free_bytes: int) -> str:
        """What the last of them lacks for such an entry, for people; empty: one of them takes it."""
        lacks = "it belongs to no account"
        for key in keys:
            found = self._trouble(key, size_bytes, free_bytes)
            if found is None:
                return ""
            lacks = found
        return lacks

    def victims(self, key: bytes, size_bytes: int, free_bytes: int) -> list[bytes]:
        """What has to go before such an entry can be reserved in the account that `choose` has chosen."""
        account, victims = self._accounts[key], []
        own_bytes = unset_bytes = 0
        limit = account.terms.limit_bytes
        over_bytes = self.used_bytes(key) + size_bytes - limit if limit is not None else 0
        lacking_bytes = size_bytes - free_bytes
        if account.terms.lru and over_bytes > 0:
            own = account.oldest(over_bytes)
            own_bytes = sum(account.entries[hash] for hash in own)
            victims += own
        if key != UNSET and lacking_bytes > own_bytes:
            unset = self._accounts[UNSET].at_random(lacking_bytes - own_bytes, self._rng)
            unset_bytes = sum(self._accounts[UNSET].entries[hash] for hash in unset)
            victims += unset
        if account.terms.lru and lacking_bytes > own_bytes + unset_bytes:
            more = account.oldest(lacking_bytes - unset_bytes)
            victims += [hash for hash in more if hash not in victims]
        return victims

    def admits(self, key: bytes, size_bytes: int, reserved_in: bytes) -> bool:
        """Whether an entry may stand for which so much was reserved: the limit may have been lowered meanwhile."""
        terms = self._accounts[key].terms
        more_bytes = 0 if key == reserved_in else size_bytes
        return terms.limit_bytes is None or terms.by_order or self.used_bytes(key) + more_bytes <= terms.limit_bytes

    def reserve(self, key: bytes, size_bytes: int) -> None:
        self._reserved[key] += size_bytes

    def release(self, key: bytes, size_bytes: int) -> None:
        """A reservation has come to nothing, or is about to become an entry."""
        if not 0 < size_bytes <= self._reserved[key]:
            raise ValueError(f"{size_bytes} bytes of {self._reserved[key]} reserved ones")
        self._reserved[key] -= size_bytes
        if not self._reserved[key]:
            del self._reserved[key]

    def add(self, hash: bytes, size_bytes: int, key: bytes = UNSET) -> None:
        """An entry that stands now."""
        self._accounts[key].add(hash, size_bytes)
        if key != UNSET:
            self._keys[hash] = key

    def found(self, entries: Mapping[bytes, int]) -> None:
        """Entries that stand when nobody has set anything yet: disk bytes by hash."""
        self._accounts[UNSET].found(entries)

    def remove(self, hash: bytes) -> None:
        """An entry that is gone."""
        self._accounts[self._keys.pop(hash, UNSET)].remove(hash)

    def move(self, hash: bytes, key: bytes) -> None:
        """To another account, whatever its limit: `excess` says what is too much then."""
        if self.key_of(hash) == key:
            return
        size_bytes = self._accounts[self._keys.pop(hash, UNSET)].remove(hash)
        self.add(hash, size_bytes, key)

    def touch(self, hash: bytes) -> None:
        """An entry has been used just now."""
        if self._any_lru:
            self._accounts[self.key_of(hash)].touch(hash)

    @property
    def counts_uses(self) -> bool:
        """Whether `touch` makes a difference."""
        return self._any_lru

    def excess(self, most: int | None = None) -> list[bytes]:
        """What has to go so that each account keeps to its limit; of that at most so many."""
        victims: list[bytes] = []
        for key, account in self._accounts.items():
            limit = account.terms.limit_bytes
            if limit is None or account.terms.by_order:
                continue
            over_bytes, left = self.used_bytes(key) - limit, None if most is None else most - len(victims)
            if over_bytes > 0 and left != 0:
                victims += (
                    account.oldest(over_bytes, left)
                    if account.terms.lru
                    else account.at_random(over_bytes, self._rng, left)
                )
        return victims

    def _trouble(self, key: bytes, size_bytes: int, free_bytes: int) -> str | None:
        """Why such an entry cannot go to an account; None: it can."""
        account = self._accounts.get(key)
        if account is None:
            return "its data set's setting is not carried out yet"
        own_bytes = account.entry_bytes if account.terms.lru else 0
        limit = account.terms.limit_bytes
        if limit is not None and self.used_bytes(key) - own_bytes + size_bytes > limit:
            used = f"{of_bytes(self.used_bytes(key))} of its {of_bytes(limit)}"
            return f"{account.terms.name} has {used} on this node in use"
        unset_bytes = self._accounts[UNSET].entry_bytes if key != UNSET else 0
        if size_bytes > free_bytes + unset_bytes + own_bytes:
            return f"{of_bytes(max(free_bytes, 0))} of the quota are free"
        return None


class _Account:
    """`entries`: disk bytes by hash; with `lru` the one that was used least recently comes first."""

    def __init__(self, terms: AccountTerms) -> None:
        self.terms = terms
        self.entries: dict[bytes, int] = OrderedDict() if terms.lru else {}
        self.entry_bytes = 0
        self._deck: list[bytes] = []  # of entries that may go, until one is drawn; some are gone

    def set_terms(self, terms: AccountTerms) -> None:
        if terms.lru != self.terms.lru:
            self.entries = OrderedDict(self.entries) if terms.lru else dict(self.entries)
        self.terms = terms

    def add(self, hash: bytes, size_bytes: int) -> None:
        if hash in self.entries:
            raise ValueError(f"entry {hash.hex()} is here already")
        self.entries[hash] = size_bytes
        self.entry_bytes += size_bytes
        if self._deck:  # as likely to go next as the others
            self._deck.append(hash)

    def found(self, entries: Mapping[bytes, int]) -> None:
        """The first ones."""
        self.entries.update(entries)
        self.entry_bytes += sum(entries.values())

    def remove(self, hash: bytes) -> int:
        size_bytes = self.entries.pop(hash)
        self.entry_bytes -= size_bytes
        return size_bytes

    def touch(self, hash: bytes) -> None:
        if isinstance(self.entries, OrderedDict) and hash in self.entries:
            self.entries.move_to_end(hash)

    def oldest(self, size_bytes: int, most: int | None = None) -> list[bytes]:
        """Of so many bytes, or all there are, or `most`."""
        return _until(self.entries, itertools.islice(self.entries, most), size_bytes)

    def at_random(self, size_bytes: int, rng: random.Random, most: int | None = None) -> list[bytes]:
        """As `oldest`. They leave the deck: whoever asks removes them."""
        chosen: dict[bytes, None] = {}
        most = len(self.entries) if most is None else min(most, len(self.entries))
        while size_bytes > 0 and len(chosen) < most:
            if not self._deck:
                self._deck = [hash for hash in self.entries if hash not in chosen]
            hash = next(drawn(self._deck, rng))
            if hash in self.entries and hash not in chosen:
                chosen[hash] = None
                size_bytes -= self.entries[hash]
        return list(chosen)


def drawn(deck: list[bytes], rng: random.Random) -> Iterator[bytes]:
    """All of them, each as likely as the others; those that have been drawn are not in the deck any more.

    To shuffle a deck of a million takes seconds, while somebody waits for the lock; of most decks little is drawn.
    """
    while deck:
        at = rng.randrange(len(deck))
        deck[at], deck[-1] = deck[-1], deck[at]
        yield deck.pop()


def _until(sizes: Mapping[bytes, int], hashes: Iterable[bytes], size_bytes: int) -> list[bytes]:
    chosen: list[bytes] = []
    for hash in hashes:
        if size_bytes <= 0:
            break
        chosen.append(hash)
        size_bytes -= sizes[hash]
    return chosen
