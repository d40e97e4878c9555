"""The calls of trainers that compute derived shards: on this machine's Unix socket only."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import Any

from tfquiver import errors
from tfquiver.grpc_plumbing import rpc
from tfquiver.proto.tfquiver.v1 import node_pb2 as pb
from tfquiver.proto.tfquiver.v1 import node_pb2_grpc
from tfquiver.service.node.derived_shards.derived_shards import DerivedShards


class DerivedCalls(node_pb2_grpc.NodeServicer):
    """`used` is called at every request: a node that is asked is not idle."""

    def __init__(self, derived: DerivedShards, used: Callable[[], None]) -> None:
        self._derived, self._used = derived, used

    @rpc.handled
    async def PutDerived(
        self, request_iterator: AsyncIterator[pb.PutDerivedRequest], context: Any
    ) -> pb.PutDerivedReply:
        _local("PutDerived", context)
        self._used()
        return pb.PutDerivedReply(kept=await self._derived.puts.put(aiter(request_iterator)))

    @rpc.handled_stream
    async def ComputeDerived(
        self, request_iterator: AsyncIterator[pb.ComputedDerived], context: Any
    ) -> AsyncIterator[pb.ComputeDerivedRequest]:
        _local("ComputeDerived", context)
        async for asked in self._derived.computers.serve(aiter(request_iterator)):
            self._used()
            yield asked


def _local(call: str, context: Any) -> None:
    if not context.peer().startswith("unix:"):
        raise errors.PermissionError_(f"{call}: derived shards are taken on this machine's Unix socket only")
