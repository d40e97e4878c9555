"""The call of those who watch: it returns when there is something to see."""

from __future__ import annotations

from typing import Any

from tfquiver.grpc_plumbing.rpc import handled
from tfquiver.proto.tfquiver.v1 import coordinator_pb2 as pb2
from tfquiver.service.coordinator.grpc_calls import checks
from tfquiver.service.coordinator.grpc_calls.callers import Callers


class ChangeCalls(Callers):
    @handled
    async def AwaitChange(self, request: pb2.AwaitChangeRequest, context: Any) -> pb2.AwaitChangeReply:
        checks.between("wait_ms", request.wait_ms, 0, checks.MAX_WAIT_MS)
        version = await self._coordinator.changes.newer(request.version, request.wait_ms / 1000)
        return pb2.AwaitChangeReply(version=version)
