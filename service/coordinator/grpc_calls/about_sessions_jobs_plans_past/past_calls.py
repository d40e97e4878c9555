"""The call that tells people what a cluster did over the last day."""

from __future__ import annotations

import asyncio
import json
from typing import Any

from tfquiver.grpc_plumbing.rpc import handled
from tfquiver.proto.tfquiver.v1 import coordinator_pb2 as pb2
from tfquiver.service.coordinator.grpc_calls import checks
from tfquiver.service.coordinator.grpc_calls.callers import Callers
from tfquiver.service.coordinator.plan_rounds_and_moves.decisions_kept_and_explained import explain

MOST_JOBS = 20
MOST_DECISIONS = 200


class PastCalls(Callers):
    @handled
    async def GetPast(self, request: pb2.GetPastRequest, context: Any) -> pb2.GetPastReply:
        checks.between("jobs", len(request.jobs), 0, MOST_JOBS)
        for job in request.jobs:
            checks.name("jobs", job)
        if request.digest_id:
            checks.hash_("digest_id", request.digest_id)
        coordinator = self._coordinator
        told = coordinator.keeping_past.told(request.day, list(request.jobs), request.digest_id)
        history = coordinator.replanning.history(MOST_DECISIONS) if coordinator.replanning else []
        told["decisions"] = explain.told(history)
        return pb2.GetPastReply(json=await asyncio.to_thread(json.dumps, told))
