"""What a node is at has names in it, and so has its directory: a job's token does not see them."""

from __future__ import annotations

import asyncio
import inspect
from pathlib import Path
from typing import Any

import grpc.aio
import pytest

from tfquiver.grpc_plumbing import rpc
from tfquiver.proto.tfquiver.v1 import node_pb2 as pb
from tfquiver.proto.tfquiver.v1 import node_pb2_grpc
from tfquiver.roles_and_tokens.identity import Always, Identity, Role
from tfquiver.service.node.grpc_calls_warm_clear.servicer import NodeServicer

WORK = pb.Work(kind=pb.WORK_KIND_SCAN, name="secret", done_bytes=1, total_bytes=2)


@pytest.mark.parametrize(("role", "seen"), [(Role.JOB, []), (Role.NODE, ["secret"]), (Role.ADMIN, ["secret"])])
def test_names_of_what_a_node_is_at_are_not_for_jobs(tmp_path: Path, role: Role, seen: list[str]) -> None:
    async def asked() -> pb.StatusReply:
        not_asked: dict[str, Any] = dict.fromkeys(inspect.signature(NodeServicer).parameters)
        told = {"status": lambda: pb.StatusReply(works=[WORK], hits=7, cache_dir="/ssd/team"), "used": lambda: None}
        servicer = NodeServicer(**not_asked | told)
        server = rpc.new_server(Always(Identity(role, "somebody")))
        node_pb2_grpc.add_NodeServicer_to_server(servicer, server)
        rpc.listen(server, f"unix:{tmp_path / 's'}")
        await server.start()
        try:
            async with grpc.aio.insecure_channel(f"unix:{tmp_path / 's'}") as channel:
                stub: Any = node_pb2_grpc.NodeStub(channel)
                reply: pb.StatusReply = await stub.Status(pb.StatusRequest(), timeout=30)
                return reply
        finally:
            await server.stop(None)

    reply = asyncio.run(asked())
    assert [work.name for work in reply.works] == seen and reply.hits == 7
    assert reply.cache_dir == ("/ssd/team" if seen else ""), "nor where it has its cache"
