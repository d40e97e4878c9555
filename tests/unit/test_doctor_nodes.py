"""What `tfquiver doctor` says of a cluster in which no node keeps anything."""

from __future__ import annotations

from tfquiver.cli.doctor import cluster
from tfquiver.cli.doctor.finding import Verdict
from tfquiver.proto.tfquiver.v1 import types_pb2
from tfquiver.proto.tfquiver.v1.coordinator_pb2 import ListNodesReply, LostNode


def test_nodes_that_have_yet_to_come_back_are_no_fault() -> None:
    [found] = cluster._nodes(ListNodesReply(up_ms=3_100), "")
    assert found.verdict is Verdict.WARN
    assert found.why == "none has come back yet: the coordinator started 3 s ago"


def test_a_lost_node_is_told_with_its_address() -> None:
    """Whom to start again stands in no table: the id alone says nothing."""
    lost = LostNode(node=types_pb2.NodeInfo(node_id="node-0123456789abcdef", control_address="host-b:4040"))
    found, *_ = cluster._nodes(ListNodesReply(lost=[lost], up_ms=1), "")
    assert (found.verdict, found.why) == (Verdict.WARN, "1: 01234567 at host-b:4040")
    assert "with the flags that they had" in found.do and "gone for good: `tfquiver forget NODE ...`" in found.do


def test_a_spot_node_that_is_gone_is_nothing_to_look_after() -> None:
    gone = LostNode(node=types_pb2.NodeInfo(node_id="node-0123456789abcdef", labels={"lifecycle": "spot"}))
    found, *_ = cluster._nodes(ListNodesReply(lost=[gone], up_ms=1), "")
    assert (found.verdict, found.what) == (Verdict.OK, "spot nodes")
    assert found.why == "1 is gone, as they may be, in the last hour"


def test_a_log_that_cannot_be_written_is_a_fault() -> None:
    told = ListNodesReply(up_ms=600_000, log_trouble="/disk/commit.log: No space left on device")
    [found] = cluster._log("coordinator c:1", told)
    assert (found.verdict, found.why) == (Verdict.FAIL, told.log_trouble)
    assert list(cluster._log("coordinator c:1", ListNodesReply(up_ms=600_000))) == []


def test_a_policy_that_does_not_decide_is_told() -> None:
    told = ListNodesReply(up_ms=600_000, policy_trouble="policy theirs is not made within 10 s")
    [found] = cluster._log("coordinator c:1", told)
    assert (found.verdict, found.why) == (Verdict.WARN, told.policy_trouble)


def test_later_they_are_missing() -> None:
    for up_ms in (600_000, 0):
        [found] = cluster._nodes(ListNodesReply(up_ms=up_ms), "")
        assert found.verdict is Verdict.FAIL
