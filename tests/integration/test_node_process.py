"""How a node starts, what it says of what it cannot do, and how it leaves."""

from __future__ import annotations

import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest

from tests.support import node_calls, warm
from tests.support.cluster import Server
from tests.support.reader_client import Connection
from tests.support.started_nodes import NODE, StartNode, nodes_started
from tfquiver.digests.file_entry import FileEntry
from tfquiver.grpc_plumbing import rpc
from tfquiver.proto.tfquiver.v1 import node_pb2_grpc
from tfquiver.scanning.cutting import CutPolicy


@pytest.fixture
def start(tmp_path: Path) -> Iterator[StartNode]:
    with nodes_started(tmp_path) as start:
        yield start


def test_a_second_node_on_a_directory_says_who_has_it(start: StartNode, tmp_path: Path) -> None:
    node = start()
    command = [sys.executable, "-m", NODE, f"--cache_dir={tmp_path / 'cache'}"]
    second = warm.run(command, capture_output=True, text=True, timeout=30)
    assert second.returncode == 1
    assert f"pid {node.process.pid} has it" in second.stderr


def test_a_node_that_nobody_uses_leaves_and_one_in_use_stays(start: StartNode, tmp_path: Path) -> None:
    node = start("--idle_exit_s=1")
    with Connection(node.ready["socket"]) as connection:
        connection.hello()
        with pytest.raises(subprocess.TimeoutExpired):
            node.process.wait(2.0)
    assert node.process.wait(60) == 0
    assert not (tmp_path / "cache" / "node.json").exists()
    assert not list((tmp_path / "cache" / "run").iterdir())


def test_a_wrong_coordinator_is_named_in_bounded_time(tmp_path: Path) -> None:
    flags = ["--coordinator=localhost:1", "--coordinator_connect_s=1", f"--cache_dir={tmp_path / 'cache'}"]
    done = warm.run([sys.executable, "-m", NODE, *flags], capture_output=True, text=True, timeout=15)
    assert done.returncode == 1
    assert "--coordinator=localhost:1: no answer within 1 s" in done.stderr


def test_a_coordinator_that_accepts_and_says_nothing_is_named_in_bounded_time(tmp_path: Path) -> None:
    with socket.create_server(("localhost", 0)) as mute:
        where = f"localhost:{mute.getsockname()[1]}"
        flags = [f"--coordinator={where}", "--coordinator_connect_s=1", f"--cache_dir={tmp_path / 'cache'}"]
        done = warm.run([sys.executable, "-m", NODE, *flags], capture_output=True, text=True, timeout=15)
    assert done.returncode == 1
    assert f"--coordinator={where}: no answer within 1 s" in done.stderr


def test_a_token_is_asked_for_and_a_wrong_one_named(start: StartNode, tmp_path: Path) -> None:
    (tmp_path / "token").write_text("secret\n")
    arguments = ["--port=0", f"--work_dir={tmp_path / 'work'}", f"--auth_token_file={tmp_path / 'token'}"]
    coordinator = Server("tfquiver.service.coordinator.main", arguments, tmp_path / "coordinator.log").start()
    try:
        command = [sys.executable, "-m", NODE, f"--cache_dir={tmp_path / 'a'}", f"--coordinator={coordinator.address}"]
        done = warm.run(command, capture_output=True, text=True, timeout=30)
        assert done.returncode == 1
        assert "token" in done.stderr
        node = start(f"--auth_token_file={tmp_path / 'token'}", f"--coordinator={coordinator.address}", name="b")
        with pytest.raises(grpc.RpcError, match="token"):
            node_calls.status(node.ready["control"])
        node.stop()
    finally:
        coordinator.stop()


@pytest.mark.parametrize(
    ("flag", "complaint"),
    [
        ("--quota=much", "must be a size"),
        ("--coordinator=nonsense", "must be host:port"),
        ("--port=70000", "port"),
        ("--no_such_flag=1", "no_such_flag"),
        ("--auth_token_file=/no/such/file", "/no/such/file"),
    ],
)
def test_wrong_flags_are_named(tmp_path: Path, flag: str, complaint: str) -> None:
    command = [sys.executable, "-m", NODE, f"--cache_dir={tmp_path / 'cache'}", flag]
    done = warm.run(command, capture_output=True, text=True, timeout=30)
    assert done.returncode != 0
    assert complaint in done.stdout + done.stderr


def test_a_cache_directory_that_cannot_be_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    command = [sys.executable, "-m", NODE, f"--cache_dir={tmp_path / 'file'}"]
    done = warm.run(command, capture_output=True, text=True, timeout=30)
    assert done.returncode == 1
    assert f"--cache_dir={tmp_path / 'file'}" in done.stderr


def test_a_store_that_hangs_does_not_hold_up_the_end(tmp_path: Path) -> None:
    with socket.create_server(("localhost", 0)) as mute:
        env = {"STORAGE_EMULATOR_HOST": f"http://localhost:{mute.getsockname()[1]}"}
        node = Server(NODE, [f"--cache_dir={tmp_path / 'cache'}", "--quota=1MiB"], tmp_path / "node.log", env).start()
        with rpc.channel(node.ready["control"]) as channel:
            requests = node_calls.ensure_requests([FileEntry("gs://bucket/object", 1000, "1")], CutPolicy())
            stub: Any = node_pb2_grpc.NodeStub(channel)
            call = stub.EnsureDataset(iter(requests), timeout=30, wait_for_ready=True)
            next(iter(call))
            mute.accept()[0].close()
            asked, _ = mute.accept()
            assert node.stop(deadline_s=5.0) == 0
            asked.close()
            call.cancel()
    assert not (tmp_path / "cache" / "node.json").exists()
