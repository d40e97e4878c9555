"""The whole service, and the calls of nodes."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from typing import Any

from tfquiver import errors
from tfquiver.grpc_plumbing.rpc import caller, handled
from tfquiver.proto.tfquiver.v1 import coordinator_pb2 as pb2
from tfquiver.proto.tfquiver.v1 import coordinator_pb2_grpc
from tfquiver.roles_and_tokens.identity import Role
from tfquiver.service.coordinator.coordinator import Coordinator
from tfquiver.service.coordinator.dataset_placement_and_where_jobs_should_run.move_reports import MAX_REPORTS
from tfquiver.service.coordinator.grpc_calls import checks
from tfquiver.service.coordinator.grpc_calls.about_datasets.dataset_calls import DatasetCalls
from tfquiver.service.coordinator.grpc_calls.about_datasets.derived_calls import DerivedDatasetCalls
from tfquiver.service.coordinator.grpc_calls.about_datasets.named_calls import NamedDatasetCalls
from tfquiver.service.coordinator.grpc_calls.about_datasets.place_calls import PlaceCalls
from tfquiver.service.coordinator.grpc_calls.about_sessions_jobs_plans_past.budget_calls import BudgetCalls
from tfquiver.service.coordinator.grpc_calls.about_sessions_jobs_plans_past.change_calls import ChangeCalls
from tfquiver.service.coordinator.grpc_calls.about_sessions_jobs_plans_past.listing_calls import ListingCalls
from tfquiver.service.coordinator.grpc_calls.about_sessions_jobs_plans_past.past_calls import PastCalls
from tfquiver.service.coordinator.grpc_calls.about_sessions_jobs_plans_past.planning_calls import PlanningCalls
from tfquiver.service.coordinator.grpc_calls.about_sessions_jobs_plans_past.session_calls import SessionCalls
from tfquiver.service.coordinator.grpc_calls.about_sessions_jobs_plans_past.step_calls import StepCalls
from tfquiver.service.coordinator.grpc_calls.callers import Tokens
from tfquiver.service.coordinator.grpc_calls.calls_here import CallsHere
from tfquiver.service.coordinator.grpc_calls.streamed_calls import StreamedCalls
from tfquiver.service.coordinator.nodes_mounts_dispatchers.dispatchers import MAX_ID_BYTES, MAX_LEFT, MAX_WORKERS
from tfquiver.service.coordinator.nodes_mounts_dispatchers.membership import MAX_NODES
from tfquiver.service.coordinator.nodes_mounts_dispatchers.mounts import MAX_MOUNTS
from tfquiver.shard_owners_chunks_hash_prefixes import labels
from tfquiver.version import VERSION

_ROLES = {Role.ADMIN: pb2.ROLE_ADMIN, Role.NODE: pb2.ROLE_NODE, Role.JOB: pb2.ROLE_JOB}


class CoordinatorServicer(
    DatasetCalls,
    SessionCalls,
    ListingCalls,
    StepCalls,
    BudgetCalls,
    PlanningCalls,
    PastCalls,
    PlaceCalls,
    ChangeCalls,
    coordinator_pb2_grpc.CoordinatorServicer,
):
    def __init__(self, coordinator: Coordinator, tokens: Tokens | None = None) -> None:
        super().__init__(coordinator, tokens)
        # Other gRPC services, on the same port.
        self.named_datasets = NamedDatasetCalls(coordinator, tokens)
        self.derived_datasets = DerivedDatasetCalls(coordinator, tokens)
        in_streams = {"Heartbeat": self.Heartbeat, "Orders": self.Orders, "Lease": self.Lease, "Ack": self.Ack}
        self._streamed = StreamedCalls(in_streams, tokens, coordinator.membership.heard)

    def calls_here(self) -> CallsHere:
        """For the node that has this coordinator in it; who may do what is not asked."""
        return CallsHere(self.Lease, self.Ack)

    def release_streams(self) -> None:
        """No more calls come over them; they end when what they have is answered."""
        self._streamed.release()

    async def NodeCalls(  # type: ignore[override]
        self, request_iterator: AsyncIterator[pb2.NodeCallsRequest], context: Any
    ) -> None:
        await self._streamed.serve(context)

    @handled
    async def Orders(self, request: pb2.OrdersRequest, context: Any) -> pb2.OrdersReply:
        checks.between("wait_ms", request.wait_ms, 0, checks.MAX_WAIT_MS)
        orders = self._coordinator.node_orders
        reply = await orders.newer(request.version, request.wait_ms / 1000, request.named_version)
        removals = self._coordinator.registry.removals
        if reply.version == request.version or reply.removals == removals:
            return reply
        told = pb2.OrdersReply()  # others have been given that one as it is
        told.CopyFrom(reply)
        told.removals = removals
        return told

    @handled
    async def Missing(self, request: pb2.MissingRequest, context: Any) -> pb2.MissingReply:
        checks.hash_("digest_id", request.digest_id)
        checks.between("shards", len(request.shards), 0, checks.MAX_ASKED)
        checks.name("node_id", request.node_id, required=False)
        missing, elsewhere = self._coordinator.missing(request.digest_id, request.shards, request.node_id)
        return pb2.MissingReply(shards=missing, elsewhere=elsewhere)

    @handled
    async def Heartbeat(self, request: pb2.HeartbeatRequest, context: Any) -> pb2.HeartbeatReply:
        checks.name("node.node_id", request.node.node_id)
        checks.name("incarnation", request.incarnation)
        checks.name("node.control_address", request.node.control_address, required=False)
        checks.name("node.data_address", request.node.data_address, required=False)
        changes = len(request.inventory.added) + len(request.inventory.removed)
        checks.between("inventory", changes, 0, checks.MAX_INVENTORY_HASHES)
        labels.check(request.node.labels)
        checks.between("moves", len(request.moves), 0, MAX_REPORTS)
        for report in request.moves:
            checks.hash_("moves.digest_id", report.digest_id)
        checks.between("mounts", len(request.mounts), 0, MAX_MOUNTS)
        for mount in request.mounts:
            checks.hash_("mounts.digest_id", mount.digest_id)
        checks.between("readers", len(request.readers), 0, checks.MAX_REPORTS)
        checks.hashes("inventory.added", request.inventory.added)
        checks.hashes("inventory.removed", request.inventory.removed)
        return self._coordinator.heartbeats.take(request)

    @handled
    async def ReportDispatcher(self, request: pb2.ReportDispatcherRequest, context: Any) -> pb2.ReportDispatcherReply:
        checks.name("dispatcher.address", request.dispatcher.address)
        checks.between("dispatcher.workers", len(request.dispatcher.workers), 0, MAX_WORKERS)
        for worker in request.dispatcher.workers:
            checks.name("dispatcher.workers.address", worker.address)
        checks.between("left_keys", len(request.left_keys), 0, MAX_LEFT)
        for key in request.left_keys:
            checks.name("left_keys", key)
        checks.name("dispatcher.version", request.dispatcher.version, required=False)
        checks.between("dispatcher.id's bytes", len(request.dispatcher.id.encode()), 0, MAX_ID_BYTES)
        checks.between("dispatcher.process's bytes", len(request.dispatcher.process.encode()), 0, MAX_ID_BYTES)
        if request.leaves:
            await self._coordinator.dispatcher_leaves(request.dispatcher.address, request.dispatcher.id)
        else:
            self._coordinator.dispatchers.report(request.dispatcher, request.left_keys)
        return pb2.ReportDispatcherReply()

    @handled
    async def ReportWorker(self, request: pb2.ReportWorkerRequest, context: Any) -> pb2.ReportWorkerReply:
        checks.name("address", request.address)
        checks.name("version", request.version)
        self._coordinator.dispatchers.report_worker(request.address, request.version)
        return pb2.ReportWorkerReply()

    @handled
    async def Leave(self, request: pb2.LeaveRequest, context: Any) -> pb2.LeaveReply:
        await self._coordinator.leave(request.node_id, request.incarnation)
        return pb2.LeaveReply()

    @handled
    async def Forget(self, request: pb2.ForgetRequest, context: Any) -> pb2.ForgetReply:
        checks.between("node_ids and dispatchers", len(request.node_ids) + len(request.dispatchers), 0, MAX_NODES)
        for node_id in request.node_ids:
            checks.name("node_ids", node_id)
        for address in request.dispatchers:
            checks.name("dispatchers", address)
        nodes, dispatchers = await self._coordinator.forget(request.node_ids, request.dispatchers, request.all_lost)
        return pb2.ForgetReply(node_ids=nodes, dispatchers=dispatchers)

    @handled
    async def Identify(self, request: pb2.IdentifyRequest, context: Any) -> pb2.IdentifyReply:
        checks.hash_("token_sha256", request.token_sha256)
        if self._tokens is None:
            return pb2.IdentifyReply(open=True)
        if (found := self._tokens.by_hash(request.token_sha256)) is None:
            raise errors.NotFoundError("token_sha256: no token has this hash")
        return pb2.IdentifyReply(role=_ROLES[found.role], name=found.name)

    @handled
    async def ListNodes(self, request: pb2.ListNodesRequest, context: Any) -> pb2.ListNodesReply:
        membership = self._coordinator.membership
        whole = not self._named or caller().role is not Role.JOB  # a policy's error may name what is not theirs
        return pb2.ListNodesReply(
            nodes=membership.live(),
            lost=membership.lost.told(),
            version=VERSION,
            now_ms=int(1000 * time.time()),
            up_ms=membership.up_ms(),
            log_trouble=self._coordinator.log_trouble,
            policy_trouble=self._coordinator.policy_trouble if whole else "",
            awaited=membership.lost.awaited(),
            silent_ms=membership.silent_ms(),
        )

    @handled
    async def ListDispatchers(self, request: pb2.ListDispatchersRequest, context: Any) -> pb2.ListDispatchersReply:
        dispatchers = self._coordinator.dispatchers
        return pb2.ListDispatchersReply(dispatchers=dispatchers.live(), lost=dispatchers.lost())
