"""The calls on what jobs may read from the store."""

from __future__ import annotations

from typing import Any

from tfquiver.grpc_plumbing.rpc import caller, handled
from tfquiver.proto.tfquiver.v1 import coordinator_pb2 as pb2
from tfquiver.roles_and_tokens.identity import Role
from tfquiver.service.coordinator.grpc_calls import checks
from tfquiver.service.coordinator.grpc_calls.callers import Callers


class BudgetCalls(Callers):
    @handled
    async def AllocateRemoteIO(self, request: pb2.AllocateRemoteIORequest, context: Any) -> pb2.AllocateRemoteIOReply:
        checks.name("job", request.job)
        checks.rate("bytes_per_s", request.bytes_per_s)
        await self._coordinator.allocate_remote_io(request.job, request.bytes_per_s)
        return pb2.AllocateRemoteIOReply()

    @handled
    async def ListRemoteIO(self, request: pb2.ListRemoteIORequest, context: Any) -> pb2.ListRemoteIOReply:
        who, budgets = caller(), self._coordinator.budgets
        whole = not self._named or who.role is not Role.JOB
        return pb2.ListRemoteIOReply(
            jobs=[
                pb2.RemoteIO(
                    job=job,
                    allocated_bytes_per_s=allocated,
                    pinned=job in budgets.pins.bytes_per_s,
                    effective_bytes_per_s=budgets.effective(job),
                    used_bytes_per_s=budgets.used_bytes_per_s.get(job, 0.0),
                )
                for job, allocated in sorted(budgets.allocated.items())
                if whole or (who.owner and job.startswith(f"{who.owner}/"))
            ],
            store=self._coordinator.store.told() if whole else None,
        )
