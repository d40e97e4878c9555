"""Calls that come over a stream instead of one by one: each is served as the call that it is, in a task of its own."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, NoReturn

import grpc
import grpc.aio

from tfquiver import errors
from tfquiver.grpc_plumbing import bundles, rpc
from tfquiver.proto.tfquiver.v1 import coordinator_pb2 as pb2
from tfquiver.roles_and_tokens.identity import check_call
from tfquiver.service.coordinator.grpc_calls.answered_together import AnsweredTogether
from tfquiver.service.coordinator.grpc_calls.callers import Tokens
from tfquiver.service.coordinator.grpc_calls.shared_replies import SharedReplies

MOST_UNDER_WAY = 4096
MOST_WAITING_BYTES = 16 << 20  # of replies that are not taken
_MOST_REPLY_BYTES = bundles.MOST_BYTES  # a larger one goes by itself, and holds up no others
_SERVICE = "/tfquiver.v1.Coordinator"

Method = Callable[[Any, Any], Awaitable[Any]]
Heard = Callable[[str, str], None]


def _to_nobody(node_id: str, incarnation: str) -> None:
    """Nobody wants to know."""


class StreamedCalls:
    """Args:
    methods: how a call is served, by its name.
    tokens: None: nobody is asked for one.
    heard: told of whose node's process each message is, as soon as it is read: what it asks waits for its turn, and who
      asks may have given it up by then.
    """

    def __init__(self, methods: Mapping[str, Method], tokens: Tokens | None, heard: Heard = _to_nobody) -> None:
        self._methods, self._tokens = {name.lower(): (name, method) for name, method in methods.items()}, tokens
        self._shared, self._heard = SharedReplies(), heard
        self._streams: set[_Stream] = set()

    async def serve(self, context: Any) -> None:
        """Until the caller hangs up, or `release`."""
        stream = _Stream(self._methods, self._tokens, self._shared, self._heard, context)
        self._streams.add(stream)
        try:
            await stream.serve()
        except errors.TfquiverError as error:
            await context.abort(error.code, str(error))
        finally:
            self._streams.discard(stream)
            stream.close()

    def release(self) -> None:
        """Streams take no more calls, and end when those that they have are answered."""
        for stream in self._streams:
            stream.take_no_more()


class _Stream:
    def __init__(
        self,
        methods: Mapping[str, tuple[str, Method]],
        tokens: Tokens | None,
        shared: SharedReplies,
        heard: Heard,
        context: Any,
    ) -> None:
        self._methods, self._tokens, self._shared, self._context = methods, tokens, shared, context
        self._heard, self._whose = heard, ("", "")  # node and process, as its last heartbeat said
        self._token = rpc.token_of(context) if tokens else ""
        self._running: dict[int, asyncio.Task[None]] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._replies: deque[tuple[pb2.NodeCallReply, int]] = deque()
        self._replies_bytes = 0
        self._writing = False
        self._sent = asyncio.Event()
        loop = asyncio.get_running_loop()
        self._together = AnsweredTogether(self._send_soon, lambda wait_s, call: loop.call_later(wait_s, call).cancel)
        self._reading = loop.create_task(self._read())

    async def serve(self) -> None:
        await asyncio.wait([self._reading])
        if not self._reading.cancelled():
            self._reading.result()
        while self._tasks:
            await asyncio.wait(self._tasks)

    def take_no_more(self) -> None:
        self._reading.cancel()

    def close(self) -> None:
        self._together.close()
        self._writing = True  # nothing can be sent any more
        for task in (self._reading, *self._tasks):
            task.cancel()

    async def _read(self) -> None:
        loop = asyncio.get_running_loop()
        while (message := await self._context.read()) is not grpc.aio.EOF:
            if max(len(message.calls), len(message.given_up)) > MOST_UNDER_WAY:  # before there is a task for each
                raise errors.InvalidArgumentError(f"calls, given_up: more than {MOST_UNDER_WAY} in one message")
            if self._tokens and message.calls:
                who = await self._tokens.identify(self._token)
                for call in message.calls:
                    if kind := call.WhichOneof("call"):
                        check_call(who, f"{_SERVICE}/{self._methods[kind][0]}")
                rpc.set_caller(who)
            for call in message.calls:
                if call.HasField("heartbeat"):
                    self._whose = call.heartbeat.node.node_id, call.heartbeat.incarnation
            if message.calls and self._whose[0]:
                self._heard(*self._whose)
            if not self._has_room:
                await self._room()
            several = len(message.calls) > 1
            if several:
                self._together.asked([call.number for call in message.calls if call.WhichOneof("call") == "ack"])
            for call in message.calls:
                if call.number in self._running:
                    raise errors.InvalidArgumentError(f"calls.number: {call.number} is under way already")
                task = self._running[call.number] = loop.create_task(self._serve(call, several))
                self._tasks.add(task)
                task.add_done_callback(self._tasks.discard)
            for number in message.given_up:  # after the calls, which may be among them
                if given_up := self._running.pop(number, None):
                    given_up.cancel()
                    self._together.over(number)  # it may not have begun, and then says nothing itself
                    self._send_soon()

    @property
    def _has_room(self) -> bool:
        return len(self._replies) < MOST_UNDER_WAY and self._replies_bytes < MOST_WAITING_BYTES

    async def _room(self) -> None:
        """Who takes no replies has no more made."""
        while not self._has_room:
            self._sent.clear()
            await self._sent.wait()

    async def _serve(self, call: pb2.NodeCall, several: bool) -> None:
        """`several`: it came with others."""
        kind = call.WhichOneof("call")
        try:
            reply = await self._answer(call, kind)
        except asyncio.CancelledError:
            self._together.over(call.number)
            self._send_soon()
            raise
        self._together.over(call.number)
        if self._running.pop(call.number, None) is not None:  # else nobody waits for it any more
            size_bytes = _size_bytes(reply)
            self._replies.append((reply, size_bytes))
            self._replies_bytes += size_bytes
        if several and kind not in ("lease", "ack") and not self._together.waits:
            await asyncio.sleep(0)  # others that came with it may be answered in this turn of the loop
        if kind == "lease" or not self._together.waits:
            await self._send()

    async def _answer(self, call: pb2.NodeCall, kind: str | None) -> pb2.NodeCallReply:
        reply = pb2.NodeCallReply(number=call.number)
        if kind is None:
            _refuse(reply, grpc.StatusCode.UNIMPLEMENTED, "this coordinator does not know that call")
        elif len(self._running) > MOST_UNDER_WAY:
            _refuse(reply, grpc.StatusCode.UNAVAILABLE, f"{MOST_UNDER_WAY} calls of this stream are under way")
        else:
            if not self._has_room:
                await self._room()  # what came in one message with this may have filled it
            try:
                made = await self._methods[kind][1](getattr(call, kind), CONTEXT)
                if not self._has_room:
                    await self._room()  # many may have waited for the same thing: those that come later wait in turn
                body = self._shared.bytes_of(kind, made)
                if len(body) > _MOST_REPLY_BYTES:
                    _refuse(reply, grpc.StatusCode.UNIMPLEMENTED, "the reply is too large to come between others")
                else:
                    reply.reply = body
            except Aborted as refused:
                _refuse(reply, refused.code, refused.details)
        return reply

    def _send_soon(self) -> None:
        """What waited for what does not come."""
        if self._replies and not self._writing and not self._together.waits:
            task = asyncio.get_running_loop().create_task(self._send())
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _send(self) -> None:
        """All there is; or has whoever is sending now send it, too."""
        if self._writing:
            return
        self._writing = True
        try:
            while self._replies:
                together = bundles.some(self._replies)
                self._replies_bytes -= sum(map(_size_bytes, together))
                await self._context.write(pb2.NodeCallsReply(replies=together))
                self._sent.set()
        except Exception:  # noqa: BLE001 - gRPC has no one error for a caller that is gone
            self.close()  # and nothing has room any more
            return
        self._writing = False


class Aborted(Exception):
    def __init__(self, code: grpc.StatusCode, details: str) -> None:
        super().__init__(details)
        self.code, self.details = code, details


class _Context:
    """What of gRPC's context a unary call here may use."""

    async def abort(self, code: grpc.StatusCode, details: str) -> NoReturn:
        raise Aborted(code, details)


CONTEXT = _Context()


def _size_bytes(reply: pb2.NodeCallReply) -> int:
    return len(reply.reply) + len(reply.details)


def _refuse(reply: pb2.NodeCallReply, code: grpc.StatusCode, details: str) -> None:
    reply.code, reply.details = code.value[0], details
