"""The node's gRPC skin: status, data sets made known on first use, and how clients reach object stores."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import aclosing
from typing import Any

from tfquiver import errors
from tfquiver.grpc_plumbing import rpc
from tfquiver.proto.tfquiver.v1 import node_pb2 as pb
from tfquiver.roles_and_tokens.identity import Role
from tfquiver.service.node.dataset_scans.first_use import DatasetScans
from tfquiver.service.node.derived_shards.derived_calls import DerivedCalls
from tfquiver.service.node.derived_shards.derived_shards import DerivedShards
from tfquiver.service.node.reading_the_object_store.client_stores import ClientStores
from tfquiver.stores.credentials.resolved import Access

PROGRESS_S = 0.25


class NodeServicer(DerivedCalls):
    """`used` is called at every request: a node that is asked is not idle."""

    def __init__(
        self,
        status: Callable[[], pb.StatusReply],
        scans: DatasetScans,
        client_stores: ClientStores,
        used: Callable[[], None],
        warm: Callable[[bytes], AsyncGenerator[pb.WarmProgress, None]],
        clear: Callable[[], Awaitable[pb.ClearReply]],
        reach: Callable[[int], Awaitable[pb.ReachPeersReply]],
        derived: DerivedShards,
        scan_files: Callable[[pb.ScanFilesRequest], AsyncGenerator[pb.ScanFilesReply, None]],
        room: Callable[[], Awaitable[int | None]],
    ) -> None:
        super().__init__(derived, used)
        self._room = room
        self._status, self._scans, self._client_stores = status, scans, client_stores
        self._warm, self._clear, self._reach, self._scan_files = warm, clear, reach, scan_files

    @rpc.handled
    async def Status(self, request: pb.StatusRequest, context: Any) -> pb.StatusReply:
        self._used()
        reply = self._status()
        if reply.node.quota_bytes and (room_bytes := await self._room()) is not None:
            reply.disk_room_bytes = room_bytes
        if rpc.caller().role is Role.JOB:  # names in it may be of data sets that others alone may know of
            reply.ClearField("works")
            reply.ClearField("cache_dir")
        return reply

    @rpc.handled_stream
    async def EnsureDataset(
        self, request_iterator: AsyncIterator[pb.EnsureDatasetRequest], context: Any
    ) -> AsyncIterator[pb.EnsureDatasetProgress]:
        self._used()
        requests = aiter(request_iterator)
        header = await anext(requests, None)
        if header is None:
            raise errors.InvalidArgumentError("listing_key: missing")
        if found := await self._scans.find(header):
            yield pb.EnsureDatasetProgress(dataset=found)
            return
        scan = self._scans.under_way(header)
        if scan is None:
            yield pb.EnsureDatasetProgress(need_files=True)
            scan = await self._scans.join(header, requests)
        else:
            scan.joined()
        while not scan.task.done():
            await asyncio.wait([scan.task], timeout=PROGRESS_S)
            yield scan.progress()
        self._used()
        yield scan.progress(scan.task.result())

    @rpc.handled
    async def UseStores(self, request: pb.UseStoresRequest, context: Any) -> pb.UseStoresReply:
        if not context.peer().startswith("unix:"):
            raise errors.PermissionError_("UseStores: credentials are taken on this machine's Unix socket only")
        self._used()
        accesses = [Access(store.scheme, store.options, store.expires_at_s) for store in request.stores]
        self._client_stores.use(request.client_id, accesses, request.digest_ids, request.ttl_s)
        return pb.UseStoresReply()

    @rpc.handled_stream
    async def Warm(self, request: pb.WarmRequest, context: Any) -> AsyncIterator[pb.WarmProgress]:
        async with aclosing(self._warm(request.digest_id)) as progress:
            async for told in progress:
                self._used()
                yield told

    @rpc.handled
    async def Clear(self, request: pb.ClearRequest, context: Any) -> pb.ClearReply:
        self._used()
        return await self._clear()

    @rpc.handled
    async def ReachPeers(self, request: pb.ReachPeersRequest, context: Any) -> pb.ReachPeersReply:
        return await self._reach(request.most)

    @rpc.handled_stream
    async def ScanFiles(self, request: pb.ScanFilesRequest, context: Any) -> AsyncIterator[pb.ScanFilesReply]:
        async with aclosing(self._scan_files(request)) as replies:
            async for reply in replies:
                self._used()
                yield reply
