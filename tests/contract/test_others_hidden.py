"""Who may not see all is told why without what belongs to others: their names stand in reasons, in what was refused,
and in what a probe waits for."""

from __future__ import annotations

from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from tests.support.aio import on_loop
from tests.support.planning import FIRST, FIRST_BYTES, SECOND, coordinating, parts_of, plans, reads
from tfquiver.service.coordinator.plan_rounds_and_moves.decisions_kept_and_explained.explain import Explanation
from tfquiver.service.coordinator.plan_rounds_and_moves.decisions_kept_and_explained.others_hidden import without_others
from tfquiver.service.coordinator.plan_rounds_and_moves.replanning import Replanning
from tfquiver.service.coordinator.policies.views_and_plans.interface import Allocation, ClusterView, Plan


class _TellsOfAll:
    fails = False

    def plan(self, view: ClusterView, now: float) -> Plan:
        names = [one.name for one in view.datasets]
        if self.fails:
            raise ValueError(f"{names} are too many")
        reasons = {one: f"rivals: {', '.join(names)}" for one in names}
        return Plan({names[0]: Allocation("uniform", 1)}, reasons=reasons)


async def _to_blue(planning: Replanning, name: str) -> Explanation:
    return await planning.explain(name, lambda digest_id: digest_id == FIRST.digest_id, lambda job: job == "blue/job")


@on_loop
async def test_names_of_others_are_left_out(tmp_path: Path) -> None:
    async with coordinating(tmp_path, a=FIRST_BYTES) as coordinator:
        assert coordinator.replanning
        policy: Any = _TellsOfAll()
        coordinator.replanning.planner.policy = policy
        await reads(coordinator, "blue/job", FIRST)
        await reads(coordinator, "green/job", SECOND)
        planning = await plans(coordinator)
        first, second = (planning._views.names.datasets[one.digest_id] for one in (FIRST, SECOND))
        told = await _to_blue(planning, FIRST.name)
        assert set(told.reasons[first].removeprefix("rivals: ").split(", ")) == {first, "another data set"}
        whole = await planning.explain(FIRST.name)
        assert second in whole.reasons[first], "to people who run the cluster all is told"

        policy.fails = True
        await reads(coordinator, "green/other", SECOND)
        await plans(coordinator)
        whole = await planning.explain(FIRST.name)
        told = await _to_blue(planning, FIRST.name)
        assert SECOND.name in whole.refused and told.refused == "policy benefit failed"
        await coordinator.catalogue.register("renamed", b"", None, parts_of(SECOND))
        told = await _to_blue(planning, FIRST.name)
        assert "renamed" not in str(asdict(told)) and SECOND.name not in str(asdict(told))


@on_loop
async def test_a_floor_of_others_is_somebody_s(tmp_path: Path) -> None:
    async with coordinating(tmp_path, a=FIRST_BYTES) as coordinator:
        await reads(coordinator, "blue/job", FIRST)
        await reads(coordinator, "green/job", SECOND)
        planning = await plans(coordinator)
        told = await planning.explain("blue/job")
        waits = {"blue/job": {"waits_for": "job green/job reads below its floor"}}
        shown = without_others(replace(told, probes=waits), list(planning._views.names.datasets.values()), [])
        assert shown.probes == {"blue/job": {"waits_for": "somebody reads below a floor"}}
