"""What `tfquiver doctor` says of a cluster in which no node keeps anything."""

from __future__ import annotations

from tfquiver.cli.doctor import cluster
from tfquiver.cli.doctor.finding import Verdict
from tfquiver.proto.tfquiver.v1.coordinator_pb2 import ListNodesReply


def test_nodes_that_have_yet_to_come_back_are_no_fault() -> None:
    [found] = cluster._nodes(ListNodesReply(up_ms=3_100), "")
    assert found.verdict is Verdict.WARN
    assert found.why == "none has come back yet: the coordinator started 3 s ago"


def test_later_they_are_missing() -> None:
    for up_ms in (600_000, 0):
        [found] = cluster._nodes(ListNodesReply(up_ms=up_ms), "")
        assert found.verdict is Verdict.FAIL
