"""A coordinator whose policy never returns, is never imported, prints all the time, or ends the process, as others
write them, starts, plans and is stopped like any other."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.support import other_package
from tests.support.cluster import Server, wait_until
from tests.support.node_calls import CALL_S
from tfquiver.cli.main import main
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
_NEVER_IMPORTED = """
import time
while True:
    time.sleep(1)
"""
_PRINTS = """
import os
from pathlib import Path
from tfquiver.service.coordinator.policies.views_and_plans.interface import Plan

print("their solver 1.0", flush=True)

class Theirs:
    def plan(self, view, now):
        print("x" * 100_000, flush=True)
        os.write(1, b"as libraries do" * 10_000)
        with Path(__file__).with_name("planned").open("a") as planned:
            planned.write("1")
        return Plan()
"""
_ENDS = """
import os

class Theirs:
    def plan(self, view, now):
        os._exit(3)
"""
STOPS_S = 10.0


@pytest.fixture
def packages(tmp_path: Path) -> Path:
    directory = tmp_path / "site"
    other_package.install(directory, "their_policy", _MODULE, "[tfquiver.policies]\nendless = their_policy:Theirs\n")
    never = "[tfquiver.policies]\nnever = never_imported:Theirs\n"
    other_package.install(directory, "never_imported", _NEVER_IMPORTED, never)
    other_package.install(directory, "prints", _PRINTS, "[tfquiver.policies]\nprints = prints:Theirs\n")
    other_package.install(directory, "ends", _ENDS, "[tfquiver.policies]\nends = ends:Theirs\n")
    return directory


def test_it_stops_in_time_and_another_takes_its_place(packages: Path, tmp_path: Path) -> None:
    arguments = ["--port=0", f"--work_dir={tmp_path / 'work'}"]
    env = {"PYTHONPATH": str(packages)}
    module = "tfquiver.service.coordinator.main"
    first = Server(module, [*arguments, "--policy=endless"], tmp_path / "first.log", env).start()
    asked = packages / "asked"
    for incarnation in "12":
        with rpc.channel(first.address) as channel:
            node = types_pb2.NodeInfo(node_id="node", quota_bytes=1 << 20)
            stub = coordinator_pb2_grpc.CoordinatorStub(channel)
            stub.Heartbeat(pb.HeartbeatRequest(node=node, incarnation=incarnation), timeout=CALL_S)
            wait_until(asked.exists, "the policy is asked")
            if incarnation == "2":
                assert stub.SetPolicy(pb.SetPolicyRequest(policy="none"), timeout=CALL_S).policy == "none"
        assert first.stop(STOPS_S) == 0, "its thread is left alone, and still there"
        if incarnation == "1":
            asked.unlink()
            first.start()
    second = Server(module, [*arguments, "--policy=endless"], tmp_path / "second.log", env).start()
    with rpc.channel(second.address) as channel:
        asked = coordinator_pb2_grpc.CoordinatorStub(channel).SetPolicy(pb.SetPolicyRequest(), timeout=CALL_S)
        assert asked.policy == "none", "what was chosen outlives it"
    assert second.stop(STOPS_S) == 0


def test_it_starts_though_its_policy_is_never_imported(
    packages: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["--port=0", f"--work_dir={tmp_path / 'work'}", "--policy=never"]
    env = {"PYTHONPATH": str(packages)}
    server = Server("tfquiver.service.coordinator.main", arguments, tmp_path / "log", env).start()
    said = "policy never is not made "
    assert main(["policy", "--service", server.address]) == 0
    assert capsys.readouterr().out.startswith(f"benefit ({said}")
    assert main(["status", "--json", "--service", server.address]) == 0
    problems = json.loads(capsys.readouterr().out)["problems"]
    assert any(problem.startswith(f"planning: {said}") for problem in problems)
    assert said in (tmp_path / "log").read_text()
    assert server.stop(STOPS_S) == 0


def test_what_its_policy_prints_is_in_its_log_and_holds_nobody_up(packages: Path, tmp_path: Path) -> None:
    """In front of the ready line it was taken for that; behind it a pipe that nobody reads was full."""
    arguments = ["--port=0", f"--work_dir={tmp_path / 'work'}", "--policy=prints"]
    log, planned = tmp_path / "log", packages / "planned"
    server = Server("tfquiver.service.coordinator.main", arguments, log, {"PYTHONPATH": str(packages)}).start()
    with rpc.channel(server.address) as channel:
        stub = coordinator_pb2_grpc.CoordinatorStub(channel)
        for times in (1, 2, 3):  # other room is planned for at once
            node = types_pb2.NodeInfo(node_id="node", quota_bytes=times << 20)
            stub.Heartbeat(pb.HeartbeatRequest(node=node, incarnation="1"), timeout=CALL_S)
            wait_until(lambda: planned.exists() and len(planned.read_text()) >= times, "it plans")  # noqa: B023
        assert not stub.SetPolicy(pb.SetPolicyRequest(), timeout=CALL_S).trouble
    assert server.stop(STOPS_S) == 0
    said = log.read_text()
    assert "their solver 1.0" in said
    assert said.count("x" * 100_000) == said.count("as libraries do" * 10_000) == len(planned.read_text())


def test_one_that_ends_the_process_time_and_again_is_asked_no_more(
    packages: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Else whatever starts the coordinator again does so for ever."""
    arguments = ["--port=0", f"--work_dir={tmp_path / 'work'}", "--policy=ends"]
    log = tmp_path / "log"
    server = Server("tfquiver.service.coordinator.main", arguments, log, {"PYTHONPATH": str(packages)})

    def starts(quota_bytes: int) -> None:
        server.start()
        with rpc.channel(server.address) as channel:
            node = types_pb2.NodeInfo(node_id="node", quota_bytes=quota_bytes)
            stub = coordinator_pb2_grpc.CoordinatorStub(channel)
            stub.Heartbeat(pb.HeartbeatRequest(node=node, incarnation="1"), timeout=CALL_S)

    for _ in range(3):
        starts(1 << 20)
        assert server.process.wait(20) == 3
        server.kill()  # what is left of it here
    starts(1 << 20)
    said = "policy 'ends' is asked no more: 3 times in a row the coordinator ended while it was: benefit decides"
    assert main(["policy", "--service", server.address]) == 0
    assert capsys.readouterr().out.startswith(f"benefit ({said}")
    assert said in log.read_text()
    wait_until(lambda: _plans(server) > 0, "the default plans")
    assert server.stop(STOPS_S) == 0
    server.start()
    assert main(["policy", "--service", server.address]) == 0
    assert capsys.readouterr().out.startswith(f"benefit ({said}"), "until somebody says otherwise"
    assert server.stop(STOPS_S) == 0


def _plans(server: Server) -> int:
    with rpc.channel(server.address) as channel:
        stub = coordinator_pb2_grpc.CoordinatorStub(channel)
        return int(stub.SetPolicy(pb.SetPolicyRequest(), timeout=CALL_S).times.plans)
