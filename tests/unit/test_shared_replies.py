"""Replies that many are given: made bytes once for all of them, and anew when they are others."""

from __future__ import annotations

from tfquiver.proto.tfquiver.v1 import coordinator_pb2 as pb
from tfquiver.service.coordinator.grpc_calls.shared_replies import SharedReplies


def test_one_reply_is_the_same_bytes_for_all_and_another_is_its_own() -> None:
    shared, first = SharedReplies(), pb.HeartbeatReply(members_version=1)
    for number in range(1000):
        first.nodes.add(node_id=f"node-{number}")
    body = shared.bytes_of("heartbeat", first)
    assert pb.HeartbeatReply.FromString(body) == first
    assert shared.bytes_of("orders", pb.OrdersReply(version=5)) == pb.OrdersReply(version=5).SerializeToString()
    assert shared.bytes_of("heartbeat", first) is body
    shared.bytes_of("heartbeat", pb.HeartbeatReply(members_version=1))
    assert shared.bytes_of("heartbeat", first) is body, "who knows the nodes already is told little in between"
    equal = pb.HeartbeatReply.FromString(body)
    assert shared.bytes_of("heartbeat", equal) is not body
    assert shared.bytes_of("heartbeat", pb.HeartbeatReply(members_version=2)) != body
