"""What this node asks of the coordinator; calls are repeated while it is away."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Any, Protocol, TypeVar

import grpc
from absl import logging

from tfquiver import errors
from tfquiver.digests.digest import Digest
from tfquiver.grpc_plumbing import rpc
from tfquiver.listing.listing_terms import ListingTerms
from tfquiver.proto.tfquiver.v1 import coordinator_pb2 as pb
from tfquiver.proto.tfquiver.v1 import coordinator_pb2_grpc, named_datasets_pb2, named_datasets_pb2_grpc, types_pb2
from tfquiver.service.metrics.instruments import LEASE
from tfquiver.service.node.coordinator_link.call_stream import CallStream

T = TypeVar("T")


class ReadersCalls(Protocol):
    """What readers make all the time, over a stream or to a coordinator in this process; as `CallStream` has them."""

    async def lease(self, request: pb.LeaseRequest, timeout_s: float) -> pb.LeaseReply: ...

    async def ack(self, request: pb.AckRequest, timeout_s: float) -> pb.AckReply: ...

    def close(self) -> None: ...


CALL_TIMEOUT_S = 10.0
# Less than who asks waits (ops/tf/tickets/ticket_provider.cc): it would take this node for one that hangs, and not ask
# it for two seconds, when it is the coordinator that is away.
TICKET_DEADLINE_S, _LEAST_TICKET_S = 0.5, 0.1
_MADE_AGAIN = (
    "; where the data set, or the directory of its coordinator, has been deleted since this program made it known, "
    "tfquiver.dataset(...) makes it known again"
)
_MISSING_DEADLINE_S = 2.0
_CLAIMS_S = 60.0  # the coordinator may have to read every digest
PART_BYTES = 1 << 20


class CoordinatorCalls:
    """Args:
    node: this node as it is now (its used bytes change).
    lost_s: for so long a call is repeated while the coordinator is away.
    """

    def __init__(self, address: str, token: str, node: Callable[[], types_pb2.NodeInfo], lost_s: float) -> None:
        self.address, self._node, self._lost_s = address, node, lost_s
        self.digest_of: Callable[[bytes], Awaitable[Digest]]  # as this node has it
        self._metadata = rpc.metadata(token)
        self._channel = rpc.aio_channel(address)
        self._stub: Any = coordinator_pb2_grpc.CoordinatorStub(self._channel)
        self._named: Any = named_datasets_pb2_grpc.NamedDatasetsStub(self._channel)
        self._stream = CallStream(self._stub, self._metadata)
        self._readers: ReadersCalls = self._stream

    def coordinator_is_here(self, calls: ReadersCalls) -> None:
        """In this process: what readers ask all the time is asked so."""
        self._readers = calls

    # Calls for readers.

    async def open_reader(self, request: pb.OpenReaderRequest) -> pb.OpenReaderReply:
        try:
            reply: pb.OpenReaderReply = await self._call(self._stub.OpenReader, request)
        except errors.DataLossError as error:
            if not await self._mended(request.digest_id, error):
                raise
            reply = await self._call(self._stub.OpenReader, request)
        return reply

    async def lease(self, request: pb.LeaseRequest) -> pb.LeaseReply:
        with LEASE.time():
            timeout_s = CALL_TIMEOUT_S + request.wait_ms / 1000
            reply: pb.LeaseReply = await self._repeated(lambda: self._readers.lease(request, timeout_s))
        return reply

    async def ack(self, request: pb.AckRequest) -> pb.AckReply:
        return await self._repeated(lambda: self._readers.ack(request, CALL_TIMEOUT_S))

    async def close_reader(self, request: pb.CloseReaderRequest) -> None:
        await self._call(self._stub.CloseReader, request)

    async def pick_records(self, request: pb.PickRecordsRequest) -> pb.PickRecordsReply:
        reply: pb.PickRecordsReply = await self._call(self._stub.PickRecords, request)
        return reply

    async def ticket(self, request: pb.TicketRequest) -> pb.TicketReply:
        """Soon, or UnavailableError: the dispatcher must not wait."""
        loop = asyncio.get_running_loop()
        give_up_at = loop.time() + TICKET_DEADLINE_S

        async def call() -> pb.TicketReply:
            left_s = max(give_up_at - loop.time(), _LEAST_TICKET_S)  # all attempts together
            reply: pb.TicketReply = await self._stub.Ticket(request, timeout=left_s, metadata=self._metadata)
            return reply

        return await rpc.retry(call, f"coordinator {self.address}", TICKET_DEADLINE_S)

    # For those who ask who calls.

    async def identify(self, request: pb.IdentifyRequest, within_s: float) -> pb.IdentifyReply:
        reply: pb.IdentifyReply = await self._call(self._stub.Identify, request, within_s, within_s)
        return reply

    # Orders.

    async def missing(self, digest_id: bytes, shards: Sequence[int]) -> pb.MissingReply:
        """Those that no node, or another one, holds. Soon, or UnavailableError; NotFoundError: nothing is known."""
        request = pb.MissingRequest(digest_id=digest_id, shards=shards, node_id=self._node().node_id)
        soon_s = _MISSING_DEADLINE_S
        reply: pb.MissingReply = await self._call(self._stub.Missing, request, soon_s, soon_s)
        return reply

    async def holders(self, request: pb.HoldersRequest) -> pb.HoldersReply:
        """Soon, or UnavailableError."""
        reply: pb.HoldersReply = await self._call(self._stub.Holders, request, CALL_TIMEOUT_S, CALL_TIMEOUT_S)
        return reply

    async def report_stale(self, digest_id: bytes, why: str) -> None:
        """Soon, or UnavailableError."""
        request = named_datasets_pb2.ReportStaleRequest(digest_id=digest_id, trouble=why)
        await self._call(self._named.ReportStale, request, CALL_TIMEOUT_S, CALL_TIMEOUT_S)

    async def report_task(self, request: named_datasets_pb2.ReportTaskRequest) -> bool:
        """Whether it is still to be done. Soon, or UnavailableError."""
        request.node_id = self._node().node_id
        reply = await self._call(self._named.ReportTask, request, CALL_TIMEOUT_S, CALL_TIMEOUT_S)
        return bool(reply.known)

    # Data sets.

    async def removed_datasets(self, digest_ids: Sequence[bytes]) -> Sequence[bytes]:
        """Those that were removed. Soon, or UnavailableError."""
        request = pb.RemovedDatasetsRequest(digest_ids=digest_ids)
        reply: pb.RemovedDatasetsReply = await self._call(
            self._stub.RemovedDatasets, request, CALL_TIMEOUT_S, CALL_TIMEOUT_S
        )
        return list(reply.digest_ids)

    async def unclaimed(self, prefixes: bytes) -> pb.UnclaimedReply:
        """Of 8-byte prefixes of hashes, one after the other. Raises UnavailableError and others."""
        request = pb.UnclaimedRequest(prefixes=prefixes)
        reply: pb.UnclaimedReply = await self._call(self._stub.Unclaimed, request, _CLAIMS_S, _CLAIMS_S)
        return reply

    async def find_dataset(self, request: pb.FindDatasetRequest) -> types_pb2.Dataset | None:
        try:
            found: types_pb2.Dataset = await self._call(self._stub.FindDataset, request)
        except errors.NotFoundError:
            return None
        return found

    async def register_dataset(
        self, name: str, listing_key: bytes, terms: ListingTerms, digest: bytes, task_id: str = ""
    ) -> types_pb2.Dataset:
        first = pb.RegisterDatasetRequest(
            name=name, listing_key=listing_key, terms=terms.message(), task_id=task_id, size_bytes=len(digest)
        )

        async def parts() -> AsyncIterator[pb.RegisterDatasetRequest]:
            yield first
            for at in range(0, len(digest), PART_BYTES):
                yield pb.RegisterDatasetRequest(part=digest[at : at + PART_BYTES])

        async def call() -> types_pb2.Dataset:
            registered: types_pb2.Dataset = await self._stub.RegisterDataset(
                parts(), timeout=self._lost_s, metadata=self._metadata
            )
            return registered

        return await rpc.retry(call, f"registering data set {name!r} with {self.address}", self._lost_s)

    async def _mended(self, digest_id: bytes, trouble: errors.DataLossError) -> bool:
        """Whether this node had a sound copy of a digest that is damaged in the coordinator's directory."""
        try:
            digest = await self.digest_of(digest_id)
            await self.register_dataset(digest.name, b"", ListingTerms(), await asyncio.to_thread(digest.to_bytes))
        except errors.TfquiverError as error:
            logging.warning("%s; nor is there a copy here: %s", str(trouble), str(error))
            return False
        logging.warning("%s; it has this node's copy now", str(trouble))
        return True

    async def digest_parts(self, digest_id: bytes) -> AsyncIterator[bytes]:
        """The digest file as the coordinator streams it; typed errors, no retries."""
        request = pb.GetDigestRequest(digest_id=digest_id)
        try:
            async for reply in self._stub.GetDigest(request, timeout=self._lost_s, metadata=self._metadata):
                yield reply.part
        except grpc.RpcError as error:
            typed = rpc.from_rpc_error(error, f"digest {digest_id.hex()} from {self.address}")
            if isinstance(typed, errors.NotFoundError):
                typed = errors.NotFoundError(f"{typed}{_MADE_AGAIN}")
            raise typed from error

    async def _call(
        self, method: Callable[..., Any], request: Any, timeout_s: float = CALL_TIMEOUT_S, patience_s: float = 0.0
    ) -> Any:
        async def call() -> Any:
            return await method(request, timeout=timeout_s, metadata=self._metadata)

        return await self._repeated(call, patience_s)

    async def _repeated(self, call: Callable[[], Awaitable[T]], patience_s: float = 0.0) -> T:
        return await rpc.retry(call, f"coordinator {self.address}", patience_s or self._lost_s)
