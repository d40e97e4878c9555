"""`tfquiver status` and `dataset list` against a real coordinator: nodes that hang, names that look like markup."""

from __future__ import annotations

import concurrent.futures
import json
import os
import pty
import select
import signal
import socket
import subprocess
import sys
import termios
import time
from contextlib import ExitStack
from pathlib import Path

import grpc
import pytest

import tfquiver
from tests.support import status_schema, warm
from tests.support.cluster import Cluster, wait_until
from tests.support.digests import numbered_digest
from tests.support.records import stream
from tfquiver.cli import calls
from tfquiver.cli.main import main
from tfquiver.cli.status_asked_watched_explained import status
from tfquiver.cli.status_tables_and_warnings import words
from tfquiver.cluster_address import running_nodes
from tfquiver.data_sources_found_and_registered.registration import Registrar
from tfquiver.proto.tfquiver.v1 import coordinator_pb2, coordinator_pb2_grpc, types_pb2

HANGING = 6


def test_nodes_that_hang_and_names_that_look_like_markup(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with Cluster(tmp_path / "cluster", workers=0) as cluster, ExitStack() as stack:
        address = cluster.coordinator.address
        numbered_digest(3, "set[/x]\x1b[31m").save(tmp_path / "one.tfqd")
        with Registrar(address, None, "", 20.0) as registrar:
            registrar.digest(tmp_path / "one.tfqd")
        channel = stack.enter_context(grpc.insecure_channel(address))
        stub = coordinator_pb2_grpc.CoordinatorStub(channel)
        for number in range(HANGING):
            mute = stack.enter_context(socket.create_server(("localhost", 0)))  # takes connections, says nothing
            info = types_pb2.NodeInfo(node_id=f"mute-{number}", control_address=f"localhost:{mute.getsockname()[1]}")
            stub.Heartbeat(coordinator_pb2.HeartbeatRequest(node=info, incarnation="1"), timeout=10)
        began = time.monotonic()
        told = status.collect(address)
        assert time.monotonic() - began < HANGING * calls.CONNECT_S / 2, "all were asked at once"
        status_schema.check(told)
        assert sorted("error" in node for node in told["nodes"]) == [False] + [True] * HANGING
        mute_at = f"at localhost:{mute.getsockname()[1]} does not answer within 1 s"
        assert any(mute_at in node.get("error", "") for node in told["nodes"]), "which machine it is, is said"
        assert {node["host"] for node in told["nodes"]} == {socket.gethostname()}
        for arguments in (
            ["status", address],
            ["status", "--service", address],
            ["dataset", "list", "--service", address],
        ):
            assert main(arguments) == 0
            assert "set[/x]\\x1b[31m" in capsys.readouterr().out


def test_a_node_that_was_killed_is_a_problem_until_it_is_back(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "train-0").write_bytes(stream([b"record"] * 1000))
    with Cluster(tmp_path / "cluster", workers=0) as cluster:
        assert cluster.node is not None
        address = cluster.coordinator.address
        assert main(["warm", f"{tmp_path}/train-0", "--service", str(cluster.cache_dir)]) == 0
        assert main(["status", address]) == 0
        shown = capsys.readouterr().out
        assert " 100% " in shown and "not in cached" not in shown

        def lost() -> list[str]:
            return [line for line in status.collect(cluster.coordinator.address)["problems"] if " is lost: " in line]

        assert lost() == []
        cluster.node.kill()
        assert main(["status", address]) == 0
        shown = capsys.readouterr().out
        assert " 0% " in shown and "not in cached, for only nodes that do not answer have it: 22.0 kB of train" in shown
        wait_until(lambda: bool(lost()), "it is given up, and said to be lost")
        (line,) = lost()
        assert line.startswith(f"node {words.short(cluster.node.ready['node_id'])} at localhost:{cluster.node.port} ")
        cluster.node.restart()
        wait_until(lambda: not lost(), "it is back")


def test_python_is_told_the_same(tmp_path: Path) -> None:
    with Cluster(tmp_path / "cluster", workers=0) as cluster:
        told = tfquiver.status(cluster.cache_dir, store_price=90.0)
        status_schema.check(told)
        asked = status.collect(cluster.coordinator.address)
        assert told.keys() == asked.keys() and told["coordinator"] == cluster.coordinator.address
        assert [node["node_id"] for node in told["nodes"]] == [node["node_id"] for node in asked["nodes"]]
        assert told["saved"]["money"] == 0.0 and asked["saved"]["money"] is None
        with pytest.raises(tfquiver.errors.InvalidArgumentError):
            tfquiver.status(cluster.cache_dir, sessions=0)


def test_an_older_coordinator_is_not_asked_in_vain() -> None:
    class Older(coordinator_pb2_grpc.CoordinatorServicer):
        def ListNodes(self, request: object, context: object) -> coordinator_pb2.ListNodesReply:
            return coordinator_pb2.ListNodesReply()

        def ListDatasets(self, request: object, context: object) -> coordinator_pb2.ListDatasetsReply:
            return coordinator_pb2.ListDatasetsReply()

        def ListSessions(self, request: object, context: object) -> coordinator_pb2.ListSessionsReply:
            return coordinator_pb2.ListSessionsReply()

    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        server = grpc.server(pool)
        coordinator_pb2_grpc.add_CoordinatorServicer_to_server(Older(), server)
        port = server.add_insecure_port("localhost:0")
        server.start()
        try:
            assert status.collect(f"localhost:{port}")["dispatchers"] == []
        finally:
            server.stop(None).wait()


def test_a_coordinator_that_is_not_there(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(calls, "CALL_S", 0.3)
    assert main(["status", "localhost:1"]) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("tfquiver: coordinator localhost:1 does not answer within 0.3 s: nobody listens there (conn")


def test_explain_finds_the_cluster_that_runs_here_and_does_not_choose_among_several(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("TFQUIVER_SERVICE", raising=False)
    here: list[Path] = []  # of all that run on this machine, those of this test
    monkeypatch.setattr(running_nodes, "directories", lambda: here)
    with Cluster(tmp_path / "a", workers=0) as one, Cluster(tmp_path / "b", workers=0) as other:
        for found, said in (
            ([], "no node of yours runs on this machine"),
            ([one.cache_dir], "'nobody': no job of that name"),
            ([one.cache_dir, other.cache_dir], f"? --service={one.cache_dir} (coordinator "),
        ):
            here[:] = found
            assert main(["explain", "nobody"]) == 1
            assert said in capsys.readouterr().err


def test_who_waits_for_a_coordinator_is_told_before_the_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["status", "localhost:1"]) == 1
    told, error = capsys.readouterr().err.splitlines()
    assert told.startswith("tfquiver: coordinator localhost:1: nobody listens there (connection refused); waiting for")
    assert "within 5 s: nobody listens there" in error and "TFQUIVER_SERVICE" in error


def test_a_server_of_another_kind(capsys: pytest.CaptureFixture[str]) -> None:
    """The dispatcher's port, for one: what gRPC says of it is an empty string."""
    server = grpc.server(concurrent.futures.ThreadPoolExecutor(1))
    port = server.add_insecure_port("localhost:0")
    server.start()
    try:
        assert main(["status", f"localhost:{port}"]) == 1
    finally:
        server.stop(None).wait()
    assert "what answers there is a server of another kind" in capsys.readouterr().err


def test_a_watched_cluster_in_a_terminal_until_a_key_is_pressed(tmp_path: Path) -> None:
    with Cluster(tmp_path / "cluster", workers=0) as cluster:
        command = [sys.executable, "-m", "tfquiver.cli.main", "status", cluster.coordinator.address, "--watch", "0.5"]
        terminal, theirs = pty.openpty()
        process = subprocess.Popen(
            command, stdin=theirs, stdout=theirs, stderr=theirs, env=os.environ | {"TERM": "xterm"}
        )
        os.close(theirs)
        try:
            seen = b""
            give_up_at = time.monotonic() + 60
            while seen.count(b"any key ends") < 2:
                assert select.select([terminal], [], [], max(give_up_at - time.monotonic(), 0))[0], seen
                seen += os.read(terminal, 65536)
            os.write(terminal, b"q")
            assert process.wait(30) == 0
        finally:
            process.kill()
            process.wait()
            os.close(terminal)
        assert words.short(str(cluster.node.ready["node_id"]) if cluster.node else "").encode() in seen


def test_a_terminal_is_as_it_was_when_the_watch_is_told_to_end() -> None:
    """By `kill`, `timeout`, a session manager: it was left without a cursor, and without what is typed."""
    command = [sys.executable, "-m", "tfquiver.cli.main", "status", "localhost:1", "--watch", "0.2"]
    terminal, theirs = pty.openpty()
    before = termios.tcgetattr(theirs)
    process = warm.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs, env=os.environ | {"TERM": "xterm"})
    try:
        seen, give_up_at = b"", time.monotonic() + 60
        while b"any key ends" not in seen:
            assert select.select([terminal], [], [], max(give_up_at - time.monotonic(), 0))[0], seen
            seen += os.read(terminal, 65536)
        assert termios.tcgetattr(theirs) != before
        process.send_signal(signal.SIGTERM)
        give_up_at = time.monotonic() + 30
        while process.poll() is None and time.monotonic() < give_up_at:  # it may be writing to a terminal that is full
            if select.select([terminal], [], [], 0.1)[0]:
                seen += os.read(terminal, 65536)
        assert process.poll() == 128 + signal.SIGTERM
        while select.select([terminal], [], [], 0)[0]:
            seen += os.read(terminal, 65536)
    finally:
        process.kill()
        process.wait()
        after = termios.tcgetattr(theirs)
        os.close(terminal)
        os.close(theirs)
    assert after == before
    assert seen.rindex(b"\x1b[?1049l") > seen.rindex(b"any key ends"), "the page is gone"
    assert seen.rindex(b"\x1b[?25h") > seen.rindex(b"any key ends"), "the cursor is back"


def test_a_watched_cluster_in_a_pipe(tmp_path: Path) -> None:
    with Cluster(tmp_path / "cluster", workers=0) as cluster:
        command = [sys.executable, "-m", "tfquiver.cli.main", "status", cluster.coordinator.address, "--watch=0.2"]
        for more, right in (([], lambda line: "1 node, 0 B of " in line), (["--json"], _in_the_schema)):
            with warm.Popen([*command, *more], stdout=subprocess.PIPE, text=True) as process:
                assert process.stdout is not None
                assert all(right(process.stdout.readline()) for _ in range(2))
                process.kill()


def _in_the_schema(line: str) -> bool:
    status_schema.check(json.loads(line))
    return True
