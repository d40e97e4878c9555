"""A node's and its readers' calls to a real coordinator; readers go on when it is killed and comes back."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import grpc

from tfquiver import errors
from tfquiver.digests.digest import Digest
from tfquiver.grpc_plumbing import rpc
from tfquiver.proto.tfquiver.v1 import coordinator_pb2 as pb
from tfquiver.proto.tfquiver.v1 import coordinator_pb2_grpc, types_pb2
from tfquiver.service.coordinator.server import CoordinatorServer

CALL_S = 30.0
NODE = "node"


class CoordinatorClient:
    def __init__(self, channel: grpc.aio.Channel) -> None:
        self._stub: Any = coordinator_pb2_grpc.CoordinatorStub(channel)

    @classmethod
    @asynccontextmanager
    async def connected(cls, address: str) -> AsyncIterator[CoordinatorClient]:
        async with rpc.aio_channel(address) as channel:
            yield cls(channel)

    async def call(self, method: str, request: Any) -> Any:
        """Raises the typed error. A call that the server's end cut off is not repeated."""
        try:
            return await getattr(self._stub, method)(request, timeout=CALL_S, wait_for_ready=True)
        except grpc.RpcError as error:
            raise rpc.from_rpc_error(error, method) from error

    async def upload(
        self,
        parts: Sequence[bytes],
        name: str = "",
        listing_key: bytes = b"",
        terms: types_pb2.ListingTerms | None = None,
    ) -> types_pb2.Dataset:
        async def requests() -> AsyncIterator[pb.RegisterDatasetRequest]:
            yield pb.RegisterDatasetRequest(name=name, listing_key=listing_key, terms=terms)
            for part in parts:
                yield pb.RegisterDatasetRequest(part=part)

        dataset: types_pb2.Dataset = await self.call("RegisterDataset", requests())
        return dataset

    async def digest(self, digest_id: bytes) -> bytes:
        replies = self._stub.GetDigest(pb.GetDigestRequest(digest_id=digest_id), timeout=CALL_S, wait_for_ready=True)
        return b"".join([reply.part async for reply in replies])

    async def beat(self) -> None:
        request = pb.HeartbeatRequest(incarnation="1")
        request.node.node_id, request.node.quota_bytes = NODE, 1
        await self.call("Heartbeat", request)

    async def beat_on(self, interval_s: float) -> None:
        """Until it is cancelled."""
        while True:
            try:
                await self.beat()
            except errors.UnavailableError:
                continue
            await asyncio.sleep(interval_s)

    async def ticket(self, digest: Digest, provider: str = "p:1") -> str:
        request = pb.TicketRequest(session_key="key", provider_id=provider, digest_id=digest.digest_id, job="job")
        return str((await self.call("Ticket", request)).session_id)

    async def session(self, session_id: str) -> pb.SessionInfo:
        sessions: Sequence[pb.SessionInfo] = (await self.call("ListSessions", pb.ListSessionsRequest())).sessions
        return next(session for session in sessions if session.session_id == session_id)


@asynccontextmanager
async def new_coordinator(directory: Path) -> AsyncIterator[CoordinatorClient]:
    """Of one in this process, with its log in `directory`."""
    async with CoordinatorServer() as server:
        await server.start(directory / "work", f"unix:{directory}/socket")
        async with CoordinatorClient.connected(f"unix:{directory}/socket") as client:
            yield client


class Reader:
    """Emits what it leases and acknowledges it one lease later; `emitted` tells."""

    def __init__(self, client: CoordinatorClient, session_id: str, digest: Digest, name: str) -> None:
        self._client, self._session_id, self._digest_id, self.name = client, session_id, digest.digest_id, name
        self._sequence = 0
        self.held: list[int] = []

    async def open(self) -> None:
        request = pb.OpenReaderRequest(
            session_id=self._session_id, reader_id=self.name, node_id=NODE, incarnation="1",
            digest_id=self._digest_id, held=self.held,
        )  # fmt: skip
        reply = await self._again("OpenReader", request)
        self._sequence = 0
        self.held = [shard for shard in self.held if shard not in set(reply.dropped)]

    async def read(self, n: int, emitted: Callable[[int], None]) -> None:
        """From opening to END."""
        await self.open()
        while True:
            reply = await self.lease(n, draining=True)
            before, shards = self.held, [lease.shard for lease in reply.leases]
            self.held = before + shards
            for shard in shards:
                emitted(shard)
            if reply.state == pb.LeaseReply.STATE_END:
                break
            await self.ack(before)
        await self._known("CloseReader", pb.CloseReaderRequest(complete=True))

    async def lease(self, n: int, draining: bool = False, acked: Sequence[int] = ()) -> pb.LeaseReply:
        self._sequence += 1
        request = pb.LeaseRequest(max_shards=n, max_bytes=1 << 40, wait_ms=500, draining=draining, acked=acked)
        request.sequence = self._sequence
        reply: pb.LeaseReply = await self._known("Lease", request)
        return reply

    async def ack(self, shards: Sequence[int]) -> None:
        if shards:
            await self._known("Ack", pb.AckRequest(shards=shards))
            self.held = [shard for shard in self.held if shard not in set(shards)]

    async def leave(self) -> None:
        """What it holds goes back."""
        await self._known("CloseReader", pb.CloseReaderRequest())

    async def _known(self, method: str, request: Any) -> Any:
        """As `_again`; opens again first where the coordinator does not know the reader."""
        request.session_id, request.reader_id = self._session_id, self.name
        while True:
            try:
                return await self._again(method, request)
            except errors.NotFoundError:
                await self.open()
                if isinstance(request, pb.LeaseRequest):
                    request.sequence = self._sequence = 1

    async def _again(self, method: str, request: Any) -> Any:
        while True:
            try:
                return await self._client.call(method, request)
            except errors.UnavailableError:
                continue
