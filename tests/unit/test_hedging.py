from __future__ import annotations

import pytest

from tfquiver.service.node.reading_the_object_store.hedging import SHARE, Hedges


def test_nothing_is_late_before_enough_is_known() -> None:
    hedges = Hedges()
    for _ in range(63):
        hedges.came(0.1)
        assert hedges.late_after_s() is None
    hedges.came(0.1)
    assert hedges.late_after_s() == pytest.approx(0.3)


def test_late_is_what_all_but_a_hundredth_are_not() -> None:
    hedges = Hedges()
    for number in range(200):
        hedges.came(0.1 if number % 100 else 5.0)
    late_s = hedges.late_after_s()
    assert late_s is not None
    assert 0.3 <= late_s < 5.0
    for number in range(200):
        hedges.came(0.1 if number % 10 else 5.0)  # every tenth: that is how this store is
    assert hedges.late_after_s() == 5.0


def test_a_share_of_all_requests_is_sent_twice_and_no_more() -> None:
    hedges, sent = Hedges(), 0
    for _ in range(10_000):
        hedges.began()
        sent += hedges.may()
    assert sent <= 10_000 * SHARE + 1
    assert sent >= 10_000 * SHARE - 1


def test_what_is_not_used_is_saved_up_to_a_few() -> None:
    hedges = Hedges()
    for _ in range(100_000):
        hedges.began()
    assert sum(hedges.may() for _ in range(100)) == 4
