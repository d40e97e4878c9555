"""A store that has become slower is told from one that is asked for more at once."""

from __future__ import annotations

import math

from hypothesis import given
from hypothesis import strategies as st

from tfquiver.service.coordinator.measuring_jobs_and_stores.store_load import StoreLoad
from tfquiver.service.coordinator.probing.limits import ProbeLimits
from tfquiver.service.coordinator.probing.store_change import StoreBefore

FACTOR = ProbeLimits().load_factor
AT_ONCE = st.floats(1.0, 64.0)
SLOWER = st.floats(FACTOR * 1.001, 100.0)


def seen(at_once: float, bytes_per_s: float, request_s: float, size_bytes: int = 1 << 20) -> StoreLoad:
    """Of a store that gives so much altogether, and takes so long for each request at least, asked for so many."""
    rate = min(bytes_per_s, at_once * size_bytes / request_s)
    return StoreLoad(1 / rate, None, at_once / rate)


STORES = st.tuples(st.floats(1e5, 1e10), st.floats(1e-3, 10.0))


@given(STORES, st.lists(AT_ONCE, max_size=20))
def test_a_store_that_stays_as_it_is_is_none_other_however_much_is_asked_for(
    store: tuple[float, float], asked: list[float]
) -> None:
    before = StoreBefore()
    assert not any(before.changed(seen(at_once, *store), FACTOR) for at_once in asked)


@given(STORES, AT_ONCE, SLOWER, st.sampled_from([-1, 1]))
def test_one_that_is_slower_or_faster_is_another_one(
    store: tuple[float, float], at_once: float, factor: float, way: int
) -> None:
    before = StoreBefore()
    before.changed(seen(at_once, *store), FACTOR)
    times = factor**way
    assert before.changed(seen(at_once, store[0] / times, store[1] * times), FACTOR)


@given(STORES, AT_ONCE, st.floats(1.0, 16.0), SLOWER)
def test_who_waits_for_a_slower_store_asks_for_more_and_it_is_seen(
    store: tuple[float, float], at_once: float, more: float, factor: float
) -> None:
    before = StoreBefore()
    before.changed(seen(at_once, *store), FACTOR)
    slower = seen(at_once * more, store[0] / (factor * more), store[1] * factor * more)
    assert before.changed(slower, FACTOR)


def test_a_change_while_little_is_asked_for_is_seen_by_what_was_seen_of_little_before() -> None:
    before = StoreBefore()
    for at_once in (16, 2):
        assert not before.changed(seen(at_once, 1e8, 0.02), FACTOR)
    assert before.changed(seen(2, 3e7, 0.02), FACTOR), "less is asked for than when the job was probed"


def test_slowly_is_a_change_too_and_nobody_reading_is_none() -> None:
    before = StoreBefore()
    rates = [1e8 * 0.97**step for step in range(20)]
    at = [before.changed(seen(4, rate, 1e-3), FACTOR) for rate in rates].index(True)
    assert rates[0] / rates[at] >= FACTOR > rates[0] / rates[at - 1]
    assert not before.changed(StoreLoad(), FACTOR)
    assert not before.changed(StoreLoad(0.0, None, math.inf), FACTOR)
