"""What jobs may read from the store: rates that hold over time, what is left of them lent, and given back."""

from __future__ import annotations

import math
from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.budgeted import DATA, OTHER, SHARD_BYTES, World, crowd
from tfquiver.clock import ManualClock
from tfquiver.service.coordinator.bandwidth_budgets import budgets as budgets_module
from tfquiver.service.coordinator.bandwidth_budgets.bucket import Bucket
from tfquiver.service.coordinator.bandwidth_budgets.budgets import Budgets
from tfquiver.service.coordinator.bandwidth_budgets.lending import effective_rates, wanted

RATES = st.floats(1.0, 1e12)
JOBS = st.dictionaries(
    st.sampled_from("abcdefgh"), st.tuples(RATES, st.one_of(st.just(math.inf), st.floats(1.0, 1e12)))
)


@given(JOBS)
def test_what_is_lent_is_what_is_left_and_nobody_goes_short(jobs: dict[str, tuple[float, float]]) -> None:
    allocated = {job: rate for job, (rate, _) in jobs.items()}
    wants = {job: want for job, (_, want) in jobs.items()}
    rates = effective_rates(allocated, wants)
    assert rates.keys() == jobs.keys()
    assert sum(rates.values()) == pytest.approx(sum(allocated.values()))
    for job, rate in rates.items():
        assert rate >= min(wants[job], allocated[job]) * (1 - 1e-9)


@given(JOBS.filter(bool))
def test_nothing_is_idle_that_somebody_wants(jobs: dict[str, tuple[float, float]]) -> None:
    allocated = {job: rate for job, (rate, _) in jobs.items()}
    wants = {job: want for job, (_, want) in jobs.items()}
    rates = effective_rates(allocated, wants)
    used = sum(min(rates[job], wants[job]) for job in jobs)
    assert used == pytest.approx(min(sum(allocated.values()), sum(wants.values())))


def test_borrowers_share_by_their_allocations_up_to_what_they_want() -> None:
    rates = effective_rates({"a": 10, "b": 20, "c": 30, "d": 40}, {"a": math.inf, "b": math.inf, "c": 33, "d": 10})
    assert rates == pytest.approx({"a": 19, "b": 38, "c": 33, "d": 10})


@given(RATES, st.floats(0, 2))
def test_a_job_that_did_not_wait_keeps_some_room_to_grow(allocated: float, share: float) -> None:
    want = wanted(allocated, share * allocated, held_back=False)
    assert want >= 1.25 * share * allocated * (1 - 1e-9)
    assert (
        allocated / 8 <= want * (1 + 1e-9) <= (1.25 * share + 1 / 8) * allocated * (1 + 1e-9) or want == allocated / 8
    )
    assert wanted(allocated, 0.0, held_back=True) == math.inf


@given(RATES, st.lists(st.tuples(st.floats(0, 10), st.floats(0, 3)), max_size=60))
def test_a_bucket_lets_no_more_through_than_came_in(rate: float, takes: list[tuple[float, float]]) -> None:
    """Sizes and pauses in seconds of the rate."""
    bucket, now_s, taken, largest = Bucket(rate, 0.0), 0.0, 0.0, 0.0
    for size_s, pause_s in takes:
        now_s += pause_s
        if bucket.left_bytes(now_s) > 0:
            bucket.take(size_s * rate, now_s)
            taken, largest = taken + size_s * rate, max(largest, size_s * rate)
        else:
            waits_s = bucket.pause_s(now_s)
            assert waits_s >= 0
            assert bucket.left_bytes(now_s + waits_s * (1 + 1e-9)) > -1e-6 * rate
            now_s += waits_s * (1 + 1e-9)
        assert taken <= rate * now_s * (1 + 1e-6) + largest


def test_a_job_gets_its_rate_and_one_without_a_rate_whatever_it_asks_for() -> None:
    world = World(a=10_000.0)
    taken = world.go(10, a=1e6, free=50_000)
    assert taken["a"] == pytest.approx(10_000, rel=0.02)
    assert taken["free"] == pytest.approx(50_000, rel=0.02)


def test_what_a_job_does_not_use_is_lent_and_given_back_within_a_second() -> None:
    world = World(a=10_000.0, b=10_000.0)
    world.go(3, a=1e6, b=800)
    lent = world.go(10, a=1e6, b=800)
    assert lent["a"] == pytest.approx(10_000 + 7 / 8 * 10_000, rel=0.02)
    assert lent["b"] == pytest.approx(800, rel=0.1)
    world.go(1, a=1e6, b=1e6)
    both = world.go(5, a=1e6, b=1e6)
    assert both["a"] == pytest.approx(10_000, rel=0.03)
    assert both["b"] == pytest.approx(10_000, rel=0.03)


def test_a_job_that_is_not_there_lends_nothing() -> None:
    world = World(a=10_000.0, b=10_000.0)
    world.jobs_of = {DATA: frozenset("a")}
    assert world.go(10, a=1e6)["a"] == pytest.approx(10_000, rel=0.02)


def test_lenders_that_come_back_at_once_have_theirs_and_are_not_all_weighed_for_each(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world, weighed = crowd(1000), [0]
    budgets = world.budgets

    def counted(*args: Mapping[str, float]) -> dict[str, float]:
        weighed[0] += 1
        return effective_rates(*args)

    monkeypatch.setattr(budgets_module, "effective_rates", counted)
    for _ in range(2):  # only the first wants anything
        budgets.leased("job0", 10**9)
        budgets.held_back("job0")
        world.clock.advance(1)
        budgets.tick(world.jobs_of, [DATA])
    assert budgets.effective("job1") < budgets.allocated["job1"]
    weighed[0] = 0
    for job in budgets.allocated:
        budgets.leased(job, 10**9)
        budgets.held_back(job)
        assert budgets.effective(job) >= budgets.allocated[job]
    assert weighed[0] <= 1, "it was once for each"
    world.clock.advance(0.06)
    budgets.left_bytes("job0")
    assert budgets.effective("job0") == pytest.approx(budgets.allocated["job0"]), "nothing is lent any more"


def test_what_a_job_borrowed_from_one_with_a_rate_far_beyond_its_own_is_forgotten_without_a_trace() -> None:
    """A pin as large as may be, which means no limit, and a rate of nearly nothing: they leave no digit of each other
    in a sum."""
    clock = ManualClock()
    budgets = Budgets(clock)
    budgets.pins.allocate("no limit", 1e18)
    budgets.pins.allocate("least", 1.0)
    readers = {DATA: frozenset(("least",)), OTHER: frozenset(("no limit",))}
    for _ in range(2):
        clock.advance(1.0)
        budgets.held_back("least")
        budgets.tick(readers, ())
    assert budgets.effective("least") > 1e17, "it borrows"
    budgets.leased_for_all("least", DATA, [0], [SHARD_BYTES])
    clock.advance(0.5)
    budgets.held_back("no limit")
    assert budgets.effective("least") == 1.0
    budgets.leased_for_all("least", DATA, [1], [SHARD_BYTES])
    left = budgets.left_bytes("least")
    assert left is not None and left >= -SHARD_BYTES, "it pays for the shard once"
