"""The node's gRPC skin: status, and data sets made known on first use."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

from tfquiver import rpc
from tfquiver.proto.tfquiver.v1 import node_pb2 as pb
from tfquiver.proto.tfquiver.v1 import node_pb2_grpc
from tfquiver.service.node.ensure import DatasetScans

PROGRESS_S = 0.25


class NodeServicer(node_pb2_grpc.NodeServicer):
    """`used` is called at every request: a node that is asked is not idle."""

    def __init__(self, status: Callable[[], pb.StatusReply], scans: DatasetScans, used: Callable[[], None]) -> None:
        self._status, self._scans, self._used = status, scans, used

    @rpc.handled
    async def Status(self, request: pb.StatusRequest, context: Any) -> pb.StatusReply:
        self._used()
        return self._status()

    @rpc.handled_stream
    async def EnsureDataset(
        self, request: pb.EnsureDatasetRequest, context: Any
    ) -> AsyncIterator[pb.EnsureDatasetProgress]:
        self._used()
        scan = self._scans.join(request)
        while not scan.task.done():
            await asyncio.wait([scan.task], timeout=PROGRESS_S)
            yield scan.progress()
        self._used()
        yield scan.progress(scan.task.result())
