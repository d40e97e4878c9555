"""Accounts: limits hold, the right ones go, nothing is counted twice."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from tfquiver import errors
from tfquiver.service.node.disk_quota_books_and_eviction.accounts import UNSET, Accounts, AccountTerms
from tfquiver.service.node.disk_quota_books_and_eviction.books import Books, Claim
from tfquiver.service.node.disk_quota_books_and_eviction.rules import Why

A, B, C = b"a" * 32, b"b" * 32, b"c" * 32
QUOTA = 1000


def hash_of(number: int) -> bytes:
    return number.to_bytes(32, "big")


def filled(terms: AccountTerms, count: int, size_bytes: int = 10) -> Accounts:
    accounts = Accounts(random.Random(1))
    accounts.set_terms({A: terms})
    for number in range(count):
        accounts.add(hash_of(number), size_bytes, A)
    return accounts


def test_a_full_account_refuses_and_says_whose_it_is() -> None:
    accounts = filled(AccountTerms("data set mnist", 100), 9)
    assert accounts.choose([A], 10, QUOTA) == A
    accounts.reserve(A, 10)
    with pytest.raises(errors.ResourceExhaustedError, match="data set mnist has 100 B of its 100 B"):
        accounts.choose([A], 1, QUOTA)
    accounts.release(A, 10)
    assert accounts.choose([A], 10, QUOTA) == A
    with pytest.raises(errors.ResourceExhaustedError, match="5 B of the quota are free"):
        accounts.choose([A], 10, 5)
    assert accounts.lacking([A], 10, QUOTA) == ""
    assert accounts.lacking([A], 11, QUOTA) == "data set mnist has 90 B of its 100 B on this node in use"
    assert accounts.lacking([UNSET, A], 10, 5) == "5 B of the quota are free"


def test_lru_evicts_what_was_used_least_recently() -> None:
    accounts = filled(AccountTerms("lru", 100, lru=True), 10)
    for number in (0, 2, 1):
        accounts.touch(hash_of(number))
    assert accounts.victims(A, 25, QUOTA) == [hash_of(number) for number in (3, 4, 5)]
    assert accounts.victims(A, 10, QUOTA) == [hash_of(3)]
    assert accounts.victims(A, 10, -10) == [hash_of(3), hash_of(4)], "room on the disk is lacking as well"
    with pytest.raises(errors.ResourceExhaustedError):
        accounts.choose([A], 101, QUOTA)


def test_entries_that_nobody_has_set_give_way_at_random() -> None:
    firsts = Counter[bytes]()
    for seed in range(300):
        accounts = Accounts(random.Random(seed))
        accounts.set_terms({A: AccountTerms("a", 500)})
        for number in range(10):
            accounts.add(hash_of(number), 10)
        victims = accounts.victims(A, 30, 10)
        assert len(victims) == len(set(victims)) == 2
        firsts[victims[0]] += 1
        with pytest.raises(errors.ResourceExhaustedError):
            accounts.choose([UNSET], 20, 10)  # among themselves they do not
    assert len(firsts) == 10
    assert max(firsts.values()) < 60


def test_a_lowered_limit_evicts_except_where_orders_say_what_goes() -> None:
    for terms in (AccountTerms("a", 40), AccountTerms("a", 40, lru=True)):
        accounts = filled(AccountTerms("a", 100, lru=terms.lru), 10)
        accounts.set_terms({A: terms})
        victims = accounts.excess()
        assert len(set(victims)) == 6
        if terms.lru:
            assert victims == [hash_of(number) for number in range(6)]
    accounts = filled(AccountTerms("a", 100), 10)
    accounts.set_terms({A: AccountTerms("a", 40, by_order=True)})
    assert accounts.excess() == []


def test_what_is_in_no_account_any_more_is_nobodys() -> None:
    accounts = filled(AccountTerms("a", 100), 3)
    accounts.reserve(A, 10)
    accounts.set_terms({B: AccountTerms("b")})
    assert [accounts.key_of(hash_of(number)) for number in range(3)] == [UNSET] * 3
    assert accounts.used_bytes(UNSET) == 30
    accounts.release(A, 10)
    assert accounts.used_bytes(A) == 0
    with pytest.raises(ValueError, match="0 reserved"):
        accounts.release(A, 1)


TERMS = {
    A: st.builds(AccountTerms, st.just("a"), st.none() | st.integers(0, QUOTA)),
    B: st.builds(AccountTerms, st.just("b"), st.none() | st.integers(0, QUOTA), lru=st.booleans()),
    C: st.builds(AccountTerms, st.just("c"), st.integers(0, QUOTA), by_order=st.just(True)),
}


class Terms:
    """Rules: what `keys` says of each hash, as far as there is such an account."""

    def __init__(self, terms: dict[bytes, AccountTerms], keys: dict[bytes, list[bytes]]) -> None:
        self.terms, self._keys = terms, keys

    def accounts(self, hash: bytes, why: Why) -> list[bytes]:
        return [key for key in self._keys[hash] if key == UNSET or key in self.terms] or [UNSET]

    def accounts_of(self, hashes: Sequence[bytes]) -> list[list[bytes]]:
        return [self.accounts(hash, Why.STANDS) for hash in hashes]


class Entries(RuleBasedStateMachine):
    """Accounts as the books use them: room is claimed, what must go goes, then the entry lands or does not."""

    def __init__(self) -> None:
        super().__init__()
        self.keys: dict[bytes, list[bytes]] = {}
        self.books = Books(QUOTA, lambda hash, held: None, random.Random(3))
        self.terms: dict[bytes, AccountTerms] = {}
        self.books.use(Terms(self.terms, self.keys))
        self.claims: list[Claim] = []
        self.settled = True

    def entries(self) -> dict[bytes, tuple[bytes, int]]:
        return {hash: (self.books.accounts.key_of(hash), size) for hash, size in self.books.sizes.items()}

    def forget(self, hashes: list[bytes]) -> None:
        assert len(set(hashes)) == len(hashes)
        for hash in self.books.take(hashes):
            self.books.gone(hash)

    @rule(keys=st.lists(st.sampled_from([UNSET, A, B, C]), min_size=1, max_size=2), size=st.integers(1, 300))
    def claim(self, keys: list[bytes], size: int) -> None:
        hash = hash_of(len(self.keys) + 1)
        self.keys[hash] = keys
        before, free_bytes = self.entries(), self.books.ledger.free_bytes
        used = {key: self.books.accounts.used_bytes(key) for key in (UNSET, *self.terms)}
        try:
            claim = self.books.claim(hash, size, Why.ASKED)
        except errors.ResourceExhaustedError:
            return
        assert claim and claim.account in self.books.rules.accounts(hash, Why.ASKED)
        victims, key = dict(claim.victims), claim.account
        for victim in victims:
            assert before[victim][0] == UNSET or (before[victim][0] == key and self.terms[key].lru)
            assert before[victim][0] != UNSET or key != UNSET
            self.books.victim_gone(claim, victim)
        assert self.books.ledger.free_bytes == free_bytes + sum(victims.values()) - size >= 0
        if victims:
            smaller = sum(victims.values()) - max(victims.values())
            limit = self.terms[key].limit_bytes if key in self.terms else None
            over = used[key] + size - limit if limit is not None else 0
            assert smaller < max(size - free_bytes, 0) + max(over, 0), "no more than is needed goes"
        self.claims.append(claim)

    @rule(stands=st.booleans(), number=st.integers(0, 100))
    def land(self, stands: bool, number: int) -> None:
        if not self.claims:
            return
        claim = self.claims.pop(number % len(self.claims))
        if stands and self.books.may_land(claim):
            assert self.books.land(claim, True)
        else:
            self.books.abandon(claim, True)

    @rule(number=st.integers(0, 100), remove=st.booleans())
    def use(self, number: int, remove: bool) -> None:
        if not self.books.sizes:
            return
        hash = sorted(self.books.sizes)[number % len(self.books.sizes)]
        if remove:
            self.forget([hash])
        else:
            self.books.accounts.touch(hash)

    @rule(terms=st.fixed_dictionaries({}, optional=TERMS))
    def set_terms(self, terms: dict[bytes, AccountTerms]) -> None:
        before = self.entries()
        self.terms = terms
        self.books.use(Terms(terms, self.keys))
        assert self.entries() == {h: (k if k in terms else UNSET, size) for h, (k, size) in before.items()}
        self.settled = False

    @rule()
    def settle(self) -> None:
        victims, before = self.books.accounts.excess(), self.entries()
        assert all(not self.terms[before[hash][0]].by_order for hash in victims)
        self.forget(victims)
        self.settled = True

    @invariant()
    def every_byte_is_in_one_account(self) -> None:
        entries, reserved = Counter[bytes](), Counter[bytes]()
        for key, size in self.entries().values():
            entries[key] += size
        for claim in self.claims:
            reserved[claim.account] += claim.size_bytes
        for key in (UNSET, A, B, C):
            assert self.books.accounts.used_bytes(key) == entries[key] + reserved[key]
        assert self.books.ledger.stored_bytes == entries.total()
        assert self.books.ledger.reserved_bytes == reserved.total()
        if self.settled:
            for key, terms in self.terms.items():
                used = entries[key] + reserved[key]
                limit = terms.limit_bytes
                assert limit is None or terms.by_order or used <= limit or not entries[key]


TestEntries = Entries.TestCase
TestEntries.settings = settings(max_examples=80, stateful_step_count=40, deadline=None)


@given(st.lists(st.integers(1, 50), min_size=1, max_size=30), st.integers(0, 2000), st.integers(0, 99))
def test_at_random_takes_enough_and_not_one_too_many(sizes: list[int], wanted: int, seed: int) -> None:
    accounts = Accounts(random.Random(seed))
    accounts.set_terms({A: AccountTerms("a", 0)})
    for number, size in enumerate(sizes):
        accounts.add(hash_of(number), size, A)
    accounts.set_terms({A: AccountTerms("a", max(0, sum(sizes) - wanted))})
    victims = [sizes[int.from_bytes(hash, "big")] for hash in accounts.excess()]
    assert sum(victims) >= min(wanted, sum(sizes))
    if victims:
        assert sum(victims[:-1]) < wanted
