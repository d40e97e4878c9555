"""The calls on what the policy decides."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import grpc

from tfquiver.grpc_plumbing.rpc import caller, handled
from tfquiver.proto.tfquiver.v1 import coordinator_pb2 as pb2
from tfquiver.proto.tfquiver.v1 import types_pb2
from tfquiver.roles_and_tokens.identity import Role
from tfquiver.service.coordinator.grpc_calls import checks
from tfquiver.service.coordinator.grpc_calls.callers import Callers
from tfquiver.service.coordinator.plan_rounds_and_moves.replanning import Replanning


class PlanningCalls(Callers):
    @handled
    async def Explain(self, request: pb2.ExplainRequest, context: Any) -> pb2.ExplainReply:
        checks.name("name", request.name)
        replanning = await self._replanning(context)
        who, ownership = caller(), self._coordinator.ownership
        whole = not self._named or who.role is not Role.JOB
        explanation = await replanning.explain(
            request.name,
            lambda digest_id: whole or ownership.may_read(who, digest_id),
            lambda job: whole or bool(who.owner and job.startswith(f"{who.owner}/")),
        )
        store = self._coordinator.store.told() if whole else pb2.StoreInfo()
        measured = {field.name: value for field, value in store.ListFields()}  # what is not known is not there
        # Of a data set with thousands of jobs it takes a tenth of a second.
        told = {"store": measured} | (self._kept_on(explanation.name) if explanation.kind == "dataset" else {})
        text = await asyncio.to_thread(lambda: json.dumps(explanation.as_json() | told))
        return pb2.ExplainReply(json=text)

    @handled
    async def SetPolicy(self, request: pb2.SetPolicyRequest, context: Any) -> pb2.SetPolicyReply:
        checks.name("policy", request.policy, required=False)
        replanning = await self._replanning(context)
        if request.policy:
            await self._coordinator.choose_policy(request.policy)
        return pb2.SetPolicyReply(
            policy=replanning.planner.policy_name,
            flag=replanning.chosen.flag,
            times=replanning.times.told(),
            trouble=replanning.trouble,
        )

    def _kept_on(self, name: str) -> dict[str, Any]:
        """Where a data set is kept, and what is still to move; of one without a rule, nothing."""
        digits = name.rpartition("(")[2].rstrip(")")  # as plans name data sets (policies/views_and_plans/names.py)
        placed = self._coordinator.caching.placed
        found = [digest_id for digest_id in placed.rules if digest_id.hex().startswith(digits)]
        if not digits or len(found) != 1:
            return {}
        dataset = types_pb2.Dataset(digest_id=found[0])
        places = placed.places(dataset.digest_id)
        if places is None:
            return {}
        placed.tell(dataset)
        rule, replicas = dataset.placement, places.replicas
        return {
            "placement": {
                "selector": rule.selector, "stripe": rule.stripe, "rack_local": rule.rack_local, "replicas": replicas,
                "nodes": sorted(places.members), "moving_shards": dataset.moving_shards,
                "moving_bytes": dataset.moving_bytes, "unmoved_shards": dataset.unmoved_shards,
            }
        }  # fmt: skip

    async def _replanning(self, context: Any) -> Replanning:
        if self._coordinator.replanning is None:
            await context.abort(grpc.StatusCode.UNIMPLEMENTED, "--policy=off: nothing is decided here but by persons")
        assert self._coordinator.replanning
        return self._coordinator.replanning
