"""Whether dispatcher and node are of one cluster: a worker whose node knows none of the dispatcher's data sets would
end every trainer's epoch with an error that nobody retries."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Sequence

import grpc
from absl import logging

from tfquiver import errors
from tfquiver.grpc_plumbing import addresses, rpc
from tfquiver.proto.tfquiver.v1 import coordinator_pb2, coordinator_pb2_grpc

WAIT_S = 12.0  # a dispatcher tells its coordinator of itself and its workers every five
_PAUSE_S = 0.5
_CALL_S = 2.0
_GET_WORKERS = "/tensorflow.data.DispatcherService/GetWorkers"


async def check(dispatcher: str, coordinator: str, token: str, wait_s: float = WAIT_S) -> None:
    """Returns as soon as that is known; at once where the coordinator does not answer, or not without a token.

    Raises InvalidArgumentError: for `wait_s` the coordinator has heard neither of the dispatcher nor of any worker that
    the dispatcher has. One that has none yet gives no trainer anything that could be lost.
    """
    loop = asyncio.get_running_loop()
    give_up_at = loop.time() + wait_s
    while True:
        try:
            why, has_workers = await asyncio.to_thread(_other_cluster, dispatcher, coordinator, token)
        except grpc.RpcError as error:
            logging.info("not checked whether dispatcher and node are of one cluster: %s", error.details())
            return
        if not why:
            return
        if loop.time() >= give_up_at:
            if has_workers:
                raise errors.InvalidArgumentError(why)
            logging.warning("%s", why)
            return
        await asyncio.sleep(_PAUSE_S)


def _other_cluster(dispatcher: str, coordinator: str, token: str) -> tuple[str, bool]:
    """Why it looks as if they were of two ("": it does not), and whether the dispatcher has workers. Raises
    grpc.RpcError."""
    with rpc.channel(coordinator) as channel:
        known = coordinator_pb2_grpc.CoordinatorStub(channel).ListDispatchers(
            coordinator_pb2.ListDispatchersRequest(), timeout=_CALL_S, metadata=tuple(rpc.metadata(token))
        )
    names = [one.address for one in known.dispatchers]
    if any(_is_same(dispatcher, name) for name in names):
        return "", False
    with rpc.channel(dispatcher) as channel:
        method = channel.unary_unary(_GET_WORKERS, request_serializer=bytes, response_deserializer=bytes)
        registered: bytes = method(b"", timeout=_CALL_S)
    # Behind a name or an address of its own (a Kubernetes service) it is known by its workers.
    if any(worker.address.encode() in registered for one in known.dispatchers for worker in one.workers):
        return "", True
    why = (
        f"--dispatcher={dispatcher} and this worker's node are of two clusters: the node's coordinator, {coordinator}, "
        f"has heard nothing of this dispatcher and its workers{_instead(names)}. Name the dispatcher of the node's "
        "cluster, or a node (--node_dir, or --cache_dir with --coordinator) of the dispatcher's"
    )
    return why, bool(registered)


def _instead(names: Sequence[str]) -> str:
    return f"; it knows {', '.join(names)}" if names else ""


def _is_same(one: str, other: str) -> bool:
    return one == other or bool(_places(one) & _places(other))


def _places(address: str) -> set[str]:
    return {number for family in (socket.AF_INET, socket.AF_INET6) for number in addresses.numbers(address, family)}
