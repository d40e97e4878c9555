"""A node's calls to the coordinator in its own process: what they return, raise and give up is what calls sent do."""

from __future__ import annotations

import asyncio

import grpc
import pytest

from tests.support.aio import on_loop
from tests.support.streamed_coordinator import Coordinator, ack, ends_with
from tfquiver import errors
from tfquiver.grpc_plumbing import rpc
from tfquiver.proto.tfquiver.v1 import coordinator_pb2 as pb
from tfquiver.proto.tfquiver.v1 import types_pb2
from tfquiver.roles_and_tokens.identity import EVERYBODY, Identity, Role
from tfquiver.service.coordinator.grpc_calls.calls_here import CallsHere
from tfquiver.service.node.coordinator_link.coordinator_calls import CoordinatorCalls

SOON_S, LONG_S = 0.05, 20.0


def calls_to(coordinator: Coordinator) -> CallsHere:
    return CallsHere(coordinator.Lease, coordinator.Ack)


@on_loop
async def test_what_waits_holds_up_nothing_else_and_nothing_is_sent() -> None:
    coordinator = Coordinator()
    calls = calls_to(coordinator)
    lease = asyncio.create_task(calls.lease(pb.LeaseRequest(wait_ms=9), LONG_S))
    await coordinator.waits.wait()
    replies = await asyncio.gather(*(calls.ack(ack(range(count)), LONG_S) for count in range(5)))
    assert [reply.ack_within_ms for reply in replies] == [0, 1, 2, 3, 4]
    assert not lease.done()
    coordinator.free.set()
    assert await lease == pb.LeaseReply(state=pb.LeaseReply.STATE_WAIT, ack_within_ms=9)
    assert (coordinator.streams, coordinator.alone) == (0, [])


@on_loop
async def test_errors_are_those_of_a_call() -> None:
    calls = calls_to(Coordinator())
    assert await ends_with(grpc.StatusCode.NOT_FOUND, calls.ack(ack(session_id="none"), LONG_S)) == "no session 'none'"
    await ends_with(grpc.StatusCode.PERMISSION_DENIED, calls.ack(ack(session_id="another's"), LONG_S))


@on_loop
async def test_a_deadline_is_one_and_what_nobody_waits_for_is_given_up() -> None:
    coordinator = Coordinator()
    calls = calls_to(coordinator)
    await ends_with(grpc.StatusCode.DEADLINE_EXCEEDED, calls.lease(pb.LeaseRequest(), SOON_S))
    assert coordinator.given_up.is_set()
    coordinator.given_up.clear()
    coordinator.waits.clear()
    lease = asyncio.create_task(calls.lease(pb.LeaseRequest(), LONG_S))
    await coordinator.waits.wait()
    lease.cancel()
    await asyncio.wait([lease])
    assert lease.cancelled()
    assert coordinator.given_up.is_set()


@on_loop
async def test_a_node_that_hangs_up_ends_them_for_good() -> None:
    coordinator = Coordinator()
    calls = calls_to(coordinator)
    lease = asyncio.create_task(calls.lease(pb.LeaseRequest(), LONG_S))
    await coordinator.waits.wait()
    calls.close()
    with pytest.raises(errors.CancelledError_):
        await lease
    with pytest.raises(errors.CancelledError_):
        await calls.ack(ack(), LONG_S)


@on_loop
async def test_they_are_nobodys_and_each_side_has_its_own_message() -> None:
    coordinator = Coordinator()
    calls = calls_to(coordinator)
    rpc.set_caller(Identity(Role.JOB, "whose call the node serves"))
    await calls.ack(ack(), LONG_S)
    assert coordinator.callers == [EVERYBODY]
    kept = pb.LeaseReply(state=pb.LeaseReply.STATE_WAIT)
    seen = list[pb.LeaseRequest]()

    async def lease(request: pb.LeaseRequest, _context: object) -> pb.LeaseReply:
        seen.append(request)
        return kept

    asked = pb.LeaseRequest(session_id="s")
    reply = await CallsHere(lease, coordinator.Ack).lease(asked, LONG_S)
    asked.session_id = reply.leases.add().owner = "changed"
    assert seen == [pb.LeaseRequest(session_id="s")]
    assert not kept.leases


@on_loop
async def test_a_node_asks_for_readers_here_and_not_at_the_address() -> None:
    coordinator = Coordinator()
    coordinator.free.set()
    link = CoordinatorCalls("unix:/nowhere/coordinator.sock", "", types_pb2.NodeInfo, 5.0)
    link.coordinator_is_here(calls_to(coordinator))
    try:
        assert (await link.lease(pb.LeaseRequest(wait_ms=3))).ack_within_ms == 3
        assert (await link.ack(ack([1, 2]))).ack_within_ms == 2
    finally:
        await link._channel.close()
