"""What people and schedulers outside have said that jobs may read: kept, taken back, and cheap to say of many."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.budgeted import DATA, OTHER, SHARD_BYTES, World
from tfquiver import errors
from tfquiver.clock import ManualClock
from tfquiver.service.coordinator.bandwidth_budgets import budgets as budgets_module
from tfquiver.service.coordinator.bandwidth_budgets import pins as module
from tfquiver.service.coordinator.bandwidth_budgets.budgets import Budgets
from tfquiver.service.coordinator.bandwidth_budgets.lending import effective_rates


def test_pins_are_journaled_and_policies_leave_them_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(a=1000.0)
    budgets = world.budgets
    budgets.plan({"a": 1.0, "b": 5.0})
    assert budgets.allocated == {"a": 1000.0, "b": 5.0}
    budgets.pins.allocate("c", 7.0)
    budgets.pins.allocate("a", 0)
    assert budgets.allocated == {"a": 1.0, "b": 5.0, "c": 7.0}
    budgets.plan({})
    for records in (world.log, list(budgets.pins.still()())):
        again = Budgets(world.clock)
        for record in records:
            again.pins.apply(record.remote_io_allocated)
        assert not again.allocated, "with each of ten thousand anew it would take a minute"
        again.restored()
        assert again.allocated == budgets.allocated == {"c": 7.0}
    monkeypatch.setattr(module, "MAX_PINS", 1)
    with pytest.raises(errors.ResourceExhaustedError, match="job: 1 jobs have an allocation"):
        budgets.pins.allocate("d", 1.0)
    budgets.pins.allocate("c", 8.0)
    budgets.pins.allocate("c", 0)
    assert not budgets.in_use
    assert budgets.left_bytes("c") is None


def test_a_pin_that_is_there_already_is_no_decision() -> None:
    """A scheduler that says those of a thousand jobs every second filled the log."""
    world = World(a=1000.0)
    before = len(world.log)
    assert not world.budgets.pins.allocate("a", 1000.0) and not world.budgets.pins.allocate("b", 0)
    assert len(world.log) == before
    assert world.budgets.pins.allocate("a", 0) and len(world.log) == before + 1


def test_what_jobs_used_that_have_no_limit_any_more_is_forgotten() -> None:
    """Who has the first limit after an hour without any does not seem to have used it for that hour."""
    world = World()
    for number in range(3):
        world.budgets.pins.allocate(f"job {number}", 1000.0)
        world.budgets.leased(f"job {number}", SHARD_BYTES)
        world.budgets.pins.allocate(f"job {number}", 0)
    world.clock.advance(3600.0)
    world.jobs_of = {DATA: frozenset({"job 0"})}
    world.budgets.pins.allocate("job 0", 1000.0)
    world.go(1.0, **{"job 0": 1000.0})
    assert world.budgets.used_bytes_per_s == {"job 0": pytest.approx(1000.0, rel=0.2)}
    assert not world.budgets._used_bytes


class CountingClock(ManualClock):
    asked = 0

    def now(self) -> float:
        self.asked += 1
        return super().now()


def test_what_a_scheduler_pins_is_worked_out_once_and_before_it_is_asked_for() -> None:
    """A thousand jobs, one after the other, took three seconds of the coordinator's loop."""
    clock = CountingClock()
    budgets = Budgets(clock)
    for round in (1, 2):
        clock.asked = 0
        for number in range(1000):
            budgets.pins.allocate(f"job {number}", 1000.0 * round)
        assert budgets.in_use
        assert clock.asked <= 1010, "not of each for all others"
        assert budgets.effective("job 7") == 1000.0 * round
    clock.asked = 0
    for number in range(999):
        budgets.pins.allocate(f"job {number}", 0)
    assert clock.asked <= 10, "nor when they have ended"
    assert list(budgets.allocated) == ["job 999"]


def test_with_leases_between_none_is_worked_out_for_all_others_either(monkeypatch: pytest.MonkeyPatch) -> None:
    """A scheduler shares out anew every few seconds, and jobs go on reading."""
    clock = ManualClock()
    budgets = Budgets(clock)
    jobs = [f"job {number}" for number in range(1000)]
    for _ in range(2):
        for job in jobs:
            budgets.pins.allocate(job, 1000.0)
        clock.advance(1.0)
        budgets.tick({DATA: frozenset(jobs)}, [])
    shared_out = list[int]()

    def counted(allocated: Mapping[str, float], wants: Mapping[str, float]) -> dict[str, float]:
        shared_out.append(len(allocated))
        return effective_rates(allocated, wants)

    monkeypatch.setattr(budgets_module, "effective_rates", counted)
    for at, job in enumerate(jobs):
        budgets.pins.allocate(job, 2000.0)
        assert budgets.allocated[job] == 2000.0
        assert budgets.left_bytes(jobs[at - 1]) is not None
    assert len(shared_out) <= 1


@given(
    st.lists(st.tuples(st.sampled_from(["pin", "tick", "lease", "wait"]), st.sampled_from("abcd"), st.integers(0, 3)))
)
def test_what_is_said_of_one_comes_to_the_same_as_if_all_were_worked_out_anew(
    steps: list[tuple[str, str, int]],
) -> None:
    world = World(a=1000.0, b=500.0)
    budgets, clock = world.budgets, world.clock
    budgets.plan(planned := {"c": 300.0, "d": 0.0})
    jobs_of = {DATA: frozenset("abc"), OTHER: frozenset("ad")}
    for what, job, amount in steps:
        clock.advance(0.3)
        match what:
            case "pin":
                budgets.pins.allocate(job, 1000.0 * amount)
            case "tick":
                budgets.tick(jobs_of, [DATA])
            case "lease":
                budgets.leased_for_all(job, DATA, [amount], [SHARD_BYTES])
            case "wait" if job in budgets.allocated:
                budgets.held_back(job)
    clock.advance(1.0)
    rates = {job: max(1.0, rate) for job, rate in (planned | budgets.pins.bytes_per_s).items()}
    assert dict(budgets.allocated) == rates
    for shared in budgets._shared.values():
        assert set(shared.limited) <= budgets.allocated.keys()
        together = sum(budgets.effective(job) for job in shared.limited)
        assert shared._together == pytest.approx(together)
    for job in "abcd":
        budgets.left_bytes(job)
    rates = {job: budgets.effective(job) for job in budgets.allocated}
    budgets._allocate()
    assert {job: budgets.effective(job) for job in budgets.allocated} == pytest.approx(rates)


def test_limits_that_are_taken_back_with_leases_between_are_worked_out_for_nobody_else() -> None:
    """Of a thousand each took the loop 3.6 ms, where jobs pay together or a policy has rates for them, too."""
    clock = CountingClock()
    budgets = Budgets(clock)
    jobs = [f"job {number}" for number in range(1000)]
    budgets.plan(dict.fromkeys(jobs[:500], 500.0))
    for job in jobs:
        budgets.pins.allocate(job, 1000.0)
    budgets.tick({DATA: frozenset(jobs)}, [])
    budgets.leased_for_all(jobs[0], DATA, [0], [SHARD_BYTES])
    clock.asked = 0
    for at, job in enumerate(jobs):
        budgets.pins.allocate(job, 0)
        budgets.pins.allocate("one without a limit", 0)
        assert budgets.allocated.get(job) == (500.0 if at < 500 else None)
        budgets.leased_for_all(jobs[at - 1], DATA, [at + 1], [SHARD_BYTES])
    assert clock.asked <= 10 * len(jobs)
    assert list(budgets.allocated) == jobs[:500]


def test_who_has_no_limit_any_more_pays_a_head_s_part() -> None:
    world = World(a=1e18, b=1000.0)
    budgets = world.budgets
    budgets.tick({DATA: frozenset("ab")}, [DATA])
    budgets.leased_for_all("a", DATA, [0], [SHARD_BYTES])
    budgets.pins.allocate("a", 0)
    was = budgets.left_bytes("b")
    budgets.leased_for_all("a", DATA, [1], [SHARD_BYTES])
    left = budgets.left_bytes("b")
    assert was is not None and left == pytest.approx(was - SHARD_BYTES / 2)


def test_who_paid_a_head_s_part_pays_by_its_rate_from_the_moment_it_has_one() -> None:
    world = World(b=1000.0)
    budgets = world.budgets
    budgets.tick({DATA: frozenset("ab")}, [DATA])
    budgets.leased_for_all("a", DATA, [0], [SHARD_BYTES])
    assert budgets.left_bytes("a") is None
    budgets.pins.allocate("a", 1000.0)
    budgets.leased_for_all("a", DATA, [1], [SHARD_BYTES])
    assert budgets.left_bytes("a") == pytest.approx(-SHARD_BYTES / 2)
