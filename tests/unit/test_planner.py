"""The planner: a policy that fails is refused, noise moves little, what changed for good is followed, pins hold."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.policy_world import GB, POLICIES, one_job_each, settled, views, with_rates
from tfquiver import errors
from tfquiver.cli.dataset_commands import dataset
from tfquiver.service.coordinator.options import CoordinatorOptions
from tfquiver.service.coordinator.plan_rounds_and_moves.decisions_kept_and_explained.explain import explain
from tfquiver.service.coordinator.plan_rounds_and_moves.hysteresis import Patience
from tfquiver.service.coordinator.plan_rounds_and_moves.moves import HOUR_S
from tfquiver.service.coordinator.plan_rounds_and_moves.planner import Planner
from tfquiver.service.coordinator.policies.views_and_plans.check import check_plan
from tfquiver.service.coordinator.policies.views_and_plans.interface import Allocation, ClusterView, JobView, Plan

TWO = one_job_each([100, 100], [1e8, 9e7], 100, None)
WHOLE = Allocation("uniform", 100 * GB)


Made = Callable[[ClusterView], Any]


class Scripted:
    """A third party's policy."""

    def __init__(self, made: Made) -> None:
        self.made = made

    def plan(self, view: ClusterView, now: float) -> Any:
        return self.made(view)


def scripted(planner: Planner, made: Made) -> None:
    planner.policy = Scripted(made)


def fails(view: ClusterView) -> Plan:
    raise ZeroDivisionError("of\nmine")


def exits(view: ClusterView) -> Plan:
    raise SystemExit("I am done")


@pytest.mark.parametrize(
    ("made", "said"),
    [
        (fails, r"policy benefit failed: ZeroDivisionError: of\nmine"),
        (exits, "policy benefit failed: SystemExit: I am done"),
        (lambda view: None, "policy benefit failed: plan: 'None' is not a Plan"),
        (lambda view: Plan(reasons={"d0": b"text"}), "policy benefit failed: reasons['d0']: "),  # type: ignore[dict-item]
        (
            lambda view: Plan({"d0": Allocation("uniform", 1 << 59)}),
            "benefit failed: allocations['d0'].cache_bytes: 57",
        ),
        (lambda view: Plan({"d0": Allocation("uniform", float("nan"))}), "allocations['d0'].cache_bytes: nan is not"),  # type: ignore[arg-type]
        (lambda view: Plan({"gone": WHOLE}), "allocations: 'gone' is not in the view"),
    ],
)
def test_a_policy_that_fails_is_refused_and_the_last_good_plan_stays(made: Made, said: str) -> None:
    planner = Planner()
    good = planner.replan(TWO, 0.0).plan
    scripted(planner, made)
    for now in (1.0, 2.0):
        outcome = planner.replan(settled(planner, TWO), now)
        assert outcome.plan.allocations == good.allocations == {"d0": WHOLE}
        assert said in outcome.refused
    told = [one for one in planner.history if one.refused]
    assert [(one.at_s, one.kind, one.name) for one in told] == [(1.0, "plan", "benefit")], "told once"


class Speechless(Exception):
    def __str__(self) -> str:
        raise NotImplementedError


class LastWord(Exception):
    def __str__(self) -> str:
        raise SystemExit("not with me")


class NobodysBusiness(BaseException):
    """As other frameworks end their tasks."""


@pytest.mark.parametrize(
    "error", [NobodysBusiness(), asyncio.CancelledError(), GeneratorExit(), Speechless(), LastWord()]
)
def test_whatever_a_policy_raises_is_its_failure(error: BaseException) -> None:
    planner = Planner()
    planner.replan(TWO, 0.0)

    def raises(view: ClusterView) -> Plan:
        raise error

    scripted(planner, raises)
    outcome = planner.replan(settled(planner, TWO), 1.0)
    assert outcome.plan.allocations == {"d0": WHOLE}
    assert f"policy benefit failed: {type(error).__name__}: " in outcome.refused
    assert not explain(planner, TWO, "d0", 2.0).with_more


class Endless(Mapping[str, Any]):
    """As one that makes a name for whatever is asked."""

    def __init__(self, value: Any) -> None:
        self.value, self.given = value, 0

    def __iter__(self) -> Iterator[str]:
        for number in itertools.count():
            self.given += 1
            assert self.given < 100_000, "there is no end to it"
            yield f"d{number}"

    def __getitem__(self, name: str) -> Any:
        return self.value

    def __len__(self) -> int:
        return 2


@pytest.mark.parametrize(
    ("field", "value"), [("allocations", Allocation()), ("remote_bytes_per_s", 1.0), ("reasons", "so it is")]
)
def test_a_plan_without_an_end_is_refused(field: str, value: Any) -> None:
    """It was copied until there was no memory left."""
    planner = Planner()
    planner.replan(TWO, 0.0)
    given = Endless(value)
    scripted(planner, lambda view: Plan(**{field: given}))  # type: ignore[arg-type]
    outcome = planner.replan(settled(planner, TWO), 1.0)
    assert outcome.plan.allocations == {"d0": WHOLE}
    assert outcome.refused.startswith(f"policy benefit failed: {field}: more than 1008 names")


def test_a_policy_that_fails_in_other_words_each_time_leaves_the_history_to_others() -> None:
    planner = Planner()
    planner.replan(TWO, 0.0)
    asked = itertools.count()

    def fails_anew(view: ClusterView) -> Plan:
        number = next(asked)
        raise TimeoutError(f"10.0.0.1 has not answered for {number * 1.5:g} s")

    scripted(planner, fails_anew)
    for now in range(1, 200):
        planner.replan(settled(planner, TWO), float(now))
    assert sum(bool(one.refused) for one in planner.history) == 1
    assert "has not answered for 59" in planner.refused, "the last is told"

    def fails_in_verse(view: ClusterView) -> Plan:
        raise TimeoutError("no" * next(asked))

    scripted(planner, fails_in_verse)
    for now in range(200, 400):
        planner.replan(settled(planner, TWO), float(now))
    assert sum(bool(one.refused) for one in planner.history) < 50


def test_what_a_policy_does_later_with_what_it_has_given_changes_nothing() -> None:
    """One that fills the same dictionary each time: what is in force would be what it says now, and nothing moved."""
    given = {"d0": WHOLE}

    class Same(Scripted):
        def worth(self, view: ClusterView, allocations: Any) -> float:
            worth = float(sum(one.cache_bytes for one in allocations.values()))
            allocations.clear()
            return worth

    planner = Planner()
    planner.policy = Same(lambda view: Plan(given))
    planner.replan(TWO, 0.0)
    given["d1"] = given.pop("d0")
    assert planner.plan.allocations == {"d0": WHOLE}
    outcome = planner.replan(settled(planner, TWO), 1.0)
    assert outcome.plan.allocations == {"d0": WHOLE}
    assert "it would gain 0.0%" in outcome.refused


@pytest.mark.parametrize("worth", [float("nan"), float("inf"), -1.0])
def test_a_goal_of_which_nothing_can_be_said_moves_nothing(worth: float) -> None:
    """Every comparison with nan is false: such a move would seem to pay each time."""

    class Valuing(Scripted):
        def worth(self, view: ClusterView, allocations: Any) -> float:
            return worth

    planner = Planner()
    planner.replan(TWO, 0.0)
    planner.policy = Valuing(lambda view: Plan({"d1": WHOLE}))
    for now in range(1, 8):
        outcome = planner.replan(settled(planner, TWO), float(now))
        assert outcome.plan.allocations == {"d0": WHOLE}
        assert f"policy benefit failed: worth: {worth:g} is not" in outcome.refused


def test_a_policy_that_fails_at_first_leaves_what_is_pinned() -> None:
    planner = Planner()
    scripted(planner, fails)
    pinned = replace(TWO, datasets=(replace(TWO.datasets[0], pin=WHOLE), TWO.datasets[1]))
    outcome = planner.replan(pinned, 0.0)
    assert outcome.plan.allocations == {"d0": WHOLE}
    check_plan(outcome.plan, pinned)


def test_a_view_that_cannot_be_right_changes_nothing() -> None:
    planner = Planner()
    planner.replan(TWO, 0.0)
    with pytest.raises(errors.NotFoundError, match=r"jobs\['j'\]\.dataset"):
        planner.replan(replace(TWO, jobs=(JobView("j", "gone"),)), 1.0)
    assert planner.plan.allocations == {"d0": WHOLE}


def test_a_better_plan_within_the_noise_moves_nothing() -> None:
    planner = Planner()
    planner.replan(TWO, 0.0)
    outcome = planner.replan(with_rates(settled(planner, TWO), 1e8, 1.1e8), HOUR_S)
    assert outcome.plan.allocations == {"d0": WHOLE}
    assert outcome.refused.startswith("it would gain 10.0% by giving up 100.0%: less than the 20%")


@pytest.mark.parametrize(
    "becomes",
    [
        lambda job, planning: replace(job, accelerators=1 + 7 * (planning % 2)),
        lambda job, planning: replace(job, name=f"trial {planning}"),
    ],
    ids=["its processes", "small jobs"],
)
def test_what_comes_and_goes_all_the_time_holds_up_no_plan(becomes: Callable[[JobView, int], JobView]) -> None:
    three = one_job_each([100, 100, 1], [1e8, 9e7, 1e3], 100, None)
    planner = Planner()
    planner.replan(three, 0.0)
    view = with_rates(settled(planner, three), 1e8, 9e8, 1e3)
    for planning in range(4):
        assert planner.plan.allocations == {"d0": WHOLE}
        other = becomes(view.jobs[2], planning)
        planner.replan(replace(view, jobs=(*view.jobs[:2], other)), HOUR_S + 10.0 * planning)
    assert planner.plan.allocations == {"d1": WHOLE}


def test_a_much_better_one_moves_when_it_has_shown_so_often_enough() -> None:
    planner = Planner(patience=Patience(confirmations=2))
    planner.replan(TWO, 0.0)
    better = with_rates(settled(planner, TWO), 1e8, 3e8)
    for now, left in ((1.0, "2 more plans in a row"), (2.0, "1 more plan")):
        outcome = planner.replan(better, now)
        assert outcome.plan.allocations == {"d0": WHOLE}
        assert outcome.refused == f"moving data would pay; {left} must find so first"
    outcome = planner.replan(better, 3.0)
    assert outcome.plan.allocations == {"d1": WHOLE}
    assert [(one.name, one.was, one.becomes, one.rule) for one in outcome.decisions] == [
        ("d0", WHOLE, Allocation(), "pays for its moves"),
        ("d1", Allocation(), WHOLE, "pays for its moves"),
    ]


def test_what_pays_is_moved_after_half_a_minute() -> None:
    """As `set-cache NAME auto` and the guide say."""
    planner, replan_s = Planner(), CoordinatorOptions().replan_s
    planner.replan(TWO, 0.0)
    better, now = with_rates(settled(planner, TWO), 1e8, 3e8), HOUR_S
    while planner.replan(better, now).plan.allocations == {"d0": WHOLE}:
        now += replan_s
    assert now - HOUR_S == 30
    guide = Path(__file__).parents[2] / "docs/guide/larger-than-cache.md"
    for told in (dataset._AUTO, guide.read_text()):
        assert "in a row, half a minute where jobs do not come and go," in told


def test_one_measurement_to_the_contrary_and_it_begins_anew() -> None:
    planner = Planner(patience=Patience(confirmations=2))
    planner.replan(TWO, 0.0)
    view = settled(planner, TWO)
    for now, rate in enumerate([3e8, 3e8, 9e7, 3e8, 3e8, 1.1e8, 3e8, 3e8], start=1):
        view = replace(view, remote_bytes_per_s=2e8 + now * 1e5)  # measured, too: that makes nothing anew
        assert planner.replan(with_rates(view, 1e8, rate), float(now)).plan.allocations == {"d0": WHOLE}
    assert planner.replan(with_rates(view, 1e8, 3e8), 9.0).plan.allocations == {"d1": WHOLE}


def test_what_is_weighed_is_the_same_change_each_time() -> None:
    """Of many noisy measurements one is always the best: it must be so again, not merely another one."""
    view = one_job_each([100] * 3, [1e8] * 3, 100, None)
    planner = Planner(patience=Patience(confirmations=1))
    planner.replan(view, 0.0)
    view = settled(planner, view)
    for now in range(1, 9):
        rates = [1e8, 3e8, 1e8] if now % 2 else [1e8, 1e8, 3e8]
        assert planner.replan(with_rates(view, *rates), float(now)).plan.allocations == {"d0": WHOLE}


def test_a_refusal_is_told_once_until_data_moves() -> None:
    planner = Planner(patience=Patience(confirmations=0))
    planner.replan(TWO, 0.0)
    seen = []
    for now, rates in enumerate([(1e8, 1.1e8), (1e8, 1.12e8), (1e8, 3e8), (3.3e8, 3e8), (3.2e8, 3e8)], start=1):
        planner.replan(with_rates(settled(planner, TWO), *rates), float(now))
        seen.append(bool(planner.refused))
    assert seen == [True, True, False, True, True]
    assert [one.at_s for one in planner.history if one.refused] == [1.0, 4.0]


def test_a_newcomer_who_makes_more_of_the_room_gets_it() -> None:
    planner = Planner(patience=Patience(confirmations=1))
    view = with_rates(TWO, 1e8, 3e8)
    planner.replan(replace(view, jobs=view.jobs[:1]), 0.0)
    assert planner.plan.allocations == {"d0": WHOLE}
    planner.replan(settled(planner, view), 1.0)
    assert planner.replan(settled(planner, view), 2.0).plan.allocations == {"d1": WHOLE}


def test_what_takes_longer_to_load_than_it_is_expected_to_last_stays_away() -> None:
    planner = Planner(patience=Patience(horizon_s=300.0))
    planner.replan(replace(TWO, remote_bytes_per_s=1e8), 0.0)
    view = replace(with_rates(settled(planner, TWO), 1e8, 3e8), remote_bytes_per_s=1e8)
    refused = planner.replan(view, HOUR_S).refused
    assert "after 1000 s in which 100 GB are loaded and 100.0% is lost" in refused
    assert refused.endswith("not worth it within 300 s")


def test_a_job_that_ends_gives_its_room_back_at_once() -> None:
    planner = Planner()
    planner.replan(TWO, 0.0)
    outcome = planner.replan(replace(settled(planner, TWO), jobs=TWO.jobs[1:]), 1.0)
    assert outcome.plan.allocations == {"d1": WHOLE}


@pytest.mark.parametrize("name", POLICIES)
def test_a_new_job_gets_what_is_free(name: str) -> None:
    view = replace(TWO, cache_bytes=200 * GB)
    planner = Planner(name)
    planner.replan(replace(view, jobs=view.jobs[:1]), 0.0)
    outcome = planner.replan(settled(planner, view), 1.0)
    assert outcome.plan.allocations.keys() == (set() if name == "none" else {"d0", "d1"})


def test_policies_are_switched_at_run_time_and_move_what_they_must() -> None:
    planner = Planner()
    planner.replan(TWO, 0.0)
    with pytest.raises(errors.InvalidArgumentError, match="'best' is none of"):
        planner.switch("best", 1.0)
    assert planner.policy_name == "benefit"
    planner.switch("none", 2.0)
    outcome = planner.replan(settled(planner, TWO), 3.0)
    assert outcome.plan.allocations == {}
    assert [(one.kind, one.was, one.becomes) for one in planner.history][-2:] == [
        ("policy", "benefit", "none"),
        ("dataset", WHOLE, Allocation()),
    ]


def test_pins_hold_at_once_and_go_at_once() -> None:
    planner = Planner()
    planner.replan(TWO, 0.0)
    pinned = replace(settled(planner, TWO), datasets=(TWO.datasets[0], replace(TWO.datasets[1], pin=WHOLE)))
    outcome = planner.replan(pinned, 1.0)
    assert outcome.plan.allocations == {"d1": WHOLE}
    assert {one.name: one.rule for one in outcome.decisions}["d1"] == "pinned"
    assert planner.replan(TWO, 2.0).plan.allocations.keys() <= {"d0", "d1"}
    check_plan(planner.plan, TWO)


def test_a_rate_that_a_person_sets_is_told_as_theirs() -> None:
    planner = Planner()
    planner.replan(TWO, 0.0)
    limited = replace(TWO, jobs=(replace(TWO.jobs[0], remote_pin_bytes_per_s=2e6), *TWO.jobs[1:]))
    (rate,) = [one for one in planner.replan(limited, 10.0).decisions if one.kind == "job"]
    assert (rate.name, rate.was, rate.becomes, rate.rule) == (TWO.jobs[0].name, None, 2e6, "pinned")
    assert "tfquiver limit" in rate.measurement


def test_a_rate_that_a_person_takes_back_is_gone_though_the_policy_fails() -> None:
    planner = Planner()
    limited = replace(TWO, jobs=(replace(TWO.jobs[0], remote_pin_bytes_per_s=2e6), *TWO.jobs[1:]))
    assert planner.replan(limited, 0.0).plan.remote_bytes_per_s == {TWO.jobs[0].name: 2e6}
    scripted(planner, fails)
    assert planner.replan(limited, 10.0).plan.remote_bytes_per_s == {TWO.jobs[0].name: 2e6}
    for now in (20.0, 30.0):
        assert planner.replan(TWO, now).plan.remote_bytes_per_s == {}


def test_when_nodes_go_all_have_less_though_the_policy_fails() -> None:
    planner = Planner()
    planner.replan(replace(TWO, cache_bytes=200 * GB), 0.0)
    scripted(planner, fails)
    view = replace(TWO, cache_bytes=50 * GB)
    outcome = planner.replan(view, 1.0)
    assert {name: kept.cache_bytes // GB for name, kept in outcome.plan.allocations.items()} == {"d0": 25, "d1": 25}
    check_plan(outcome.plan, view)


def test_bandwidth_follows_while_data_stays() -> None:
    """The plan for a new job's data set is refused: its job has a part of the store all the same."""
    view = one_job_each([100, 100], [1e8, 1e8], 100, 1e8)
    planner = Planner("silod_greedy")
    planner.replan(replace(view, jobs=view.jobs[:1]), 0.0)
    view = settled(planner, with_rates(view, 1e8, 1.05e8))
    outcome = planner.replan(view, 1.0)
    assert outcome.plan.allocations == {"d0": WHOLE}
    outcome = planner.replan(with_rates(view, 1e8, 1.3e8), 2.0)
    check_plan(outcome.plan, view)
    assert outcome.plan.remote_bytes_per_s["j1"] > 0.9e8


def test_a_restart_goes_on_with_what_was_in_force() -> None:
    planner = Planner()
    planner.replan(TWO, 0.0)
    restored = Planner()
    restored.restore(planner.plan, list(planner.history))
    view = with_rates(settled(planner, TWO), 1e8, 1.1e8)
    assert restored.replan(view, 10.0).plan.allocations == {"d0": WHOLE}
    assert next(iter(restored.history)).name == "d0"


def test_a_restart_before_the_first_plan_of_a_choice_makes_that_plan_whatever_it_moves() -> None:
    planner = Planner()
    planner.replan(TWO, 0.0)
    restored = Planner()
    restored.restore(planner.plan, [], switched=True)
    assert restored.switched
    view = with_rates(settled(planner, TWO), 1e8, 1.1e8)
    assert restored.replan(view, 10.0).plan.allocations == {"d1": WHOLE}
    assert not restored.switched


@pytest.mark.slow
@settings(max_examples=30)
@given(st.sampled_from(POLICIES), st.lists(views(), min_size=1, max_size=4))
def test_whatever_comes_the_plan_in_force_is_possible(name: str, seen: list[ClusterView]) -> None:
    planner = Planner(name)
    for now, view in enumerate(seen):
        check_plan(planner.replan(view, float(now)).plan, view)
