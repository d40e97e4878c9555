"""What a job may read from the store is for all its data sets together, to policies as to budgets."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.aio import on_loop
from tests.support.digests import numbered_digest
from tests.support.planning import FIRST, FIRST_BYTES, SECOND, beat, coordinating, plans, reads
from tfquiver import errors
from tfquiver.service.coordinator.coordinator import Coordinator
from tfquiver.service.coordinator.options import CoordinatorOptions
from tfquiver.service.coordinator.policies.views_and_plans.interface import ClusterView, Plan

THIRD = numbered_digest(400, "third")


@on_loop
async def test_what_its_limit_leaves_of_the_store_is_for_others_however_many_it_reads(tmp_path: Path) -> None:
    options = CoordinatorOptions(policy="silod_greedy", store_bytes_per_s=100_000_000)
    coordinator = Coordinator(tmp_path / "work", options)
    try:
        beat(coordinator, "a", FIRST_BYTES // 10)
        for job, digest in (("several", FIRST), ("several", SECOND), ("one", THIRD)):
            await reads(coordinator, job, digest)
        await coordinator.allocate_remote_io("several", 40e6)
        planning = await plans(coordinator)
        assert coordinator.budgets.allocated == {"several": 40e6, "one": pytest.approx(60e6)}
        planned = planning.planner.plan.remote_bytes_per_s
        assert sorted(planned.values()) == [20e6, 20e6, pytest.approx(60e6)]
    finally:
        await coordinator.stop()


@on_loop
async def test_explain_says_that_what_it_has_for_one_is_a_part(tmp_path: Path) -> None:
    async with coordinating(tmp_path, policy="silod_greedy", a=FIRST_BYTES // 10) as coordinator:
        for job, digest in (("several", FIRST), ("several", SECOND), ("one", THIRD)):
            await reads(coordinator, job, digest)
        await coordinator.allocate_remote_io("several", 40e6)
        await coordinator.allocate_remote_io("one", 30e6)
        planning = await plans(coordinator)
        name = planning._views.names.jobs["several", FIRST.digest_id]
        for about in (name, FIRST.name):
            told = await planning.explain(about)
            assert told.gets.limited_to_bytes_per_s == 20e6
            assert told.limits == {name: {"bytes_per_s": 40e6, "datasets": 2}}
            assert "its limit of the store, 40.0 MB/s, is for its 2 data sets together" in told.reasons[name]
        alone = await planning.explain("one")
        assert (alone.gets.limited_to_bytes_per_s, alone.limits) == (30e6, {})
        with pytest.raises(errors.InvalidArgumentError, match=r"job 'several' reads 2 data sets, .* one of 'several, "):
            await planning.explain("several")


class _LimitsTheFirst:
    def plan(self, view: ClusterView, now: float) -> Plan:
        return Plan({}, {job.name: 1e6 for job in view.jobs if job.dataset.startswith("first") or job.name == "one"})


@on_loop
async def test_a_plan_that_limits_it_in_one_of_them_limits_it_in_no_other(tmp_path: Path) -> None:
    """As policies do with a job that draws one data set and reads another one in order, each within a part of all."""
    async with coordinating(tmp_path, a=FIRST_BYTES // 10) as coordinator:
        assert coordinator.replanning
        coordinator.replanning.planner.policy = _LimitsTheFirst()
        for job, digest in (("several", FIRST), ("several", SECOND), ("one", THIRD)):
            await reads(coordinator, job, digest)
        await plans(coordinator)
        assert coordinator.budgets.allocated == {"one": 1e6}
