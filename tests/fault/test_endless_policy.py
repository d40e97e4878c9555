"""A coordinator whose policy never returns, as others write them, is stopped like any other."""

from __future__ import annotations

from pathlib import Path

import grpc
import pytest

from tests.support import other_package
from tests.support.cluster import Server, wait_until
from tests.support.node_calls import CALL_S
from tfquiver.grpc_plumbing import rpc
from tfquiver.proto.tfquiver.v1 import coordinator_pb2 as pb
from tfquiver.proto.tfquiver.v1 import coordinator_pb2_grpc, types_pb2

_MODULE = """
import time
from pathlib import Path

class Theirs:
    def plan(self, view, now):
        Path(__file__).with_name("asked").touch()
        while True:
            time.sleep(1)
"""
STOPS_S = 10.0


@pytest.fixture
def packages(tmp_path: Path) -> Path:
    directory = tmp_path / "site"
    other_package.install(directory, "their_policy", _MODULE, "[tfquiver.policies]\nendless = their_policy:Theirs\n")
    return directory


def test_it_stops_in_time_and_another_takes_its_place(packages: Path, tmp_path: Path) -> None:
    arguments = ["--port=0", f"--work_dir={tmp_path / 'work'}"]
    env = {"PYTHONPATH": str(packages)}
    module = "tfquiver.service.coordinator.main"
    first = Server(module, [*arguments, "--policy=endless"], tmp_path / "first.log", env).start()
    with rpc.channel(first.address) as channel:
        node = types_pb2.NodeInfo(node_id="node", quota_bytes=1 << 20)
        stub = coordinator_pb2_grpc.CoordinatorStub(channel)
        stub.Heartbeat(pb.HeartbeatRequest(node=node, incarnation="1"), timeout=CALL_S)
        wait_until((packages / "asked").exists, "the policy is asked")
        with pytest.raises(grpc.RpcError, match="policy endless has not answered"):
            stub.SetPolicy(pb.SetPolicyRequest(policy="none"), timeout=CALL_S)
    assert first.stop(STOPS_S) == 0
    second = Server(module, [*arguments, "--policy=none"], tmp_path / "second.log", env).start()
    second.stop()
