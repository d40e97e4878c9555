"""The calls on sessions: where callers have names, those of a job are its own."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

from tfquiver import errors
from tfquiver.grpc_plumbing.rpc import caller, handled
from tfquiver.proto.tfquiver.v1 import coordinator_pb2 as pb2
from tfquiver.roles_and_tokens.identity import Identity, Role
from tfquiver.service.coordinator.grpc_calls import checks
from tfquiver.service.coordinator.grpc_calls.callers import Callers
from tfquiver.service.coordinator.grpc_calls.uploads import parts_of
from tfquiver.service.coordinator.sessions.lease import LeaseState

_STATES = {
    LeaseState.LEASED: pb2.LeaseReply.STATE_LEASED,
    LeaseState.WAIT: pb2.LeaseReply.STATE_WAIT,
    LeaseState.END: pb2.LeaseReply.STATE_END,
}


class SessionCalls(Callers):
    @handled
    async def Ticket(self, request: pb2.TicketRequest, context: Any) -> pb2.TicketReply:
        checks.name("session_key", request.session_key)
        checks.name("provider_id", request.provider_id)
        checks.name("job", request.job, required=False)
        checks.hash_("digest_id", request.digest_id)
        request.job = self._job_of(request.session_key, request.digest_id, request.job)
        session_id = await self._coordinator.reading.ticket(request)
        return pb2.TicketReply(end=session_id is None, session_id=session_id or "")

    @handled
    async def OpenReader(self, request: pb2.OpenReaderRequest, context: Any) -> pb2.OpenReaderReply:
        checks.name("reader_id", request.reader_id)
        checks.name("node_id", request.node_id)
        checks.name("incarnation", request.incarnation)
        for field in ("label", "job", "session_key"):
            checks.name(field, getattr(request, field), required=False)
        checks.hash_("digest_id", request.digest_id)
        request.job = self._job_of(request.session_key, request.digest_id, request.job)
        self._check_same_owner(request.session_id, request.session_key)
        session, dropped = await self._coordinator.reading.open_reader(request)
        dataset = self._coordinator.registry.find(request.digest_id)
        return pb2.OpenReaderReply(
            session_id=session.session_id,
            epoch=session.epoch,
            shards=session.shards,
            records=session.drawn.records if session.sampled else dataset.records,
            dropped=dropped,
            drawn=session.drawn if session.sampled and not request.has_drawn else None,
        )

    @handled
    async def AskSampling(self, request: pb2.AskSamplingRequest, context: Any) -> pb2.AskSamplingReply:
        checks.name("session_key", request.session_key)
        checks.name("scheme", request.scheme)
        checks.hash_("digest_id", request.digest_id)
        checks.hash_("weights_id", request.weights_id, required=False)
        await self._claim(request.session_key, request.digest_id)
        first = await self._coordinator.samplings.ask(request)
        picked = first.picks.records if first.picks else 0
        return pb2.AskSamplingReply(draws=len(first.shards), records=first.records, picked=picked)

    @handled
    async def PutWeights(
        self, request_iterator: AsyncIterator[pb2.PutWeightsRequest], context: Any
    ) -> pb2.PutWeightsReply:
        first = await anext(aiter(request_iterator), None)
        if first is None:
            raise errors.InvalidArgumentError("part: the stream is empty")
        checks.hash_("digest_id", first.digest_id)
        self._visible.find(caller(), first.digest_id)
        digest = await self._coordinator.registry.digest(first.digest_id)
        weights = await self._coordinator.weights.put(parts_of(first, request_iterator), digest)
        return pb2.PutWeightsReply(weights_id=weights.weights_id)

    @handled
    async def PickRecords(self, request: pb2.PickRecordsRequest, context: Any) -> pb2.PickRecordsReply:
        checks.between("draws", len(request.draws), 1, checks.MAX_LEASES)
        return pb2.PickRecordsReply(picks=await self._coordinator.picking.pick(request.session_id, request.draws))

    @handled
    async def Lease(self, request: pb2.LeaseRequest, context: Any) -> pb2.LeaseReply:
        checks.between("sequence", request.sequence, 1, 2**64 - 1)
        checks.between("max_shards", request.max_shards, 1, checks.MAX_LEASES)
        checks.between("wait_ms", request.wait_ms, 0, checks.MAX_WAIT_MS)
        checks.between("wanted", len(request.wanted), 0, checks.MAX_LEASES)
        checks.between("acked", len(request.acked), 0, checks.MAX_LEASES)
        result, table = await self._coordinator.reading.lease(request)
        reply = pb2.LeaseReply(
            state=_STATES[result.state],
            acks_durable=bool(request.acked),
            ack_within_ms=self._coordinator.reading.ack_within_ms(),
        )
        session = self._coordinator.sessions.session(request.session_id)
        read = session.shards_of(result.shards, len(table.lengths)) if result.shards else ()
        owners = self._coordinator.caching.owners(table, read, self._node_of(request))
        for number, shard, place, owner in zip(result.shards, read, result.places, owners, strict=True):
            lease = reply.leases.add(shard=number, owner=owner, resident=bool(table.resident[shard]), unit=place.unit)
            if result.bypass:
                lease.bypass = True
            if place.records:
                block = pb2.BlockPlace(position=place.position, offset=place.offset, records=place.records)
                lease.block.CopyFrom(block)
        if result.bypass and not result.repeated:
            self._coordinator.read_past_cache(request.session_id, table, read)
        return reply

    @handled
    async def Ack(self, request: pb2.AckRequest, context: Any) -> pb2.AckReply:
        await self._coordinator.reading.ack(request)
        return pb2.AckReply(ack_within_ms=self._coordinator.reading.ack_within_ms())

    @handled
    async def CloseReader(self, request: pb2.CloseReaderRequest, context: Any) -> pb2.CloseReaderReply:
        await self._coordinator.reading.close_reader(request.session_id, request.reader_id, request.complete)
        return pb2.CloseReaderReply()

    @handled
    async def ClaimSession(self, request: pb2.ClaimSessionRequest, context: Any) -> pb2.ClaimSessionReply:
        checks.name("session_key", request.session_key)
        checks.hash_("digest_id", request.digest_id)
        await self._claim(request.session_key, request.digest_id)
        return pb2.ClaimSessionReply()

    @handled
    async def Resume(self, request: pb2.ResumeRequest, context: Any) -> pb2.ResumeReply:
        checks.name("session_key", request.session_key)
        checks.name("job", request.job)
        checks.hash_("digest_id", request.digest_id)
        await self._claim(request.session_key, request.digest_id)
        request.job = self._job_of(request.session_key, request.digest_id, request.job)
        return await self._coordinator.reading.resume(request)

    @handled
    async def GetPosition(self, request: pb2.GetPositionRequest, context: Any) -> pb2.GetPositionReply:
        checks.name("session_key", request.session_key)
        if self._named:
            self._coordinator.ownership.check_claim(caller(), request.session_key)
        return self._coordinator.reading.position(request.session_key)

    def _node_of(self, request: pb2.LeaseRequest) -> str:
        """The node of a reader."""
        reader = self._coordinator.sessions.session(request.session_id).readers.get(request.reader_id)
        return reader.node_id if reader else ""

    async def _claim(self, session_key: str, digest_id: bytes) -> None:
        if self._named:
            claimed = session_key.partition(":")[0]
            if not claimed or "/" in claimed:  # epochs of sessions without a job are counted by their key
                raise errors.InvalidArgumentError(f"session_key: {session_key!r} begins with a colon, or has a /")
            self._visible.find(caller(), digest_id)
            await self._coordinator.catalogue.claim(caller(), session_key)

    def _job_of(self, session_key: str, digest_id: bytes, job: str) -> str:
        """The job's name with that of its owner before it: nobody meets the jobs of others, whatever they call theirs.

        Raises PermissionError_ (nobody has claimed the key), NotFoundError (they may not read the data set any more).
        """
        if not self._named:
            return job
        owner = self._coordinator.ownership.name_of(session_key)
        if owner:
            self._visible.find(Identity(Role.JOB, owner), digest_id)
        return f"{owner}/{job}" if owner and job else job

    def _check_same_owner(self, session_id: str, session_key: str) -> None:
        """Nobody joins the session of another with a key of their own. Raises NotFoundError."""
        if self._named and session_id:
            ownership, its_key = self._coordinator.ownership, self._coordinator.sessions.session(session_id).session_key
            if ownership.name_of(its_key) != ownership.name_of(session_key):
                raise errors.NotFoundError(f"no session {session_id!r}: it may have expired")
