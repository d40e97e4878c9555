"""Books: whatever the disk refuses, in whatever order, every byte is counted and what can be read is here."""

from __future__ import annotations

import random

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from tfquiver import errors
from tfquiver.service.node.disk.setback import Setback
from tfquiver.service.node.disk_quota_books_and_eviction.accounts import AccountTerms
from tfquiver.service.node.disk_quota_books_and_eviction.books import Books, Claim
from tfquiver.service.node.disk_quota_books_and_eviction.rules import KeepAll, Why

A = b"a" * 32
QUOTA = 200


class Rules(KeepAll):
    terms = {A: AccountTerms("a", lru=True)}  # noqa: RUF012 - it does not change

    def accounts(self, hash: bytes, why: Why) -> tuple[bytes, ...]:
        return (A,)

    def accounts_of(self, hashes):  # type: ignore[no-untyped-def]
        return [(A,)] * len(hashes)


class Disk(RuleBasedStateMachine):
    """`files`: what is on the disk. Calls are begun and ended in any order, as threads would."""

    def __init__(self) -> None:
        super().__init__()
        self.told: dict[bytes, bool] = {}
        self.books = Books(QUOTA, lambda hash, held: self.told.update({hash: held}), random.Random(3))
        self.books.use(Rules())
        self.files: dict[bytes, int] = {}
        self.temporary: dict[int, int] = {}
        self.claims: list[Claim] = []
        self.landing: list[Claim] = []
        self.taken: list[bytes] = []
        self.damaged: list[bytes] = []

    @rule(number=st.integers(0, 6), size=st.integers(1, 90))
    def claim(self, number: int, size: int) -> None:
        hash = bytes([number]) * 32
        try:
            claim = self.books.claim(hash, size, Why.ASKED)
        except errors.ResourceExhaustedError:
            return
        if claim:
            self.claims.append(claim)

    @precondition(lambda self: any(claim.victims for claim in self.claims))
    @rule(gone=st.booleans())
    def make_way(self, gone: bool) -> None:
        claim = next(claim for claim in self.claims if claim.victims)
        victim = next(iter(claim.victims))
        if gone:
            del self.files[victim]
            self.books.victim_gone(claim, victim)
        else:
            self.claims.remove(claim)
            self.books.abandon(claim, True)

    @precondition(lambda self: any(not claim.victims for claim in self.claims))
    @rule(outcome=st.sampled_from(["written", "refused"]))
    def write(self, outcome: str) -> None:
        claim = next(claim for claim in self.claims if not claim.victims)
        if outcome == "refused":
            self.claims.remove(claim)
            self.books.abandon(claim, True)
        elif not self.books.is_going(claim.hash):
            self.claims.remove(claim)
            if self.books.may_land(claim):
                self.temporary[id(claim)] = claim.size_bytes
                self.landing.append(claim)
            else:
                self.books.abandon(claim, True)

    @precondition(lambda self: self.landing)
    @rule(renamed=st.booleans())
    def land(self, renamed: bool) -> None:
        claim = self.landing.pop(0)
        del self.temporary[id(claim)]
        if renamed:
            self.files[claim.hash] = claim.size_bytes
            assert self.books.land(claim, True)
        else:
            assert not self.books.land(claim, False)
            self.books.abandon(claim, True)

    @precondition(lambda self: self.books.sizes)
    @rule(data=st.data(), drop=st.booleans())
    def take(self, data: st.DataObject, drop: bool) -> None:
        hash = data.draw(st.sampled_from(sorted(self.books.sizes)))
        assert self.books.take([hash, hash], tell=not drop) == [hash]
        (self.damaged if drop else self.taken).append(hash)

    @precondition(lambda self: self.taken)
    @rule(gone=st.booleans())
    def unlink(self, gone: bool) -> None:
        hash = self.taken.pop()
        if gone:
            del self.files[hash]
            self.books.gone(hash)
        else:
            self.books.back(hash)

    @precondition(lambda self: self.damaged)
    @rule(outcome=st.sampled_from(["gone", "stays", "another"]))
    def drop(self, outcome: str) -> None:
        hash = self.damaged.pop()
        if outcome == "another":
            self.books.back(hash, tell=False)
            return
        if outcome == "gone":
            del self.files[hash]
        self.books.dropped(hash, outcome == "gone")

    @invariant()
    def holds(self) -> None:
        ledger = self.books.ledger
        assert ledger.stored_bytes + ledger.reserved_bytes <= QUOTA
        on_disk = sum(self.files.values()) + sum(self.temporary.values())
        assert on_disk <= ledger.stored_bytes + ledger.reserved_bytes, "I-4 on the disk, not in the books alone"
        for hash, size in self.books.sizes.items():
            assert self.files[hash] == size, "what is here can be read"
        going = [*self.damaged]
        for hash, held in self.told.items():
            assert held == (hash in self.books.sizes) or hash in going
        if not self.claims and not self.landing and not self.taken and not self.damaged:
            assert ledger.reserved_bytes == 0
            assert ledger.stored_bytes == sum(self.files.values())


TestDisk = Disk.TestCase


def test_after_each_failure_the_disk_is_left_alone_for_longer() -> None:
    setback = Setback()
    assert not setback.trouble(5)
    pauses, now_s = [], 100.0
    for _ in range(7):
        setback.failed("it refuses", now_s)
        begun = now_s
        while setback.trouble(now_s):
            assert setback.trouble(now_s) == "it refuses"
            now_s += 0.25
        pauses.append(now_s - begun)
    assert pauses == sorted(pauses)
    assert (pauses[0], pauses[-1]) == (0.5, 10.0)
    setback.failed("it refuses", now_s)
    setback.over()
    assert not setback.trouble(now_s)
    setback.failed("it refuses", now_s)
    assert not setback.trouble(now_s + 0.5)
