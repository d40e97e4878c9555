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
    assert names(third) == ["a", "b", "c"]
    again = told(heartbeats, "a", first.members_version)
    assert names(again) == ["a", "b", "c"] and not again.resend_inventory
    assert names(first) == ["a", "b"], "what was told is not changed"
