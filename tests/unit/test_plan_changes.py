"""What is told of the way from one plan to the next; and that what is called otherwise is no other."""

from __future__ import annotations

from dataclasses import replace

from tests.unit.policy_world import one_job_each, settled, with_rates
from tfquiver.service.coordinator.plan_rounds_and_moves.decisions_kept_and_explained import changes
from tfquiver.service.coordinator.plan_rounds_and_moves.planner import Planner
from tfquiver.service.coordinator.policies.pins import GIVEN_BACK, PINNED
from tfquiver.service.coordinator.policies.views_and_plans.interface import Allocation, ClusterView, Plan
from tfquiver.service.coordinator.policies.views_and_plans.names import Names, renamed

TWO = one_job_each([100, 100], [1e8, 9e7], 100, None)


def test_what_nobody_reads_any_more_is_said_to_be_the_reason() -> None:
    planner = Planner()
    planner.replan(TWO, 0.0)
    gone = replace(TWO, datasets=TWO.datasets[1:], jobs=TWO.jobs[1:])
    (left, kept) = planner.replan(gone, 10.0).decisions
    assert (left.name, left.becomes, left.measurement) == ("d0", Allocation(), "nobody reads it")
    assert left.rule == "nobody reads it", "which is what `tfquiver explain` shows"
    assert kept.name == "d1" and kept.measurement


def test_what_a_person_pins_no_longer_is_told_so() -> None:
    """Whether somebody reads it is another matter."""
    kept = Allocation("uniform", 10**9)
    was = Plan({"d0": kept}, {}, {"d0": PINNED})
    nobody = replace(TWO, datasets=(), jobs=())
    [unpinned] = changes.between(nobody, was, Plan({}, {}, {}), "room changed", 1.0)
    assert (unpinned.was, unpinned.measurement, unpinned.rule) == (kept, "no longer pinned", "no longer pinned")
    [left] = changes.between(nobody, replace(was, reasons={}), Plan({}, {}, {}), "room changed", 1.0)
    assert left.rule == "nobody reads it"


def test_what_a_person_has_given_back_is_not_told_as_set_by_one() -> None:
    """Neither a data set nor a limit, also while no plan is carried out."""
    planner, kept = Planner(), Allocation("uniform", TWO.datasets[0].size_bytes)
    pinned = (replace(TWO.datasets[0], pin=kept), TWO.datasets[1])
    limited = (replace(TWO.jobs[0], remote_pin_bytes_per_s=1e6), TWO.jobs[1])
    planner.replan(replace(TWO, datasets=pinned, jobs=limited), 0.0)
    assert planner.plan.reasons["d0"] == PINNED and "tfquiver limit" in planner.plan.reasons["j0"]
    better = with_rates(settled(planner, TWO), 1e8, 9e8)
    for now in range(1, 4):
        outcome = planner.replan(better, float(now))
        assert outcome.why == "again" and outcome.plan.allocations == {"d0": kept}
        assert outcome.plan.reasons["d0"] == GIVEN_BACK and "j0" not in outcome.plan.reasons
    assert [one.rule for one in planner.replan(better, 4.0).decisions if one.name == "d0"] == ["no longer pinned"]


def test_what_makes_way_for_a_pin_is_told_so() -> None:
    """`moves nothing` stood there: the plan is the one in force, as far as that still has room."""
    planner, pin = Planner(), Allocation("uniform", TWO.cache_bytes // 4)
    first, second = TWO.datasets
    sharing = replace(TWO, datasets=(replace(first, cooperative_bytes=first.size_bytes // 10), second))
    planner.replan(sharing, 0.0)
    was = planner.plan.allocations["d0"]
    pinned = replace(sharing, datasets=(sharing.datasets[0], replace(second, pin=pin)))
    outcome = planner.replan(pinned, 1.0)
    left = Allocation(outcome.plan.allocations["d0"].mode, TWO.cache_bytes - pin.cache_bytes)
    assert [(one.name, one.was, one.becomes, one.rule) for one in outcome.decisions if one.kind == "dataset"] == [
        ("d0", was, left, "less room is left for it"),
        ("d1", Allocation(), pin, "pinned"),
    ]
    nodes_gone = replace(pinned, cache_bytes=TWO.cache_bytes // 2)
    [decision] = planner.replan(nodes_gone, 2.0).decisions
    assert (decision.becomes.cache_bytes, decision.rule) == (TWO.cache_bytes // 4, "less room is left for it")


def otherwise(view: ClusterView) -> ClusterView:
    """With `d0` and `j0` called `new` and `newer`."""
    first, other = view.datasets
    job, another = view.jobs
    called = replace(job, name="newer", dataset="new")
    return replace(view, datasets=(replace(first, name="new"), other), jobs=(called, another))


def test_under_another_name_it_is_kept_as_before_though_the_other_is_a_little_better() -> None:
    planner = Planner()
    planner.replan(TWO, 0.0)
    told = [one.becomes for one in planner.history.of("d0", "j0")]
    planner.rename({"d0": "new", "j0": "newer"})
    assert [one.becomes for one in planner.history.of("new", "newer")] == told and not planner.history.of("d0", "j0")
    better = otherwise(with_rates(settled(planner, TWO), 1e8, 1.05e8))
    better = replace(better, datasets=(replace(better.datasets[0], resident_bytes=TWO.datasets[0].size_bytes),
                                       better.datasets[1]))  # fmt: skip
    for now in range(1, 9):
        outcome = planner.replan(better, float(now))
        assert outcome.plan.allocations.keys() == {"new"} and outcome.why == "gain"
        assert not [one for one in outcome.decisions if one.kind == "dataset"]
    assert planner.plan.reasons["new"]


def test_another_name_is_no_news_to_a_policy_without_a_goal_of_its_own() -> None:
    """For that alone data that is read would be evicted."""

    class Turning:
        def plan(self, view: ClusterView, now: float) -> Plan:
            kept = view.datasets[0 if now == 0 else 1]
            return Plan({kept.name: Allocation("uniform", kept.size_bytes)})

    planner = Planner()
    planner.policy = Turning()
    planner.replan(TWO, 0.0)
    planner.rename({"d0": "new", "j0": "newer"})
    there = replace(otherwise(TWO), datasets=otherwise(settled(planner, TWO)).datasets)
    there = replace(there, datasets=(replace(there.datasets[0], resident_bytes=TWO.datasets[0].size_bytes),
                                     there.datasets[1]))  # fmt: skip
    assert planner.replan(there, 1.0).plan.allocations.keys() == {"new"}


def test_what_is_called_otherwise_is_found_by_what_it_is() -> None:
    before = Names({b"1": "one", b"2": "two"}, {("job", b"1"): "job"})
    now = Names({b"1": "uno", b"3": "three"}, {("job", b"1"): "job, uno", ("job", b"3"): "job, three"})
    assert renamed(before, now) == {"one": "uno", "job": "job, uno"}
