"""What thousands of jobs have used and lend is worked out some jobs at a time; leases and pins between lose nothing."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.steps import steps
from tests.unit.budgeted import DATA, OTHER, SHARD_BYTES, World, crowd
from tfquiver.service.coordinator.bandwidth_budgets import budgets as budgets_module


def parts(jobs: int) -> list[int]:
    """What each takes, in steps."""
    world = crowd(jobs)
    world.budgets.leased_for_all("job0", DATA, [1], [SHARD_BYTES])
    world.clock.advance(1.0)
    measured, ticking, there = list[int](), world.budgets.ticking(world.jobs_of, [DATA]), [True]
    while there[-1]:
        measured.append(steps(lambda: there.append(next(ticking, "over") is None)))
    return measured


@pytest.mark.slow
def test_no_part_of_it_grows_as_all_of_it_does() -> None:
    measured = parts(4000)
    assert len(measured) > 2 * 4000 // 256
    assert max(measured) < sum(measured) / 5


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["pin", "lease", "wait", "open", "look"]), st.sampled_from("abcd"), st.integers(0, 3)
        ),
        max_size=30,
    )
)
def test_whatever_happens_between_two_parts_is_there_when_all_is_worked_out(
    between: list[tuple[str, str, int]],
) -> None:
    world = World(a=1000.0, b=500.0, c=100.0)
    budgets, clock = world.budgets, world.clock
    jobs_of = {DATA: frozenset("abc"), OTHER: frozenset("ad")}
    budgets.tick(jobs_of, [DATA])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(budgets_module, "_AT_A_TIME", 1)
        for _ in range(2):
            clock.advance(1.0)
            for _ in budgets.ticking(jobs_of, [DATA]):
                if not between:
                    continue
                what, job, amount = between.pop()
                clock.advance(0.01)
                match what:
                    case "pin":
                        budgets.pins.allocate(job, 1000.0 * amount)
                    case "lease":
                        budgets.leased_for_all(job, DATA, [amount], [SHARD_BYTES])
                    case "wait" if job in budgets.allocated:
                        budgets.held_back(job)
                    case "open":
                        budgets.opened(OTHER, job)
                    case "look":
                        budgets.left_bytes(job)
    clock.advance(1.0)
    budgets.tick(jobs_of, [DATA])
    assert dict(budgets.allocated) == budgets.pins.bytes_per_s
    assert sum(map(budgets.effective, budgets.allocated)) == pytest.approx(sum(budgets.allocated.values()))
    rates = {job: budgets.effective(job) for job in budgets.allocated}
    budgets._allocate()
    assert {job: budgets.effective(job) for job in budgets.allocated} == pytest.approx(rates)


def test_who_is_held_back_while_others_are_measured_wants_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(budgets_module, "_AT_A_TIME", 1)
    world = World(a=1000.0, b=1000.0)
    world.budgets.tick(world.jobs_of, [])
    world.clock.advance(1.0)
    ticking = world.budgets.ticking(world.jobs_of, [])
    next(ticking)
    world.budgets.held_back("a")
    list(ticking)
    assert world.budgets.effective("a") > 1500.0 > 500.0 > world.budgets.effective("b")
