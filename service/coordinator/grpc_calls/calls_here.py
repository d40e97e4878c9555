"""Calls of the node that this coordinator is in: served as what comes over its socket is, and not sent over it.

A lease sent takes 0.3 ms of a processor, most of it gRPC's (docs/decisions/0068), and one processor is what a trainer
and its node have to share on a small machine.
"""

from __future__ import annotations

import asyncio
import contextvars
from typing import Any, TypeVar

import grpc
from google.protobuf.message import Message

from tfquiver import errors
from tfquiver.grpc_plumbing import rpc
from tfquiver.proto.tfquiver.v1 import coordinator_pb2 as pb2
from tfquiver.service.coordinator.grpc_calls.streamed_calls import CONTEXT, Aborted, Method

R = TypeVar("R", bound=Message)


class CallsHere:
    """Those that readers make all the time, on the coordinator's loop. Each returns and raises what a call would.

    Requests and replies are copied, as if they had been sent: either side may change what it has.
    """

    def __init__(self, lease: Method, ack: Method) -> None:
        self._lease, self._ack = lease, ack
        self._tasks: set[asyncio.Task[Any]] = set()
        self._closed = False

    async def lease(self, request: pb2.LeaseRequest, timeout_s: float) -> pb2.LeaseReply:
        return await self._made(self._lease, request, pb2.LeaseReply, timeout_s)

    async def ack(self, request: pb2.AckRequest, timeout_s: float) -> pb2.AckReply:
        return await self._made(self._ack, request, pb2.AckReply, timeout_s)

    def close(self) -> None:
        """Calls that are under way, and those that are made from now on, raise CancelledError_: not to be repeated."""
        self._closed = True
        for task in self._tasks:
            task.cancel()

    async def _made(self, method: Method, request: Message, reply: type[R], timeout_s: float) -> R:
        """Raises grpc.RpcError, CancelledError_."""
        if self._closed:
            raise self._hung_up()
        copy = request.FromString(request.SerializeToString())
        # In a context of its own: who calls, and what log lines are about, is nobody's here.
        task = asyncio.get_running_loop().create_task(_served(method, copy), context=contextvars.Context())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        try:
            async with asyncio.timeout(timeout_s):
                made = await task
        except TimeoutError as error:
            raise rpc.failed(grpc.StatusCode.DEADLINE_EXCEEDED, f"no answer within {timeout_s:g} s") from error
        except Aborted as refused:
            raise rpc.failed(refused.code, refused.details) from refused
        except asyncio.CancelledError as error:
            if self._closed and not _is_cancelled():
                raise self._hung_up() from error
            raise
        return reply.FromString(made.SerializeToString())

    @staticmethod
    def _hung_up() -> errors.CancelledError_:
        return errors.CancelledError_("this node has hung up on the coordinator in it")


async def _served(method: Method, request: Message) -> Message:
    reply: Message = await method(request, CONTEXT)
    return reply


def _is_cancelled() -> bool:
    """Whether it is who called that is to end."""
    caller = asyncio.current_task()
    return caller is not None and caller.cancelling() > 0
