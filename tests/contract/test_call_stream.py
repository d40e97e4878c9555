"""A node's calls over one stream: what they return, raise and give up is what they do by themselves."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import grpc
import pytest

from tests.support.aio import on_loop
from tfquiver import errors
from tfquiver.grpc_plumbing import rpc
from tfquiver.grpc_plumbing.rpc import handled
from tfquiver.proto.tfquiver.v1 import coordinator_pb2 as pb
from tfquiver.proto.tfquiver.v1 import coordinator_pb2_grpc
from tfquiver.roles_and_tokens.identity import Identity, Open, Role, wrong_token
from tfquiver.roles_and_tokens.tokens import hash_of
from tfquiver.service.coordinator.grpc_calls import streamed_calls
from tfquiver.service.coordinator.grpc_calls.streamed_calls import StreamedCalls
from tfquiver.service.node.coordinator_link import call_stream
from tfquiver.service.node.coordinator_link.call_stream import CallStream

SOON_S, LONG_S = 0.05, 20.0


class Tokens:
    named = True

    def __init__(self) -> None:
        self.known = {"node": Identity(Role.NODE, "n"), "job": Identity(Role.JOB, "j")}

    async def identify(self, token: str) -> Identity:
        if token not in self.known:
            raise wrong_token(token)
        return self.known[token]

    def by_hash(self, hash: bytes) -> Identity | None:
        return next((who for token, who in self.known.items() if hash_of(token) == hash), None)


class Coordinator(coordinator_pb2_grpc.CoordinatorServicer):
    """Acks are answered at once, leases when `free` is set; what is called by itself is noted."""

    def __init__(self, tokens: Tokens | None = None) -> None:
        methods = {"Heartbeat": self.Heartbeat, "Orders": self.Orders, "Lease": self.Lease, "Ack": self.Ack}
        self.streamed = StreamedCalls(methods, tokens)
        self.streams, self.callers = 0, list[Identity]()
        self.free, self.waits, self.given_up = asyncio.Event(), asyncio.Event(), asyncio.Event()
        self.alone = list[str]()
        self.orders_bytes = 0

    def _note(self, context: Any) -> None:
        if hasattr(context, "invocation_metadata"):
            self.alone.append("a call by itself")

    async def NodeCalls(self, request_iterator: Any, context: Any) -> None:  # type: ignore[override]
        self.streams += 1
        await self.streamed.serve(context)

    @handled
    async def Lease(self, request: pb.LeaseRequest, context: Any) -> pb.LeaseReply:
        self.waits.set()
        try:
            await self.free.wait()
        except asyncio.CancelledError:
            self.given_up.set()
            raise
        return pb.LeaseReply(state=pb.LeaseReply.STATE_WAIT, ack_within_ms=request.wait_ms)

    @handled
    async def Ack(self, request: pb.AckRequest, context: Any) -> pb.AckReply:
        self._note(context)
        self.callers.append(rpc.caller())
        if request.session_id == "none":
            raise errors.NotFoundError("no session 'none'")
        return pb.AckReply(ack_within_ms=len(request.shards))

    @handled
    async def Orders(self, request: pb.OrdersRequest, context: Any) -> pb.OrdersReply:
        self._note(context)
        reply = pb.OrdersReply(version=7)
        reply.orders.add(digest_id=bytes(self.orders_bytes))
        return reply


@asynccontextmanager
async def calls_of(
    tmp_path: Path, servicer: Coordinator, tokens: Tokens | None = None, token: str = ""
) -> AsyncIterator[CallStream]:
    server = rpc.new_server(tokens or Open())
    coordinator_pb2_grpc.add_CoordinatorServicer_to_server(servicer, server)
    rpc.listen(server, f"unix:{tmp_path}/socket")
    await server.start()
    channel = rpc.aio_channel(f"unix:{tmp_path}/socket")
    calls = CallStream(coordinator_pb2_grpc.CoordinatorStub(channel), rpc.metadata(token))
    try:
        async with asyncio.timeout(30):
            yield calls
    finally:
        calls.close()
        await channel.close()
        await server.stop(None)


async def ends_with(code: grpc.StatusCode, call: Any) -> str:
    with pytest.raises(grpc.RpcError) as raised:
        await call
    assert raised.value.code() is code
    return str(raised.value.details())


def ack(shards: Sequence[int] = (), session_id: str = "s") -> pb.AckRequest:
    return pb.AckRequest(session_id=session_id, shards=shards)


@on_loop
async def test_what_waits_holds_up_nothing_else_and_all_goes_over_one_stream(tmp_path: Path) -> None:
    coordinator = Coordinator()
    async with calls_of(tmp_path, coordinator) as calls:
        lease = asyncio.create_task(calls.lease(pb.LeaseRequest(wait_ms=9), LONG_S))
        await coordinator.waits.wait()
        replies = await asyncio.gather(*(calls.ack(ack(range(count)), LONG_S) for count in range(5)))
        assert [reply.ack_within_ms for reply in replies] == [0, 1, 2, 3, 4]
        assert (await calls.orders(pb.OrdersRequest(), LONG_S)).version == 7
        assert not lease.done()
        coordinator.free.set()
        assert (await lease).ack_within_ms == 9
    assert (coordinator.streams, coordinator.alone) == (1, [])


@on_loop
async def test_a_call_that_fails_says_what_it_says_by_itself_and_ends_no_other(tmp_path: Path) -> None:
    coordinator = Coordinator()
    async with calls_of(tmp_path, coordinator) as calls:
        assert await ends_with(grpc.StatusCode.NOT_FOUND, calls.ack(ack(session_id="none"), LONG_S)) == (
            "no session 'none'"
        )
        assert (await calls.ack(ack([1]), LONG_S)).ack_within_ms == 1
    assert coordinator.streams == 1


@on_loop
async def test_what_nobody_waits_for_any_more_is_given_up(tmp_path: Path) -> None:
    coordinator = Coordinator()
    async with calls_of(tmp_path, coordinator) as calls:
        lease = asyncio.create_task(calls.lease(pb.LeaseRequest(), LONG_S))
        await coordinator.waits.wait()
        lease.cancel()
        await coordinator.given_up.wait()
        assert (await calls.ack(ack([1]), LONG_S)).ack_within_ms == 1
    assert coordinator.streams == 1


@on_loop
async def test_a_deadline_is_one(tmp_path: Path) -> None:
    coordinator = Coordinator()
    async with calls_of(tmp_path, coordinator) as calls:
        await calls.ack(ack(), LONG_S)
        late = asyncio.create_task(calls.lease(pb.LeaseRequest(), 0.3))
        await coordinator.waits.wait()
        await calls.ack(ack(), LONG_S)  # so the stream is not silent
        await ends_with(grpc.StatusCode.DEADLINE_EXCEEDED, late)
        await coordinator.given_up.wait()
        await calls.ack(ack(), LONG_S)
    assert coordinator.streams == 1


@on_loop
async def test_a_stream_on_which_nothing_comes_is_left_for_another(tmp_path: Path) -> None:
    coordinator = Coordinator()
    async with calls_of(tmp_path, coordinator) as calls:
        other = asyncio.create_task(calls.lease(pb.LeaseRequest(), LONG_S))
        await coordinator.waits.wait()
        await ends_with(grpc.StatusCode.DEADLINE_EXCEEDED, calls.lease(pb.LeaseRequest(), SOON_S))
        await ends_with(grpc.StatusCode.UNAVAILABLE, other)  # so that it is repeated
        await calls.ack(ack(), LONG_S)
    assert coordinator.streams == 2


@on_loop
async def test_a_coordinator_that_stops_answers_what_it_has_and_takes_no_more(tmp_path: Path) -> None:
    coordinator = Coordinator()
    async with calls_of(tmp_path, coordinator) as calls:
        lease = asyncio.create_task(calls.lease(pb.LeaseRequest(wait_ms=3), LONG_S))
        await coordinator.waits.wait()
        coordinator.streamed.release()
        coordinator.free.set()
        assert (await lease).ack_within_ms == 3
        ended = calls._line
        while ended and not ended.ended:
            await asyncio.sleep(0)
        await calls.ack(ack(), LONG_S)
    assert coordinator.streams == 2


@on_loop
async def test_calls_of_a_stream_that_is_lost_are_to_be_repeated(tmp_path: Path) -> None:
    coordinator = Coordinator()
    async with calls_of(tmp_path, coordinator) as calls:
        lease = asyncio.create_task(calls.lease(pb.LeaseRequest(), LONG_S))
        await coordinator.waits.wait()
        for stream in coordinator.streamed._streams:
            stream.close()
        await ends_with(grpc.StatusCode.UNAVAILABLE, lease)
        assert (await calls.ack(ack([1, 2]), LONG_S)).ack_within_ms == 2
    assert coordinator.streams == 2


@on_loop
async def test_nobody_is_there(tmp_path: Path) -> None:
    channel = rpc.aio_channel(f"unix:{tmp_path}/nobody")
    calls = CallStream(coordinator_pb2_grpc.CoordinatorStub(channel), ())
    async with asyncio.timeout(30):
        await ends_with(grpc.StatusCode.UNAVAILABLE, calls.ack(ack(), LONG_S))
    calls.close()
    await channel.close()


class Older(Coordinator):
    async def NodeCalls(self, request_iterator: Any, context: Any) -> None:  # type: ignore[override]
        self.streams += 1
        await context.abort(grpc.StatusCode.UNIMPLEMENTED, "tfquiver 0.1, which answers here, has no call NodeCalls")


@on_loop
async def test_an_older_coordinator_is_called_as_ever_and_a_new_one_asked_again(tmp_path: Path) -> None:
    coordinator = Older()
    async with calls_of(tmp_path, coordinator) as calls:
        replies = await asyncio.gather(*(calls.ack(ack(range(count)), LONG_S) for count in range(3)))
        assert [reply.ack_within_ms for reply in replies] == [0, 1, 2]
        assert (await calls.ack(ack([1]), LONG_S)).ack_within_ms == 1
        assert (coordinator.streams, len(coordinator.alone)) == (1, 4)
        calls.try_again()
        await calls.ack(ack(), LONG_S)
        assert (coordinator.streams, len(coordinator.alone)) == (2, 5)


@on_loop
async def test_what_is_large_goes_by_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(call_stream, "_LARGE_BYTES", 1000)
    coordinator = Coordinator()
    async with calls_of(tmp_path, coordinator) as calls:
        assert (await calls.ack(ack(range(10_000)), LONG_S)).ack_within_ms == 10_000
        assert (coordinator.streams, len(coordinator.alone)) == (0, 1)
        coordinator.orders_bytes = 2 << 20
        reply = await calls.orders(pb.OrdersRequest(), LONG_S)
        assert len(reply.orders[0].digest_id) == 2 << 20
        assert (coordinator.streams, len(coordinator.alone)) == (1, 2)
        coordinator.orders_bytes = 1
        await calls.orders(pb.OrdersRequest(), LONG_S)
        assert (coordinator.streams, len(coordinator.alone)) == (1, 2)


@on_loop
async def test_each_message_needs_the_token_that_its_calls_need(tmp_path: Path) -> None:
    tokens = Tokens()
    coordinator = Coordinator(tokens)
    async with calls_of(tmp_path, coordinator, tokens, "node") as calls:
        await calls.ack(ack(), LONG_S)
        assert coordinator.callers == [Identity(Role.NODE, "n")]
        waiting = asyncio.create_task(calls.lease(pb.LeaseRequest(), LONG_S))
        await coordinator.waits.wait()
        tokens.known["node"] = Identity(Role.JOB, "j")
        for refused in (calls.ack(ack(), LONG_S), waiting, calls.ack(ack(), LONG_S)):
            name = "Lease" if refused is waiting else "Ack"
            assert f"{name} is not for job j" in await ends_with(grpc.StatusCode.PERMISSION_DENIED, refused)
        del tokens.known["node"]
        await ends_with(grpc.StatusCode.UNAUTHENTICATED, calls.ack(ack(), LONG_S))
        assert (len(coordinator.callers), coordinator.alone) == (1, [])


# What no node of ours sends.


@asynccontextmanager
async def raw(tmp_path: Path, coordinator: Coordinator) -> AsyncIterator[Any]:
    async with calls_of(tmp_path, coordinator) as calls:
        yield calls._stub.NodeCalls()


@on_loop
async def test_a_call_of_a_version_to_come_is_to_be_made_by_itself(tmp_path: Path) -> None:
    async with raw(tmp_path, Coordinator()) as stream:
        await stream.write(pb.NodeCallsRequest(calls=[pb.NodeCall(number=1), pb.NodeCall(number=2, ack=ack([5]))]))
        replies = {reply.number: reply for _ in range(1) for reply in (await stream.read()).replies}
        while len(replies) < 2:
            replies |= {reply.number: reply for reply in (await stream.read()).replies}
        assert rpc.code_of(replies[1].code) is grpc.StatusCode.UNIMPLEMENTED
        assert pb.AckReply.FromString(replies[2].reply).ack_within_ms == 1


@on_loop
async def test_two_calls_of_one_number_end_the_stream(tmp_path: Path) -> None:
    coordinator = Coordinator()
    async with raw(tmp_path, coordinator) as stream:
        twice = pb.NodeCall(number=3, lease=pb.LeaseRequest())
        await stream.write(pb.NodeCallsRequest(calls=[twice, twice]))
        assert await ends_with(grpc.StatusCode.INVALID_ARGUMENT, stream.read()) == (
            "calls.number: 3 is under way already"
        )


@on_loop
async def test_of_too_many_under_way_more_are_refused_for_now(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streamed_calls, "MOST_UNDER_WAY", 2)
    coordinator = Coordinator()
    async with calls_of(tmp_path, coordinator) as calls:
        leases = [asyncio.create_task(calls.lease(pb.LeaseRequest(), LONG_S)) for _ in range(2)]
        await coordinator.waits.wait()
        assert "under way" in await ends_with(grpc.StatusCode.UNAVAILABLE, calls.ack(ack(), LONG_S))
        coordinator.free.set()
        await asyncio.gather(*leases)
        await calls.ack(ack(), LONG_S)
    assert coordinator.streams == 1


@on_loop
async def test_who_takes_no_replies_has_no_more_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streamed_calls, "MOST_UNDER_WAY", 4)
    coordinator = Coordinator()
    coordinator.orders_bytes = 900_000  # of which connections and flow control take a few

    async def ask(stream: Any) -> None:
        for number in range(1, 1000):
            await stream.write(pb.NodeCallsRequest(calls=[pb.NodeCall(number=number, orders=pb.OrdersRequest())]))

    async with raw(tmp_path, coordinator) as stream:
        asking = asyncio.create_task(ask(stream))
        while not (streams := list(coordinator.streamed._streams)) or len(streams[0]._replies) < 4:
            await asyncio.sleep(0)
        await asyncio.wait([asking], timeout=0.5)
        assert len(streams[0]._replies) <= 5
        assert len(streams[0]._running) <= 5
        stream.cancel()
        await asyncio.wait([asking])
        while coordinator.streamed._streams:
            await asyncio.sleep(0)
