"""What servers say of themselves to probes: the standard health service, and `tfquiver health`."""

from __future__ import annotations

import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

from tests.support import warm
from tests.support.cluster import Cluster, Server, wait_until
from tests.support.started_nodes import StartNode, nodes_started
from tfquiver.cli.main import main
from tfquiver.grpc_plumbing import health, rpc

COORDINATOR = "tfquiver.service.coordinator.main"
SERVING, NOT_SERVING = health_pb2.HealthCheckResponse.SERVING, health_pb2.HealthCheckResponse.NOT_SERVING


@pytest.fixture
def start(tmp_path: Path) -> Iterator[StartNode]:
    with nodes_started(tmp_path) as start:
        yield start


def check(address: str, service: str = "") -> int:
    """By the standard client, without a token."""
    with rpc.channel(address) as channel:
        request = health_pb2.HealthCheckRequest(service=service)
        return int(health_pb2_grpc.HealthStub(channel).Check(request, timeout=10, wait_for_ready=True).status)


def test_a_node_of_its_own_says_it_on_its_socket(start: StartNode, tmp_path: Path) -> None:
    node = start()
    assert check(node.ready["control"]) == SERVING
    assert check(node.ready["coordinator"]) == SERVING
    assert main(["health", str(tmp_path / "cache")]) == 0


def test_every_port_says_it_to_who_has_no_token(start: StartNode, tmp_path: Path) -> None:
    token = f"--auth_token_file={tmp_path / 'token'}"
    (tmp_path / "token").write_text("secret\n")
    coordinator = Server(
        COORDINATOR, ["--port=0", f"--work_dir={tmp_path / 'work'}", token], tmp_path / "c.log"
    ).start()
    try:
        node = start(f"--coordinator={coordinator.address}", token, "--port=0")
        for server in (coordinator, node):
            for service in ("", "ready", "live"):
                assert check(server.address, service) == SERVING
            with pytest.raises(grpc.RpcError) as refused:
                check(server.address, "nonsense")
            assert refused.value.code() is grpc.StatusCode.NOT_FOUND
        assert node.stop() == 0
    finally:
        coordinator.stop()


def test_a_node_whose_coordinator_is_away_is_live_and_not_ready(
    start: StartNode, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    coordinator = Server(COORDINATOR, ["--port=0", f"--work_dir={tmp_path / 'work'}"], tmp_path / "c.log").start()
    try:
        node = start(f"--coordinator={coordinator.address}", "--port=0")
        with rpc.channel(node.address) as channel:
            watched = health_pb2_grpc.HealthStub(channel).Watch(health_pb2.HealthCheckRequest(), timeout=60)
            assert next(watched).status == SERVING
            coordinator.kill()
            assert next(watched).status == NOT_SERVING, "told when it has not answered for a while"
            assert check(node.address, "live") == SERVING
            assert main(["health", node.address]) == 1
            assert "has not answered for" in capsys.readouterr().err
            assert main(["health", "--live", node.address]) == 0
            coordinator.restart()
            assert next(watched).status == SERVING
            watched.cancel()
    finally:
        coordinator.stop()


def test_watchers_are_bounded(start: StartNode) -> None:
    node = start("--port=0")
    with rpc.channel(node.address) as channel:
        stub = health_pb2_grpc.HealthStub(channel)
        request = health_pb2.HealthCheckRequest()
        watching = [stub.Watch(request, timeout=60) for _ in range(health._MOST_WATCHERS)]
        assert {next(one).status for one in watching} == {SERVING}
        with pytest.raises(grpc.RpcError) as refused:
            next(stub.Watch(request, timeout=60))
        assert refused.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
        assert check(node.address) == SERVING
        for one in watching:
            one.cancel()
        wait_until(lambda: _is_watched(stub), "room for a watcher again", 10)


def _is_watched(stub: health_pb2_grpc.HealthStub) -> bool:
    try:
        return bool(next(stub.Watch(health_pb2.HealthCheckRequest(), timeout=5)).status == SERVING)
    except grpc.RpcError:
        return False


def test_a_server_that_hangs_does_not_answer(start: StartNode, capsys: pytest.CaptureFixture[str]) -> None:
    node = start("--port=0")
    node.process.send_signal(signal.SIGSTOP)
    try:
        assert main(["health", node.address, "--live", "--timeout_s", "0.5"]) == 1
        assert "does not answer within 0.5 s" in capsys.readouterr().err
    finally:
        node.process.send_signal(signal.SIGCONT)


def test_tensorflows_servers_are_told_apart(tmp_path: Path) -> None:
    """As a probe does it: by a process of its own."""
    with Cluster(tmp_path, workers=1) as cluster:
        assert cluster.dispatcher is not None
        for name, server in (("dispatcher", cluster.dispatcher), ("worker", cluster.workers[0])):
            command = [sys.executable, "-m", "tfquiver", "health", server.address]
            done = warm.run(command, capture_output=True, text=True, timeout=60)
            assert (done.returncode, done.stderr) == (0, "")
            assert f"tf.data service {name} answers" in done.stdout


def test_nobody_is_there(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["health", "localhost:1", "--timeout_s", "0.5"]) == 1
    assert "does not answer within 0.5 s: nobody listens there (connection refused)" in capsys.readouterr().err
    assert main(["health", str(tmp_path)]) == 1
    assert "no node runs in" in capsys.readouterr().err
