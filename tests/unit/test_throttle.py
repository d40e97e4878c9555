from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tfquiver import errors
from tfquiver.service.node.rate_limits.token_bucket import TokenBucket


@given(st.lists(st.tuples(st.integers(0, 5000), st.floats(0, 10)), min_size=1, max_size=50))
def test_never_more_than_the_rate_and_one_burst(takes: list[tuple[int, float]]) -> None:
    rate, burst, now_s, moved = 1000.0, 500.0, 0.0, 0
    bucket = TokenBucket(rate, burst, now_s)
    for size_bytes, pause_s in takes:
        now_s += pause_s
        now_s += bucket.take(size_bytes, now_s)  # the taker waits, then moves the bytes
        moved += size_bytes
        assert moved <= burst + rate * now_s + 1e-6 * (1 + moved)


@given(st.integers(1, 10_000))
def test_a_steady_taker_gets_the_whole_rate(size_bytes: int) -> None:
    bucket = TokenBucket(1000.0, 500.0, 0.0)
    now_s = 0.0
    for _ in range(20):
        now_s += bucket.take(size_bytes, now_s)
    assert now_s == pytest.approx(max(0.0, (20 * size_bytes - 500) / 1000))


@given(st.lists(st.tuples(st.floats(1, 1e6), st.integers(0, 5000)), min_size=1, max_size=20))
def test_what_was_taken_at_another_rate_is_still_paid_for(changes: list[tuple[float, int]]) -> None:
    """Never more than what came in at each rate, and one burst."""
    bucket, now_s, most, moved = TokenBucket(1000.0, 10.0, 0.0), 0.0, 10.0, 0.0
    for rate, size_bytes in changes:
        bucket.refill_at(rate, 10.0, now_s)
        pause_s = bucket.take(size_bytes, now_s)
        now_s, most, moved = now_s + pause_s, most + rate * pause_s, moved + size_bytes
        assert moved <= most * (1 + 1e-9) + 1e-6


def test_limits_that_cannot_be_right() -> None:
    for rate, burst in ((0, 1), (1, 0), (-1, 1)):
        with pytest.raises(errors.InvalidArgumentError):
            TokenBucket(rate, burst, 0.0)
        with pytest.raises(errors.InvalidArgumentError):
            TokenBucket(1, 1, 0.0).refill_at(rate, burst, 0.0)
