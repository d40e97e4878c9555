"""Accounts: limits hold, the right ones go, nothing is counted twice."""

from __future__ import annotations

import random
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from tfquiver import errors
from tfquiver.service.node.disk.accounts import UNSET, Accounts, AccountTerms

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
    with pytest.raises(errors.ResourceExhaustedError, match="data set mnist has 100 of its 100 bytes"):
        accounts.choose([A], 1, QUOTA)
    accounts.release(A, 10)
    assert accounts.choose([A], 10, QUOTA) == A
    with pytest.raises(errors.ResourceExhaustedError, match="5 bytes of the quota are free"):
        accounts.choose([A], 10, 5)


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


class Store(RuleBasedStateMachine):
    """As the disk store uses them: evict, reserve, then the entry stands or not; the quota is the store's own."""

    def __init__(self) -> None:
        super().__init__()
        self.accounts = Accounts(random.Random(3))
        self.terms: dict[bytes, AccountTerms] = {}
        self.entries: dict[bytes, tuple[bytes, int]] = {}
        self.reserved: list[tuple[bytes, int]] = []
        self.count = 0
        self.settled = True

    @property
    def free(self) -> int:
        return QUOTA - sum(size for _, size in [*self.entries.values(), *self.reserved])

    def forget(self, hashes: list[bytes]) -> None:
        assert len(set(hashes)) == len(hashes)
        for hash in hashes:
            del self.entries[hash]
            self.accounts.remove(hash)

    @rule(keys=st.lists(st.sampled_from([UNSET, A, B, C]), min_size=1, max_size=2), size=st.integers(1, 300))
    def reserve(self, keys: list[bytes], size: int) -> None:
        before = dict(self.entries)
        try:
            key = self.accounts.choose(keys, size, self.free)
        except errors.ResourceExhaustedError:
            return
        assert key in keys
        victims = self.accounts.victims(key, size, self.free)
        for hash in victims:
            assert before[hash][0] == UNSET or (before[hash][0] == key and self.terms[key].lru)
            assert before[hash][0] != UNSET or key != UNSET
        self.forget(victims)
        assert size <= self.free, "there is room now"
        if victims:
            smaller = sum(before[hash][1] for hash in victims) - max(before[hash][1] for hash in victims)
            lacking = size - (QUOTA - sum(s for _, s in [*before.values(), *self.reserved]))
            limit = self.terms[key].limit_bytes if key in self.terms else None
            used = sum(s for k, s in [*before.values(), *self.reserved] if k == key)
            over = used + size - limit if limit is not None else 0
            assert smaller < max(lacking, 0) + max(over, 0), "no more than is needed goes"
        self.accounts.reserve(key, size)
        self.reserved.append((key, size))

    @rule(stands=st.booleans(), number=st.integers(0, 100))
    def land(self, stands: bool, number: int) -> None:
        if not self.reserved:
            return
        reserved_in, size = self.reserved.pop(number % len(self.reserved))
        key = reserved_in if reserved_in in (UNSET, *self.terms) else UNSET
        stands = stands and self.accounts.admits(key, size, reserved_in)
        self.accounts.release(reserved_in, size)
        if stands:
            self.count += 1
            self.accounts.add(hash_of(self.count), size, key)
            self.entries[hash_of(self.count)] = (key, size)

    @rule(number=st.integers(0, 100), remove=st.booleans())
    def use(self, number: int, remove: bool) -> None:
        if not self.entries:
            return
        hash = sorted(self.entries)[number % len(self.entries)]
        if remove:
            self.forget([hash])
        else:
            self.accounts.touch(hash)

    @rule(terms=st.fixed_dictionaries({}, optional=TERMS))
    def set_terms(self, terms: dict[bytes, AccountTerms]) -> None:
        self.accounts.set_terms(terms)
        self.terms = terms
        self.entries = {h: (k if k in terms else UNSET, size) for h, (k, size) in self.entries.items()}
        self.settled = False

    @rule()
    def settle(self) -> None:
        victims = self.accounts.excess()
        keys = {self.entries[hash][0] for hash in victims}
        assert all(not self.terms[key].by_order for key in keys)
        self.forget(victims)
        self.settled = True

    @invariant()
    def every_byte_is_in_one_account(self) -> None:
        used = Counter[bytes]()
        for key, size in [*self.entries.values(), *self.reserved]:
            used[key] += size
        for key in (UNSET, A, B, C):
            assert self.accounts.used_bytes(key) == used[key]
        assert all(self.accounts.key_of(hash) == key for hash, (key, _) in self.entries.items())
        if self.settled:
            for key, terms in self.terms.items():
                reserved = sum(size for k, size in self.reserved if k == key)
                entries = used[key] - reserved
                limit = terms.limit_bytes
                assert limit is None or terms.by_order or used[key] <= limit or not entries


TestStore = Store.TestCase
TestStore.settings = settings(max_examples=80, stateful_step_count=40, deadline=None)


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
