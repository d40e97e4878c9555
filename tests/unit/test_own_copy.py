"""Numbers of numpy's in a plan are numbers; what is in force, and written down of it, are Python's."""

from __future__ import annotations

import json
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from tests.unit.policy_world import GB, one_job_each
from tfquiver.service.coordinator.plan_rounds_and_moves.decisions_kept_and_explained.explain import explain
from tfquiver.service.coordinator.plan_rounds_and_moves.planner import Planner
from tfquiver.service.coordinator.policies.views_and_plans.interface import Allocation, ClusterView, Plan

VIEW = one_job_each([100, 50], [1e8, 5e7], 120, 1e8)


class Theirs:
    def __init__(self, cache_bytes: Any, bytes_per_s: Any) -> None:
        self._plan = Plan({"d0": Allocation("uniform", cache_bytes)}, {"j0": bytes_per_s})

    def plan(self, view: ClusterView, now: float) -> Plan:
        return self._plan


@pytest.mark.parametrize("number", [np.int64, np.uint64, np.int32, int])
@pytest.mark.parametrize("rate", [np.float32, np.float64, np.int64, np.uint32, Fraction])
def test_numbers_that_are_no_python_s(number: Any, rate: Any) -> None:
    planner = Planner()
    planner.policy = Theirs(number(GB), rate(1 << 20))
    outcome = planner.replan(VIEW, 0.0)
    assert (outcome.refused, outcome.plan.allocations["d0"].cache_bytes) == ("", GB)
    assert type(outcome.plan.allocations["d0"].cache_bytes) is int
    told = json.loads(json.dumps([one.to_record() for one in outcome.decisions]))
    assert [one["becomes"] for one in told] == [{"mode": "uniform", "cache_bytes": GB}, 1 << 20]
    more = explain(planner, VIEW, "d0", 1.0)
    assert [one.share.allocation.cache_bytes for one in more.with_more] == [GB] * 4
    json.dumps(more.as_json())


@pytest.mark.parametrize("amount", [np.bool_(True), True, np.float64(1e9), 1e9, np.array(5), "5", None])
def test_what_is_no_whole_number_is_refused_with_the_field(amount: Any) -> None:
    planner = Planner()
    planner.policy = Theirs(amount, 1.0)
    refused = planner.replan(VIEW, 0.0).refused
    assert refused.startswith("policy benefit failed: allocations['d0'].cache_bytes: ")
    assert "is not a whole number of bytes" in refused
