"""Who may call this node, and where its calls are answered."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

import grpc.aio

from tfquiver.grpc_plumbing import rpc
from tfquiver.grpc_plumbing.health import HealthService
from tfquiver.proto.tfquiver.v1 import coordinator_pb2, node_pb2_grpc
from tfquiver.roles_and_tokens.identity import READERS, Always, Authority, Open
from tfquiver.roles_and_tokens.tokens import SharedToken
from tfquiver.service.node.coordinator_link.callers import Callers
from tfquiver.service.node.options import Options


def authority(
    options: Options,
    ask: Callable[[coordinator_pb2.IdentifyRequest, float], Awaitable[coordinator_pb2.IdentifyReply]],
    clock: Callable[[], float],
) -> Authority:
    """`ask`: the coordinator, who somebody is."""
    token = options.token
    if not token:
        return Open() if options.coordinator or not options.reader_group else Always(READERS)
    return Callers(token, ask, clock) if options.coordinator else SharedToken(token)


async def answered(
    servicer: node_pb2_grpc.NodeServicer, who: Authority, why_not_ready: Callable[[], str], addresses: Sequence[str]
) -> tuple[grpc.aio.Server, list[int]]:
    """From now on, at all of them; with what `rpc.listen` returns for each. Raises UnavailableError."""
    server = rpc.new_server(who)
    node_pb2_grpc.add_NodeServicer_to_server(servicer, server)
    HealthService(why_not_ready).add_to(server)
    ports = [rpc.listen(server, address) for address in addresses]
    await server.start()
    return server, ports
