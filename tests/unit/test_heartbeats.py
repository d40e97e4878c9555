"""What nodes are told of one another: made once for all of them."""

from __future__ import annotations

from tfquiver.clock import ManualClock
from tfquiver.proto.tfquiver.v1 import coordinator_pb2 as pb
from tfquiver.service.coordinator.nodes_mounts_dispatchers.heartbeats import Heartbeats
from tfquiver.service.coordinator.nodes_mounts_dispatchers.membership import Membership
from tfquiver.service.coordinator.resident_shards.residency import Residency


def told(heartbeats: Heartbeats, node_id: str, members_version: int = 0, full: bool = True) -> pb.HeartbeatReply:
    request = pb.HeartbeatRequest(incarnation="1", members_version=members_version)
    request.node.node_id, request.node.quota_bytes = node_id, 1
    request.inventory.full = full
    return heartbeats.take(request)


def names(reply: pb.HeartbeatReply) -> list[str]:
    return sorted(node.node_id for node in reply.nodes)


def test_all_nodes_are_given_one_list_until_somebody_joins() -> None:
    heartbeats = Heartbeats(
        Membership(ManualClock(), 10.0), Residency(), lambda *_: None, lambda *_: None, 2000, "coordinator"
    )
    told(heartbeats, "a")
    first = told(heartbeats, "b")
    assert names(first) == ["a", "b"]
    assert told(heartbeats, "a") is first
    known = told(heartbeats, "a", first.members_version)
    assert not known.nodes and known.members_version == first.members_version
    assert (known.heartbeat_interval_ms, known.coordinator_incarnation) == (2000, "coordinator")

    third = told(heartbeats, "c", first.members_version, full=False)
    assert third.resend_inventory, "it has not told what it holds"
    assert not third.nodes and third.members_version == first.members_version, "it asks again at once"
    assert names(told(heartbeats, "c", first.members_version)) == ["a", "b", "c"]
    again = told(heartbeats, "a", first.members_version)
    assert names(again) == ["a", "b", "c"] and not again.resend_inventory
    assert names(first) == ["a", "b"], "what was told is not changed"


def test_of_thousands_that_come_at_once_not_each_makes_a_list_of_all() -> None:
    """Of 5000 it took 32 s, and a gigabyte."""
    clock = ManualClock()
    heartbeats = Heartbeats(Membership(clock, 10.0), Residency(), lambda *_: None, lambda *_: None, 2000, "coordinator")
    come = [told(heartbeats, f"n{number:04}") for number in range(1000)]
    assert len({reply.members_version for reply in come}) < 110
    assert all(reply.nodes for reply in come), "each is told of others at once"
    last = come[-1].members_version
    assert not told(heartbeats, "n0000", last).nodes
    clock.advance(1.0)
    whole = told(heartbeats, "n0000", last)
    assert len(whole.nodes) == 1000
    assert told(heartbeats, "n0001", last) is whole

    clock.advance(10.0)
    assert len(told(heartbeats, "comes alone", 0).nodes) == 1001, "nobody waits for one after a while"


def test_of_those_that_have_to_tell_all_again_none_is_told_of_the_others_before() -> None:
    """After a restart of the coordinator they all have: a list for each of them alone cost as much as above."""
    heartbeats = Heartbeats(
        Membership(ManualClock(), 10.0), Residency(), lambda *_: None, lambda *_: None, 2000, "coordinator"
    )
    told(heartbeats, "a")
    again = told(heartbeats, "b", 7, full=False)
    assert (again.resend_inventory, again.members_version, len(again.nodes)) == (True, 7, 0)
