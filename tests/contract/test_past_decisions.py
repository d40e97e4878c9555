"""What a dashboard, or who has something explained, is told of what was decided has room in a message, whatever a
policy gives as its reasons.
"""

from __future__ import annotations

import json
from pathlib import Path

from tests.support.aio import on_loop
from tests.support.coordinator_client import CoordinatorClient
from tests.support.planning import FIRST, FIRST_BYTES, coordinating, plans, reads
from tfquiver.grpc_plumbing.rpc import MAX_MESSAGE_BYTES
from tfquiver.proto.tfquiver.v1 import coordinator_pb2 as pb
from tfquiver.service.coordinator.grpc_calls.about_sessions_jobs_plans_past.past_calls import MOST_DECISIONS
from tfquiver.service.coordinator.plan_rounds_and_moves.decisions_kept_and_explained.decision import Decision
from tfquiver.service.coordinator.policies.views_and_plans.check import MOST_REASON
from tfquiver.service.coordinator.policies.views_and_plans.interface import ClusterView, Plan
from tfquiver.service.coordinator.server import CoordinatorServer


@on_loop
async def test_reasons_as_long_as_they_may_be_leave_room_for_the_last_decisions(tmp_path: Path) -> None:
    """A letter that is not ASCII takes six bytes."""
    async with CoordinatorServer() as server:
        await server.start(tmp_path / "work", f"unix:{tmp_path}/socket")
        assert server.coordinator.replanning
        server.coordinator.replanning.planner.history.extend(
            Decision(float(number), "job", f"job {number}", None, float(number), "ß" * MOST_REASON, "the first plan")
            for number in range(MOST_DECISIONS)
        )
        async with CoordinatorClient.connected(f"unix:{tmp_path}/socket") as client:
            told = json.loads((await client.call("GetPast", pb.GetPastRequest())).json)["decisions"]
    assert 10 < len(told) < MOST_DECISIONS and told[-1]["name"] == f"job {MOST_DECISIONS - 1}"


class _SaysMuch:
    def plan(self, view: ClusterView, now: float) -> Plan:
        return Plan({}, {}, {one.name: "ß" * MOST_REASON for one in (*view.datasets, *view.jobs)})


@on_loop
async def test_reasons_of_a_hundred_jobs_leave_room_for_what_else_is_explained(tmp_path: Path) -> None:
    async with coordinating(tmp_path, a=FIRST_BYTES) as coordinator:
        assert coordinator.replanning
        coordinator.replanning.planner.policy = _SaysMuch()
        for number in range(110):
            await reads(coordinator, f"job {number}", FIRST)
        planning = await plans(coordinator)
        told = await planning.explain(FIRST.name)
        assert len(told.reasons) == 101 and min(map(len, told.reasons.values())) > 1000
        assert len(json.dumps(told.as_json())) < MAX_MESSAGE_BYTES // 2
        alone = await planning.explain("job 1")
        assert alone.reasons["job 1"] == "ß" * MOST_REASON
