"""Tells the coordinator which version this worker is, for `tfquiver doctor`: the dispatcher does not ask."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import grpc
from absl import logging

from tfquiver.grpc_plumbing import rpc
from tfquiver.grpc_plumbing.kept_channels import KeptChannels
from tfquiver.proto.tfquiver.v1 import coordinator_pb2, coordinator_pb2_grpc
from tfquiver.version import VERSION

INTERVAL_S = 10.0
_CALL_S = 2.0


async def go_on(coordinator: Callable[[], str], address: str, token: str) -> None:
    """Until it is cancelled. What fails is tried again at the next turn: an older coordinator may be upgraded.

    Args:
      coordinator: where it is now.
      address: of this worker, as its dispatcher knows it.
    """
    request = coordinator_pb2.ReportWorkerRequest(address=address, version=VERSION)
    with KeptChannels() as channels:
        while True:
            try:
                await asyncio.to_thread(_tell, channels, coordinator(), request, token)
            except Exception as error:  # noqa: BLE001 - whatever it was: nothing else tells it
                said: Any = error.details() if isinstance(error, grpc.Call) else error
                logging.log_first_n(logging.INFO, "the coordinator is not told this version: %s", 1, said)
            await asyncio.sleep(INTERVAL_S)


def _tell(channels: KeptChannels, coordinator: str, request: coordinator_pb2.ReportWorkerRequest, token: str) -> None:
    """A thousand workers that connect anew each time would be a hundred connections a second. Raises grpc.RpcError."""
    channels.keep_only([coordinator])
    with channels.channel(coordinator) as channel:
        stub = coordinator_pb2_grpc.CoordinatorStub(channel)
        stub.ReportWorker(request, timeout=_CALL_S, metadata=tuple(rpc.metadata(token)))
