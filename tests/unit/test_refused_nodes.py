"""A node that was killed is told as such: no firewall stands between it and who asks."""

from __future__ import annotations

import pytest

from tfquiver import errors
from tfquiver.cli.doctor import cluster
from tfquiver.cli.doctor.finding import Verdict
from tfquiver.proto.tfquiver.v1 import types_pb2
from tfquiver.server_reachability import unreached

NODES = [types_pb2.NodeInfo(node_id="n-01234567", control_address="h:1")]


@pytest.mark.parametrize(
    ("details", "is_refused"),
    [
        ("failed to connect to all addresses; last error: UNKNOWN: ipv4:127.0.0.1:1: Failed to connect to remote host: "
         "connect: Connection refused (111)", True),
        ("failed to connect to all addresses; last error: UNKNOWN: ipv4:10.0.0.1:1: connection attempt timed out "
         "before receiving SETTINGS frame", False),
        ("", False),
    ],
)  # fmt: skip
def test_who_is_refused_is_told_from_who_is_silent(details: str, is_refused: bool) -> None:
    assert unreached.refused(details) is is_refused


def test_advice_on_ports_is_for_those_that_are_silent() -> None:
    killed = errors.UnavailableError(f"node 01234567 at h:1 does not answer: {unreached.REFUSED}; it was stopped")
    silent = errors.UnavailableError("node 01234567 at h:1 does not answer within 1 s")
    (found,) = cluster._answers(NODES, [killed], (0.0, 1.0))
    assert found.verdict is Verdict.FAIL and "ports" not in found.do and "logs" in found.do
    for answers in ([silent], [killed, silent]):
        found, *_ = cluster._answers(NODES * len(answers), answers, (0.0, 1.0))
        assert found.verdict is Verdict.FAIL and "open their control ports" in found.do
