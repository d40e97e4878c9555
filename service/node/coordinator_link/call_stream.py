"""The calls that this node makes all the time, over one stream to the coordinator: a message instead of a call each.

Where the coordinator knows no streams, and where they are large, they are made by themselves; what a call returns or
raises is the same. A stream that has ended has its calls end with what ended it, so that they are repeated as ever; the
next call opens another one.
"""

from __future__ import annotations

import asyncio
import itertools
from collections import deque
from collections.abc import Sequence
from typing import Any, TypeVar

import grpc
import grpc.aio
from google.protobuf.message import DecodeError, Message

from tfquiver import errors
from tfquiver.grpc_plumbing import bundles, rpc
from tfquiver.proto.tfquiver.v1 import coordinator_pb2 as pb

R = TypeVar("R", bound=Message)
_LARGE_BYTES = 256 << 10  # goes by itself: others need not wait for it
# A stream on which nothing comes for so long is left for another. Not sooner: a coordinator that gets too little of a
# processor takes one new call in a turn of its loop, and of a thousand nodes all would come with one. It is another
# stream on the same connection: that of a machine which says nothing more gRPC gives up after 15 to 20 s where there is
# another address (rpc.py), for the machine's own answers are enough, however late its calls are.
_SILENT_S = 30.0
_WITHOUT_S = 60.0  # before a coordinator that knew no streams is asked again
# By itself a call says what it comes to, where a stream that ended does not: it may have done so for another's call,
# and gRPC calls it internal, whatever the coordinator said, when that came while something was being sent.
_SAYS_NOTHING_OF_A_CALL = frozenset({grpc.StatusCode.PERMISSION_DENIED, grpc.StatusCode.INTERNAL})


class CallStream:
    """On one event loop. `close` it.

    Args:
      stub: of the coordinator.
    """

    def __init__(self, stub: Any, metadata: Sequence[tuple[str, str]]) -> None:
        self._stub, self._metadata = stub, metadata
        self._line: _Line | None = None
        self._without_until_s = 0.0
        self._closed = False

    async def heartbeat(self, request: pb.HeartbeatRequest, timeout_s: float) -> pb.HeartbeatReply:
        call = pb.NodeCall(heartbeat=request)
        return await self._made(call, self._stub.Heartbeat, request, pb.HeartbeatReply, timeout_s)

    async def orders(self, request: pb.OrdersRequest, timeout_s: float) -> pb.OrdersReply:
        return await self._made(pb.NodeCall(orders=request), self._stub.Orders, request, pb.OrdersReply, timeout_s)

    async def lease(self, request: pb.LeaseRequest, timeout_s: float) -> pb.LeaseReply:
        return await self._made(pb.NodeCall(lease=request), self._stub.Lease, request, pb.LeaseReply, timeout_s)

    async def ack(self, request: pb.AckRequest, timeout_s: float) -> pb.AckReply:
        return await self._made(pb.NodeCall(ack=request), self._stub.Ack, request, pb.AckReply, timeout_s)

    def try_again(self) -> None:
        """The coordinator is another one now, and may know streams."""
        self._without_until_s = 0.0

    def close(self) -> None:
        """Calls that are under way, and those that are made from now on, raise CancelledError_: not to be repeated."""
        self._closed = True
        if self._line:
            self._line.end(grpc.StatusCode.CANCELLED, "this node hangs up")

    async def _made(self, call: pb.NodeCall, alone: Any, request: Any, reply: type[R], timeout_s: float) -> R:
        """Raises grpc.RpcError, CancelledError_."""
        loop = asyncio.get_running_loop()
        self._check_open()
        if loop.time() >= self._without_until_s and (size_bytes := call.ByteSize()) <= _LARGE_BYTES:
            if self._line is None or self._line.ended:
                self._line = _Line(self._stub.NodeCalls(metadata=self._metadata))
            line = self._line
            answer = await line.call(call, size_bytes, timeout_s)
            if not answer.code:
                return _body(reply, answer)
            self._check_open()
            code = rpc.code_of(answer.code)
            if line.ended and code is grpc.StatusCode.UNIMPLEMENTED:
                self._without_until_s = loop.time() + _WITHOUT_S
            if code is not grpc.StatusCode.UNIMPLEMENTED and (answer.number or code not in _SAYS_NOTHING_OF_A_CALL):
                raise rpc.failed(code, answer.details)
        made: R = await alone(request, timeout=timeout_s, metadata=self._metadata)
        return made

    def _check_open(self) -> None:
        if self._closed:
            raise errors.CancelledError_("this node has hung up on the coordinator")


class _Line:
    """One stream, from the first call to whatever ends it."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream
        self._numbers = itertools.count(1)
        self._waiting: dict[int, asyncio.Future[pb.NodeCallReply]] = {}
        self._calls: deque[tuple[pb.NodeCall, int]] = deque()
        self._given_up: deque[tuple[int, int]] = deque()
        self._sent = 0  # the last number
        self._more = asyncio.Event()
        self.ended = False
        loop = asyncio.get_running_loop()
        self._heard_s = loop.time()
        self._tasks = loop.create_task(self._read()), loop.create_task(self._write())

    async def call(self, call: pb.NodeCall, size_bytes: int, timeout_s: float) -> pb.NodeCallReply:
        """A reply with a code where it failed, whatever failed; with no number where it is none to this call."""
        loop = asyncio.get_running_loop()
        number = call.number = next(self._numbers)
        reply: asyncio.Future[pb.NodeCallReply] = loop.create_future()
        self._waiting[number] = reply
        self._calls.append((call, size_bytes))
        self._more.set()
        asked_s = loop.time()
        try:
            async with asyncio.timeout(timeout_s):
                return await reply
        except TimeoutError:
            late = f"no answer within {timeout_s:g} s"
            if self._heard_s < asked_s and loop.time() >= self._heard_s + _SILENT_S:  # nor to anything else
                self.end(grpc.StatusCode.UNAVAILABLE, late)
            return _failed(grpc.StatusCode.DEADLINE_EXCEEDED, late)
        finally:
            # Whoever made the call has gone. What is not sent yet is left out then (`_write`).
            if self._waiting.pop(number, None) and number <= self._sent:
                self._given_up.append((number, 0))
                self._more.set()

    def end(self, code: grpc.StatusCode, details: str) -> None:
        if self.ended:
            return
        self.ended = True
        waiting, self._waiting = self._waiting, {}
        for reply in waiting.values():
            if not reply.done():
                reply.set_result(_failed(code, details))
        self._stream.cancel()
        for task in self._tasks:
            task.cancel()

    async def _read(self) -> None:
        code, details = grpc.StatusCode.UNAVAILABLE, "the coordinator has ended the stream of calls"
        loop = asyncio.get_running_loop()
        try:
            while (message := await self._stream.read()) is not grpc.aio.EOF:
                self._heard_s = loop.time()
                for reply in message.replies:
                    waiting = self._waiting.pop(reply.number, None)
                    if waiting and not waiting.done():
                        waiting.set_result(reply)
        except grpc.RpcError as error:
            code, details = error.code(), error.details() or code.name
        finally:
            self.end(code, details)

    async def _write(self) -> None:
        """What is asked for in one turn of the loop goes together, and so does what comes while that is sent."""
        try:
            while True:
                await self._more.wait()
                self._more.clear()
                while self._calls or self._given_up:
                    given_up = bundles.some(self._given_up) if self._given_up else []
                    calls = bundles.some(self._calls) if self._calls else []
                    self._sent = calls[-1].number if calls else self._sent
                    calls = [call for call in calls if call.number in self._waiting]
                    if calls or given_up:
                        await self._stream.write(pb.NodeCallsRequest(calls=calls, given_up=given_up))
        except (grpc.RpcError, asyncio.InvalidStateError):
            pass  # the stream has ended: who reads from it learns why


def _body(reply: type[R], answer: pb.NodeCallReply) -> R:
    try:
        return reply.FromString(answer.reply)
    except DecodeError as error:
        raise rpc.failed(grpc.StatusCode.INTERNAL, f"the reply is no {reply.__name__}: {error}") from error


def _failed(code: grpc.StatusCode, details: str) -> pb.NodeCallReply:
    return pb.NodeCallReply(code=code.value[0], details=details)
