"""What the coordinator says of how long planning takes."""

from __future__ import annotations

from tfquiver.service.coordinator.plan_rounds_and_moves.plan_times import PlanTimes


def test_the_longest_are_kept_each_by_itself() -> None:
    times = PlanTimes()
    assert times.told().plans == 0
    times.planned(view_s=0.5, policy_s=0.125)
    times.changed(2.0)
    times.planned(view_s=0.125, policy_s=0.25)
    times.changed(0.5)
    told = times.told()
    assert (told.plans, told.last_s, told.longest_s) == (2, 0.375, 0.625)
    assert (told.longest_policy_s, told.longest_change_s) == (0.25, 2.0)
