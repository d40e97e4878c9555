"""Times of reads that overlap: each one's, and that in which any was under way."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tfquiver.service.node.counters.read_times import MOST_S, ReadTimes


def test_two_at_the_same_time_count_twice_as_requests_and_once_as_time() -> None:
    times = ReadTimes(100.0)
    one = times.begin(101.0)
    two = times.begin(102.0)
    assert times.at(103.0).request_s == pytest.approx(3.0), "those under way are in it"
    times.end(one, 10, 104.0)
    times.end(two, 0, 105.0)
    at = times.at(110.0)
    assert (at.reads, at.size_bytes, at.elapsed_s) == (2, 10, 10.0)
    assert (at.busy_s, at.request_s) == pytest.approx((4.0, 6.0))
    message = at.message(all_bytes=30)
    assert (message.busy_us, message.request_us, message.elapsed_us) == (4_000_000, 6_000_000, 10_000_000)
    assert (message.bytes, message.all_bytes) == (10, 30)


def test_a_read_that_hangs_keeps_a_node_busy_for_a_while_only() -> None:
    times = ReadTimes(0.0)
    hangs = times.begin(0.0)
    assert times.at(1000.0).busy_s == pytest.approx(MOST_S)
    other = times.begin(1000.0)
    times.end(other, 5, 1001.0)
    times.end(hangs, 7, 2000.0)
    at = times.at(2000.0)
    assert (at.reads, at.size_bytes) == (2, 12)
    assert (at.busy_s, at.request_s) == pytest.approx((MOST_S + 1, MOST_S + 1))


def test_how_long_the_oldest_read_has_been_under_way() -> None:
    """Also of one that hangs; when all have ended there is none."""
    times = ReadTimes(0.0)
    assert times.at(5.0).oldest_s == 0.0
    one, other = times.begin(10.0), times.begin(12.0)
    assert times.at(13.0).oldest_s == pytest.approx(3.0)
    assert times.at(10.0 + 2 * MOST_S).message(all_bytes=0).oldest_ms == 2000 * MOST_S
    times.end(one, 1, 12.0 + 2 * MOST_S)
    assert times.at(12.0 + 2 * MOST_S).oldest_s == pytest.approx(2 * MOST_S)
    times.end(other, 1, 13.0 + 2 * MOST_S)
    assert times.at(14.0 + 2 * MOST_S).oldest_s == 0.0


@given(st.lists(st.tuples(st.floats(-5, 30), st.booleans()), max_size=80))
def test_nothing_falls_and_nobody_is_busy_for_longer_than_there_was_time(steps: list[tuple[float, bool]]) -> None:
    times, now, open_ = ReadTimes(0.0), 0.0, list[int]()
    before = times.at(now)
    for passed_s, begins in steps:
        now += passed_s  # a clock that goes back stands still
        if begins:
            open_.append(times.begin(now))
        elif open_:
            times.end(open_.pop(), 1, now)
        at = times.at(now)
        assert before.busy_s <= at.busy_s <= at.elapsed_s + 1e-6
        assert before.request_s <= at.request_s + 1e-9
        assert at.busy_s <= at.request_s + 1e-6
        before = at
