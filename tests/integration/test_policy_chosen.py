"""The last word on the policy holds, however the coordinator ends; what a person says of the store is shown."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.support.cluster import Server, wait_until
from tfquiver.cli.main import main
from tfquiver.cli.status_asked_watched_explained import status
from tfquiver.grpc_plumbing import rpc
from tfquiver.proto.tfquiver.v1 import coordinator_pb2 as pb
from tfquiver.proto.tfquiver.v1 import coordinator_pb2_grpc


def asked(server: Server, capsys: pytest.CaptureFixture[str], *chosen: str) -> str:
    capsys.readouterr()
    assert main(["policy", *chosen, "--service", server.address]) == 0
    return capsys.readouterr().out.strip()


def test_a_choice_outlives_a_coordinator_that_is_killed_and_gives_way_to_another_flag(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    flags = ["--port=0", f"--work_dir={tmp_path / 'work'}"]
    server = Server("tfquiver.service.coordinator.main", flags, tmp_path / "log").start()
    try:
        assert asked(server, capsys) == "benefit"
        assert asked(server, capsys, "none") == "none (chosen; --policy=benefit)"
        server.kill()
        server.restart()
        assert asked(server, capsys) == "none (chosen; --policy=benefit)"
        assert status.collect(server.address)["store"]["limit_bytes_per_s"] == 0
    finally:
        server.stop()
    more = ["--policy=silod_greedy", "--store_bytes_per_s=200MB"]
    server = Server("tfquiver.service.coordinator.main", [*flags, *more], tmp_path / "log").start()
    try:
        assert asked(server, capsys) == "silod_greedy"
        told = status.collect(server.address)["store"]
        assert told == {
            "bytes_per_s": 0, "s_per_byte": 0, "request_s_per_byte": 0, "most_bytes_per_s": 0,
            "limit_bytes_per_s": 200_000_000, "oldest_ms": 0,
        }  # fmt: skip
        assert main(["status", server.address]) == 0
        assert "store: --store_bytes_per_s: 200 MB/s" in capsys.readouterr().out
    finally:
        server.stop()


def test_it_tells_what_planning_takes(tmp_path: Path) -> None:
    """With default flags: nobody reads yet, a plan is made as soon as there is a node with room."""
    flags = ["--port=0", f"--work_dir={tmp_path / 'work'}"]
    server = Server("tfquiver.service.coordinator.main", flags, tmp_path / "log").start()
    try:
        with rpc.channel(server.address) as channel:
            stub: Any = coordinator_pb2_grpc.CoordinatorStub(channel)
            assert stub.SetPolicy(pb.SetPolicyRequest(), timeout=10.0).times == pb.PlanTimes()
            info = pb.HeartbeatRequest(incarnation="1")
            info.node.node_id, info.node.quota_bytes = "a", 1 << 30

            def times() -> pb.PlanTimes:
                stub.Heartbeat(info, timeout=10.0)
                told: pb.PlanTimes = stub.SetPolicy(pb.SetPolicyRequest(), timeout=10.0).times
                return told

            wait_until(lambda: times().plans > 0, "a plan")
            assert 0 < times().longest_policy_s < times().longest_s < 10
    finally:
        server.stop()
