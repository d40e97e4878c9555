from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from tfquiver import errors
from tfquiver.service.node.disk_quota_books_and_eviction.ledger import Ledger


def test_never_fits_is_not_the_same_as_not_now() -> None:
    ledger = Ledger(100)
    with pytest.raises(errors.NeverFitsError, match="101 B exceeds the quota of 100 B"):
        ledger.reserve(101)
    ledger.reserve(60)
    with pytest.raises(errors.ResourceExhaustedError, match="40 B of 100 B are free") as caught:
        ledger.reserve(41)
    assert type(caught.value) is errors.ResourceExhaustedError


def test_a_quota_of_nothing_takes_nothing() -> None:
    with pytest.raises(errors.NeverFitsError):
        Ledger(0).reserve(1)


def test_what_was_found_may_exceed_the_quota_and_then_nothing_fits() -> None:
    ledger = Ledger(100)
    ledger.found(130)
    assert ledger.excess_bytes == 30
    with pytest.raises(errors.ResourceExhaustedError, match="0 B of 100 B"):
        ledger.reserve(1)
    ledger.remove(130)
    ledger.reserve(100)


@given(st.integers(max_value=-1))
def test_negative_quotas_are_refused(quota_bytes: int) -> None:
    with pytest.raises(errors.InvalidArgumentError):
        Ledger(quota_bytes)
    with pytest.raises(errors.InvalidArgumentError):
        Ledger(0).resize(quota_bytes)


def test_released_and_removed_bytes_must_have_been_there() -> None:
    ledger = Ledger(10)
    for give_back in (ledger.release, ledger.remove, ledger.commit):
        with pytest.raises(ValueError, match="1 bytes of 0"):
            give_back(1)


class Ledgers(RuleBasedStateMachine):
    """I-4: whatever happens, in whatever order, the quota holds at every moment, and every byte is accounted for."""

    def __init__(self) -> None:
        super().__init__()
        self.ledger = Ledger(1000)
        self.reserved: list[int] = []
        self.stored: list[int] = []
        self.aside = 0

    @rule(size=st.integers(1, 1200))
    def reserve(self, size: int) -> None:
        with self.judged(size, going_bytes=0):
            self.ledger.reserve(size)
            self.reserved.append(size)

    @contextmanager
    def judged(self, size: int, going_bytes: int) -> Iterator[None]:
        """What is asked for in it is refused exactly when it does not fit, once others are gone."""
        taken_bytes = sum(self.reserved) + sum(self.stored) + self.aside - going_bytes
        fits = taken_bytes + size <= self.ledger.quota_bytes
        try:
            yield
        except errors.NeverFitsError:
            assert size > self.ledger.quota_bytes
        except errors.ResourceExhaustedError:
            assert not fits
        else:
            assert fits

    @precondition(lambda self: self.reserved)
    @rule(data=st.data())
    def commit(self, data: st.DataObject) -> None:
        size = self.reserved.pop(data.draw(st.integers(0, len(self.reserved) - 1)))
        self.ledger.commit(size)
        self.stored.append(size)

    @precondition(lambda self: self.stored)
    @rule(size=st.integers(1, 1200), data=st.data())
    def trade(self, size: int, data: st.DataObject) -> None:
        """Entries go for a new one: until they are gone, what they take and what it will take is reserved."""
        going = [data.draw(st.sampled_from(self.stored))]
        with self.judged(size, sum(going)):
            held = self.ledger.trade(sum(going), size)
            assert held == max(sum(going), size)
            self.stored.remove(going[0])
            self.reserved.append(held)

    @rule(size=st.integers(0, 300))
    def set_aside(self, size: int) -> None:
        self.ledger.set_aside(size)
        self.aside = size

    @precondition(lambda self: self.reserved)
    @rule(data=st.data())
    def release(self, data: st.DataObject) -> None:
        self.ledger.release(self.reserved.pop(data.draw(st.integers(0, len(self.reserved) - 1))))

    @precondition(lambda self: self.stored)
    @rule(data=st.data())
    def remove(self, data: st.DataObject) -> None:
        self.ledger.remove(self.stored.pop(data.draw(st.integers(0, len(self.stored) - 1))))

    @rule(quota=st.integers(0, 2000))
    def resize(self, quota: int) -> None:
        self.ledger.resize(quota)

    @invariant()
    def holds(self) -> None:
        assert self.ledger.stored_bytes == sum(self.stored)
        assert self.ledger.reserved_bytes == sum(self.reserved)
        over = sum(self.stored) + sum(self.reserved) + self.aside - self.ledger.quota_bytes
        assert self.ledger.excess_bytes == max(0, over)


TestLedgers = Ledgers.TestCase
