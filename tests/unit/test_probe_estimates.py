"""How sure a ratio of two times is: against tables, and against what comes out when the truth is known."""

from __future__ import annotations

import math
import random

import pytest

from tfquiver.service.coordinator.probing import estimates
from tfquiver.service.coordinator.probing.estimates import TimePerByte


@pytest.mark.parametrize(
    ("freedom", "table"), [(5, 2.5706), (7, 2.3646), (10, 2.2281), (20, 2.0860), (31, 2.0395), (1e6, 1.9600)]
)
def test_students_t_is_that_of_the_tables(freedom: float, table: float) -> None:
    assert estimates.t_quantile(0.975, freedom) == pytest.approx(table, rel=0.002)
    assert estimates.t_quantile(0.025, freedom) == pytest.approx(-table, rel=0.002)


def test_times_without_noise_are_certain() -> None:
    slow, fast = TimePerByte(), TimePerByte()
    for _ in range(100):
        slow.add(1.0, 10)
        fast.add(1.0, 40)
    found = estimates.ratio(slow, fast)
    assert found.value == pytest.approx(4.0)
    assert found.half_width == pytest.approx(0.0, abs=1e-9)


def drawn(rng: random.Random, count: int, rate: float, memory: float) -> TimePerByte:
    """Seconds of a job whose speed wanders: `memory` of what was lasts to the next second."""
    times, wander = TimePerByte(), 0.0
    for _ in range(count):
        wander = memory * wander + rng.gauss(0.0, 0.3) * math.sqrt(1 - memory**2)
        times.add(1.0, int(rate * max(1 + wander, 0.0)))
    return times


@pytest.mark.slow
@pytest.mark.parametrize(("count", "memory", "least"), [(10, 0.0, 0.92), (60, 0.0, 0.92), (200, 0.5, 0.88)])
def test_the_interval_holds_the_truth_as_often_as_it_says(count: int, memory: float, least: float) -> None:
    rng, held, trials = random.Random(count), 0, 1000
    for _ in range(trials):
        found = estimates.ratio(drawn(rng, count, 1e6, memory), drawn(rng, count, 3e6, memory))
        held += found.low <= 3.0 <= found.high
    assert least <= held / trials <= 0.98


def test_many_batches_become_few_and_nothing_is_lost() -> None:
    times = TimePerByte()
    for number in range(1000):
        times.add(0.5, number)
        assert len(times.batches) <= 32
    assert times.size_bytes == sum(range(1000))
    assert sum(seconds for seconds, _ in times.batches) == pytest.approx(500.0)


def test_nothing_delivered_is_not_enough() -> None:
    times = TimePerByte()
    for _ in range(20):
        times.add(1.0, 0)
    assert not times.enough
