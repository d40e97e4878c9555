"""What a dashboard is told of what was decided has room in a message, whatever a policy gives as its reasons."""

from __future__ import annotations

import json
from pathlib import Path

from tests.support.aio import on_loop
from tests.support.coordinator_client import CoordinatorClient
from tfquiver.proto.tfquiver.v1 import coordinator_pb2 as pb
from tfquiver.service.coordinator.grpc_calls.about_sessions_jobs_plans_past.past_calls import MOST_DECISIONS
from tfquiver.service.coordinator.plan_rounds_and_moves.decisions_kept_and_explained.decision import Decision
from tfquiver.service.coordinator.policies.views_and_plans.check import MOST_REASON
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
