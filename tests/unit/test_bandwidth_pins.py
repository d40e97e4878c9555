"""What people and schedulers outside have said that jobs may read: kept, taken back, and cheap to say of many."""

from __future__ import annotations

import pytest

from tests.unit.budgeted import DATA, SHARD_BYTES, World
from tfquiver import errors
from tfquiver.clock import ManualClock
from tfquiver.service.coordinator.bandwidth_budgets import pins as module
from tfquiver.service.coordinator.bandwidth_budgets.budgets import Budgets


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
        assert clock.asked < 10
        assert budgets.effective("job 7") == 1000.0 * round
    for number in range(999):
        budgets.pins.allocate(f"job {number}", 0)
    assert list(budgets.allocated) == ["job 999"]
