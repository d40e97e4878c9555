"""A dispatcher that an `up` before this one had, and was killed with, is missed by the coordinator. Where this one is
to have none, nobody need miss it."""

from __future__ import annotations

import contextlib
from typing import Any

import grpc

from tfquiver import errors
from tfquiver.grpc_plumbing import rpc
from tfquiver.local_cluster.plan import Wish
from tfquiver.node_daemon_and_notes_in_directories.up_file import Given, Ports
from tfquiver.proto.tfquiver.v1 import coordinator_pb2, coordinator_pb2_grpc
from tfquiver.roles_and_tokens import own_token

_CALL_S = 2.0


def dispatcher(wish: Wish, last: Ports, given: Given) -> str:
    """Its address; "": there was none, or there is one. `given`: to the `up` that ran here last."""
    return f"localhost:{last.dispatcher}" if last.dispatcher and not wish.workers and given.workers != 0 else ""


def tell(coordinator: str, dispatcher: str) -> None:
    """Where it is not heard `tfquiver status` says for a day that the dispatcher is silent: no reason not to start."""
    request = coordinator_pb2.ReportDispatcherRequest(leaves=True)
    request.dispatcher.address = dispatcher
    with contextlib.suppress(grpc.RpcError, errors.TfquiverError), rpc.channel(coordinator) as channel:
        stub: Any = coordinator_pb2_grpc.CoordinatorStub(channel)
        stub.ReportDispatcher(request, timeout=_CALL_S, metadata=rpc.metadata(own_token.of_user("")))
