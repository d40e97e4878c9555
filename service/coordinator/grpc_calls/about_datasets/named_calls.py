"""The calls on data sets that have names: what somebody may not read is not there for them."""

from __future__ import annotations

from typing import Any

from tfquiver import errors
from tfquiver.grpc_plumbing.rpc import caller, handled
from tfquiver.proto.tfquiver.v1 import named_datasets_pb2 as pb2
from tfquiver.proto.tfquiver.v1 import named_datasets_pb2_grpc
from tfquiver.roles_and_tokens.identity import Identity, Role
from tfquiver.service.coordinator.coordinator import Coordinator
from tfquiver.service.coordinator.grpc_calls import checks
from tfquiver.service.coordinator.grpc_calls.callers import Callers, Tokens
from tfquiver.service.coordinator.long_work.asked_alike import AskedAlike


class NamedDatasetCalls(Callers, named_datasets_pb2_grpc.NamedDatasetsServicer):
    def __init__(self, coordinator: Coordinator, tokens: Tokens | None = None) -> None:
        super().__init__(coordinator, tokens)
        self._lists = AskedAlike[pb2.ListNamedDatasetsReply]()

    @handled
    async def Create(self, request: pb2.DatasetSpec, context: Any) -> pb2.NamedDataset:
        who = caller()
        if who.role is Role.JOB and (not request.digest_id or request.credentials):
            raise errors.PermissionError_(
                "sources: nodes read them with credentials that are not yours: make it of a digest that you have "
                "registered (--digest), or ask an admin"
            )
        if request.digest_id and len(request.digest_id) == checks.HASH_BYTES:
            self._owned(who, request.digest_id)
        return await self._coordinator.named.create(who, request)

    @handled
    async def List(self, request: pb2.ListNamedDatasetsRequest, context: Any) -> pb2.ListNamedDatasetsReply:
        who = caller()
        return await self._lists.made(who, lambda: self._listed(who))

    async def _listed(self, who: Identity) -> pb2.ListNamedDatasetsReply:
        async with self._lists.turn:
            return pb2.ListNamedDatasetsReply(datasets=await self._coordinator.named.listed(who))

    @handled
    async def Get(self, request: pb2.GetNamedDatasetRequest, context: Any) -> pb2.NamedDataset:
        checks.name("name", request.name)
        checks.between("wait_ms", request.wait_ms, 0, checks.MAX_WAIT_MS)
        named = self._coordinator.named
        named.find(caller(), request.name)
        reply = await named.newer(caller(), request.name, request.seen, request.wait_ms / 1000)
        if request.resident and reply.HasField("dataset"):
            resident_bytes = await named.resident_bytes(reply.dataset.digest_id)
            if resident_bytes is not None:
                reply.resident_bytes = resident_bytes
        return reply

    @handled
    async def Prefetch(self, request: pb2.NamedDatasetRequest, context: Any) -> pb2.NamedDataset:
        checks.name("name", request.name)
        return await self._coordinator.named.prefetch(caller(), request.name)

    @handled
    async def Pin(self, request: pb2.PinDatasetRequest, context: Any) -> pb2.NamedDataset:
        checks.name("name", request.name)
        return await self._coordinator.named.pin(caller(), request.name, request.pinned)

    @handled
    async def Evict(self, request: pb2.NamedDatasetRequest, context: Any) -> pb2.NamedDataset:
        checks.name("name", request.name)
        return await self._coordinator.named.evict(caller(), request.name, request.force)

    @handled
    async def Delete(self, request: pb2.NamedDatasetRequest, context: Any) -> pb2.NamedDataset:
        checks.name("name", request.name)
        return await self._coordinator.named.delete(caller(), request.name, request.force)

    @handled
    async def Refresh(self, request: pb2.NamedDatasetRequest, context: Any) -> pb2.NamedDataset:
        checks.name("name", request.name)
        return await self._coordinator.named.refresh(caller(), request.name)

    @handled
    async def ReportStale(self, request: pb2.ReportStaleRequest, context: Any) -> pb2.ReportStaleReply:
        checks.hash_("digest_id", request.digest_id)
        await self._coordinator.named.outdated(request.digest_id, request.trouble)
        return pb2.ReportStaleReply()

    @handled
    async def ReportTask(self, request: pb2.ReportTaskRequest, context: Any) -> pb2.ReportTaskReply:
        checks.name("node_id", request.node_id)
        checks.name("task_id", request.task_id)
        checks.hash_("digest_id", request.digest_id, required=False)
        checks.between("error_code", request.error_code, 0, 16)
        if request.over:
            self._coordinator.heartbeats.settle()  # what it has brought or taken away was told before
        known = await self._coordinator.named.report(request)
        return pb2.ReportTaskReply(known=known)
