"""A node's calls over one stream: what they return, raise and give up is what they do by themselves."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import grpc
import pytest

from tests.support.aio import on_loop
from tests.support.streamed_coordinator import Coordinator, Tokens, ack, calls_of, ends_with
from tfquiver import errors
from tfquiver.grpc_plumbing import bundles, rpc
from tfquiver.proto.tfquiver.v1 import coordinator_pb2 as pb
from tfquiver.proto.tfquiver.v1 import coordinator_pb2_grpc
from tfquiver.roles_and_tokens.identity import Identity, Role
from tfquiver.service.node.coordinator_link import call_stream
from tfquiver.service.node.coordinator_link.call_stream import CallStream

SOON_S, LONG_S = 0.05, 20.0


async def leasing(
    coordinator: Coordinator, calls: CallStream, wait_ms: int = 0, deadline_s: float = LONG_S
) -> asyncio.Task[pb.LeaseReply]:
    """A call that has come there, and waits."""
    lease = asyncio.create_task(calls.lease(pb.LeaseRequest(wait_ms=wait_ms), deadline_s))
    await coordinator.waits.wait()
    return lease


@on_loop
async def test_what_waits_holds_up_nothing_else_and_all_goes_over_one_stream(tmp_path: Path) -> None:
    coordinator = Coordinator()
    async with calls_of(tmp_path, coordinator) as calls:
        lease = await leasing(coordinator, calls, wait_ms=9)
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
        lease = await leasing(coordinator, calls)
        lease.cancel()
        await coordinator.given_up.wait()
        assert (await calls.ack(ack([1]), LONG_S)).ack_within_ms == 1
    assert coordinator.streams == 1


@on_loop
async def test_a_deadline_is_one(tmp_path: Path) -> None:
    coordinator = Coordinator()
    async with calls_of(tmp_path, coordinator) as calls:
        await calls.ack(ack(), LONG_S)
        late = await leasing(coordinator, calls, deadline_s=0.3)
        await calls.ack(ack(), LONG_S)  # so the stream is not silent
        await ends_with(grpc.StatusCode.DEADLINE_EXCEEDED, late)
        await coordinator.given_up.wait()
        await calls.ack(ack(), LONG_S)
    assert coordinator.streams == 1


@on_loop
async def test_a_stream_on_which_nothing_comes_is_left_for_another_after_a_while(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    coordinator = Coordinator()
    async with calls_of(tmp_path, coordinator) as calls:
        other = await leasing(coordinator, calls)
        await ends_with(grpc.StatusCode.DEADLINE_EXCEEDED, calls.lease(pb.LeaseRequest(), SOON_S))
        assert not other.done(), "a coordinator that is late reads what has been sent"
        monkeypatch.setattr(call_stream, "_SILENT_S", 0.0)
        await ends_with(grpc.StatusCode.DEADLINE_EXCEEDED, calls.lease(pb.LeaseRequest(), SOON_S))
        await ends_with(grpc.StatusCode.UNAVAILABLE, other)  # so that it is repeated
        await calls.ack(ack(), LONG_S)
    assert coordinator.streams == 2


@on_loop
async def test_a_coordinator_that_stops_answers_what_it_has_and_takes_no_more(tmp_path: Path) -> None:
    coordinator = Coordinator()
    async with calls_of(tmp_path, coordinator) as calls:
        lease = await leasing(coordinator, calls, wait_ms=3)
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
        lease = await leasing(coordinator, calls)
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


@pytest.mark.slow
@on_loop
async def test_a_stream_that_ends_while_something_is_sent_fails_no_call(tmp_path: Path) -> None:
    coordinator = Older()

    async def after_turns(count: int) -> pb.AckReply:
        for _ in range(count):
            await asyncio.sleep(0)
        return await calls.ack(ack(range(count)), LONG_S)

    async with calls_of(tmp_path, coordinator) as calls:
        for _ in range(15):
            replies = await asyncio.gather(*(after_turns(count) for count in range(0, 200, 4)))
            assert [reply.ack_within_ms for reply in replies] == list(range(0, 200, 4))
            calls.try_again()


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
        waiting = await leasing(coordinator, calls)
        tokens.known["node"] = Identity(Role.JOB, "j")
        for refused in (calls.ack(ack(), LONG_S), waiting, calls.ack(ack(), LONG_S)):
            name = "Lease" if refused is waiting else "Ack"
            assert f"{name} is not for job j" in await ends_with(grpc.StatusCode.PERMISSION_DENIED, refused)
        del tokens.known["node"]
        await ends_with(grpc.StatusCode.UNAUTHENTICATED, calls.ack(ack(), LONG_S))
        assert (len(coordinator.callers), coordinator.alone) == (1, [])


@on_loop
async def test_what_a_call_itself_refuses_is_not_asked_again(tmp_path: Path) -> None:
    coordinator = Coordinator()
    async with calls_of(tmp_path, coordinator) as calls:
        refused = await ends_with(grpc.StatusCode.PERMISSION_DENIED, calls.ack(ack(session_id="another's"), LONG_S))
        assert refused == "a session of somebody else"
    assert (coordinator.alone, len(coordinator.callers)) == ([], 1)


@on_loop
async def test_a_node_that_has_hung_up_repeats_nothing(tmp_path: Path) -> None:
    coordinator = Coordinator()
    async with calls_of(tmp_path, coordinator) as calls:
        lease = asyncio.create_task(rpc.retry(lambda: calls.lease(pb.LeaseRequest(), LONG_S), "coordinator", LONG_S))
        await coordinator.waits.wait()
    with pytest.raises(errors.CancelledError_, match="has hung up"):
        await lease
    with pytest.raises(errors.CancelledError_, match="has hung up"):
        await calls.ack(ack(), LONG_S)
    assert coordinator.streams == 1


class Listener(coordinator_pb2_grpc.CoordinatorServicer):
    """Answers nothing, and reads when it is told to."""

    def __init__(self) -> None:
        self.listens, self.messages = asyncio.Event(), list[pb.NodeCallsRequest]()

    async def NodeCalls(self, request_iterator: Any, context: Any) -> None:  # type: ignore[override]
        await self.listens.wait()
        while (message := await context.read()) is not grpc.aio.EOF:
            self.messages.append(message)

    @property
    def calls(self) -> list[pb.NodeCall]:
        return [call for message in self.messages for call in message.calls]

    @property
    def given_up(self) -> list[int]:
        return [number for message in self.messages for number in message.given_up]


@pytest.mark.slow
@on_loop
async def test_a_message_has_a_thousand_calls_at_most_and_a_thousand_that_are_given_up(tmp_path: Path) -> None:
    listener = Listener()
    listener.listens.set()
    async with calls_of(tmp_path, listener) as calls:
        leases = [asyncio.create_task(calls.lease(pb.LeaseRequest(), LONG_S)) for _ in range(3000)]
        while len(listener.calls) < 3000:
            await asyncio.sleep(0.01)
        for lease in leases:
            lease.cancel()
        while len(listener.given_up) < 3000:
            await asyncio.sleep(0.01)
    assert max(len(message.calls) for message in listener.messages) == bundles.MOST_TOGETHER
    assert max(len(message.given_up) for message in listener.messages) == bundles.MOST_TOGETHER
    assert sorted(listener.given_up) == [call.number for call in listener.calls]


@pytest.mark.slow
@on_loop
async def test_what_is_given_up_before_it_is_sent_is_not_sent(tmp_path: Path) -> None:
    listener = Listener()

    def lease(session_id: str) -> asyncio.Task[pb.LeaseReply]:
        return asyncio.create_task(calls.lease(pb.LeaseRequest(session_id=session_id), LONG_S))

    async with calls_of(tmp_path, listener) as calls:
        waiting = [lease("x" * 200_000) for _ in range(100)]  # more than connections and flow control take
        await asyncio.sleep(0)
        given_up = lease("given up")
        await asyncio.sleep(0)
        given_up.cancel()
        await asyncio.wait([given_up])
        waiting.append(lease("last"))
        listener.listens.set()
        while not (asked := [call.lease.session_id[:8] for call in listener.calls]) or asked[-1] != "last":
            await asyncio.sleep(0.01)
        assert (len(asked), "given up" in asked, listener.given_up) == (101, False, [])
    await asyncio.gather(*waiting, return_exceptions=True)


class Garbled(Coordinator):
    async def NodeCalls(self, request_iterator: Any, context: Any) -> None:  # type: ignore[override]
        number = (await context.read()).calls[0].number
        await context.write(pb.NodeCallsReply(replies=[pb.NodeCallReply(number=number, reply=b"\xff")]))
        await context.read()


@on_loop
async def test_a_reply_that_is_none_is_the_coordinators_fault(tmp_path: Path) -> None:
    async with calls_of(tmp_path, Garbled()) as calls:
        assert "no AckReply" in await ends_with(grpc.StatusCode.INTERNAL, calls.ack(ack(), LONG_S))
