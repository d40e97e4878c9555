"""How many requests at a time, against stores whose throughput is known."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tfquiver.service.node.reading_the_object_store.parallelism import FIRST, LEAST, MOST, Parallelism


def run(subject: Parallelism, rate: Callable[[int], float], seconds: int, now: float, met: bool = True) -> float:
    """As many requests as may be, all the time; `rate`: bytes a second by how many there are."""
    for _ in range(seconds):
        limit = subject.limit
        for _ in range(limit):
            now += 1.01 / limit
            if met:
                subject.met()
            subject.ended(now, int(rate(limit) / limit))
    return now


@pytest.mark.parametrize(
    ("enough", "least", "most"), [(8, FIRST, 24), (30, 25, 40), (64, 50, MOST), (1000, MOST, MOST)]
)
def test_it_rises_while_throughput_does(enough: int, least: int, most: int) -> None:
    subject = Parallelism(0.0)
    run(subject, lambda limit: 1e6 * min(limit, enough), 60, 0.0)
    assert least <= subject.limit <= most


def test_it_does_not_rise_where_nobody_meets_it() -> None:
    subject = Parallelism(0.0)
    run(subject, lambda limit: 1e6 * limit, 60, 0.0, met=False)
    assert subject.limit == FIRST


def test_it_falls_when_the_store_says_so_and_never_below_the_least() -> None:
    subject = Parallelism(0.0)
    for _ in range(5):
        subject.refused(5.0)
    assert subject.limit == FIRST * 7 // 10, "those that were sent together count as one"
    for second in range(6, 60):
        subject.refused(float(second))
    assert subject.limit == LEAST


def test_it_rises_again_after_a_refusal_though_not_at_once() -> None:
    subject = Parallelism(0.0)
    subject.refused(0.0)
    fallen = subject.limit
    now = run(subject, lambda limit: 1e6 * limit, 6, 0.0)
    assert subject.limit == fallen
    run(subject, lambda limit: 1e6 * limit, 60, now)
    assert subject.limit == MOST
