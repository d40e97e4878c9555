"""The planner under noise: data moves no more than is allowed, and not at all where it is usual."""

from __future__ import annotations

import random
from dataclasses import dataclass, replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.policy_world import GB, POLICIES, one_job_each, settled, with_rates
from tfquiver.service.coordinator.plan_rounds_and_moves.decisions_kept_and_explained.decision import Decision
from tfquiver.service.coordinator.plan_rounds_and_moves.decisions_kept_and_explained.history import MOST_DECISIONS
from tfquiver.service.coordinator.plan_rounds_and_moves.hysteresis import Patience
from tfquiver.service.coordinator.plan_rounds_and_moves.moves import HOUR_S, MoveBudget, move
from tfquiver.service.coordinator.plan_rounds_and_moves.planner import Planner
from tfquiver.service.coordinator.policies.views_and_plans.interface import Allocation


@dataclass(frozen=True)
class Noisy:
    """Six data sets of which two find room; each measurement is off by up to `noise`, anew at each planning."""

    noise: float
    seed: int
    hours: int = 6
    every_s: float = 600.0

    def moved(self, name: str, patience: Patience) -> float:
        """In caches."""
        rng, view = random.Random(self.seed), one_job_each([100] * 6, [1e8] * 6, 250, 3e8, full=False)
        planner, moved_bytes = Planner(name, patience), 0
        planner.replan(view, 0.0)
        for at in range(1, int(self.hours * HOUR_S / self.every_s)):
            rates = (1e8 * rng.uniform(1 - self.noise, 1 + self.noise) for _ in view.jobs)
            view, before = with_rates(settled(planner, view), *rates), planner.plan.allocations
            moved_bytes += move(view, before, planner.replan(view, at * self.every_s).plan.allocations).evicted_bytes
        return moved_bytes / view.cache_bytes


@settings(max_examples=30)
@given(
    st.sampled_from(POLICIES),
    st.builds(Noisy, st.floats(0, 0.95), st.integers(0, 10**6)),
    st.builds(Patience, st.floats(-1, 0.3), st.floats(60, 1e6), st.floats(0, 2), st.integers(0, 2)),
)
def test_noise_moves_no_more_than_is_allowed(name: str, noisy: Noisy, patience: Patience) -> None:
    assert noisy.moved(name, patience) <= 1 + noisy.hours * patience.moves_per_hour + 1e-9


@pytest.mark.parametrize("name", POLICIES)
def test_usual_noise_moves_nothing(name: str) -> None:
    """Of 10 %: it is what the policies that follow measurements would move for that is held back."""
    noisy = Noisy(0.1, 1)
    assert noisy.moved(name, Patience()) == 0
    if name in ("benefit", "silod_greedy"):
        assert noisy.moved(name, Patience(-1.0, 1e18, 1e9, 0)) > 10


@pytest.mark.parametrize("left_gb", [0.0, 2.0], ids=["full", "with room left"])
@pytest.mark.parametrize("name", ["benefit", "silod_greedy"])
def test_trials_with_small_data_of_their_own_hold_up_no_plan(name: str, left_gb: float) -> None:
    """One came or went between any two plannings: none of them ever proposed just what the one before had."""
    two = one_job_each([100, 100], [1e8, 9e7], 100 + left_gb, None)
    planner = Planner(name)
    planner.replan(two, 0.0)
    for at in range(Patience().confirmations + 1):
        assert planner.plan.allocations["d0"] == Allocation("uniform", 100 * GB)
        trial = one_job_each([0.01 * (at + 1)], [1e7], 0, None, full=False)
        view = with_rates(settled(planner, two), 1e8, 9e8)
        data, job = replace(trial.datasets[0], name=f"t{at}"), replace(trial.jobs[0], name=f"t{at}", dataset=f"t{at}")
        planner.replan(replace(view, datasets=(*view.datasets, data), jobs=(*view.jobs, job)), HOUR_S + 10.0 * at)
    assert planner.plan.allocations["d1"].cache_bytes > 99 * GB, "but for what the last one has"


def test_newcomers_that_change_much_of_the_plan_begin_it_anew() -> None:
    """What is confirmed is one change, not that there is always another."""
    planner = Planner()
    four = one_job_each([100] * 4, [1e8] * 4, 100, None)
    planner.replan(four, 0.0)
    for at in range(12):
        rates = [1e8, *(9e8 if at % 3 == which else 1e7 for which in range(3))]
        view = with_rates(settled(planner, four), *rates)
        newcomer = replace(view.jobs[0], name=f"t{at}", ideal_bytes_per_s=1e3)
        planner.replan(replace(view, jobs=(*view.jobs, newcomer)), HOUR_S + 10.0 * at)
        assert planner.plan.allocations.keys() == {"d0"}


def test_a_restart_does_not_let_another_cache_move() -> None:
    """A coordinator that is killed again and again moved a whole cache each time."""

    def plan_both_ways(planner: Planner, from_s: float) -> str:
        for at, rates in enumerate([(1e8, 9e8), (9e8, 1e8)]):
            planner.replan(with_rates(settled(planner, view), *rates), from_s + at)
        return planner.refused

    patience = Patience(confirmations=0)
    view = one_job_each([100, 100], [1e8, 9e7], 100, None)
    planner = Planner(patience=patience)
    planner.replan(view, 0.0)
    assert "more than may within an hour" in plan_both_ways(planner, 1.0)
    again = Planner(patience=patience)
    again.restore(planner.plan, list(planner.history))
    assert "more than may within an hour" in plan_both_ways(again, 10.0)
    assert again.plan.allocations == planner.plan.allocations
    busy = Planner(patience=patience)
    rates = (Decision(2.0, "job", f"j{at}", None, 1e6, "", "pays for its moves") for at in range(2 * MOST_DECISIONS))
    busy.restore(planner.plan, [*planner.history, *rates])
    kept = Planner(patience=patience)
    kept.restore(busy.plan, list(busy.history))
    plan_both_ways(kept, 10.0)
    assert kept.plan.allocations == planner.plan.allocations, "nor where jobs have come and gone by the thousand since"
    other, _ = planner.successor(planner.policy_name, planner.policy, 20.0)
    plan_both_ways(other, 20.0)
    assert other.plan.allocations == planner.plan.allocations
    later = Planner(patience=patience)
    later.restore(planner.plan, list(planner.history))
    later.replan(with_rates(settled(later, view), 9e8, 1e8), 2 * HOUR_S + 10.0)
    assert later.plan.allocations != planner.plan.allocations


def test_what_had_not_come_yet_when_it_was_given_up_counts_for_nothing_after_a_restart() -> None:
    """Plans that moved nothing spent all of the budget, and the next two hours nothing moved."""
    patience, rates = Patience(confirmations=0), [(1e8, 9e8), (9e8, 1e8)]
    view = one_job_each([100, 100], [1e8, 9e7], 100, None, full=False)
    planner = Planner(patience=patience)
    for at in range(6):
        planner.replan(with_rates(view, *rates[at % 2]), float(at))
    assert not planner.refused and len(planner.history) >= 6
    again = Planner(patience=patience)
    again.restore(planner.plan, list(planner.history))
    again.replan(with_rates(settled(again, view), *rates[0]), 10.0)
    assert again.plan.allocations != planner.plan.allocations


def test_a_budget_refills_by_the_hour() -> None:
    budget = MoveBudget(0.5)
    assert budget.take(100, 100, 0.0)
    assert not budget.take(1, 100, 0.0)
    assert budget.take(50, 100, HOUR_S)
    assert not budget.take(51, 100, 2 * HOUR_S)
    assert budget.take(100, 100, 100 * HOUR_S)
    assert not budget.take(101, 100, 1000 * HOUR_S)
