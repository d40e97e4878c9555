"""What is wrong with the command line is said at once, with the flag's name, and the exit code is not 0."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support import warm

COORDINATOR, DISPATCHER, WORKER = "coordinator", "dispatcher", "worker"


def run(server: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    return warm.run(
        [sys.executable, "-m", f"tfquiver.service.{server}.main", *arguments],
        capture_output=True,
        text=True,
        timeout=60,
        env={**os.environ, "CUDA_VISIBLE_DEVICES": ""},
    )


@pytest.mark.parametrize(
    ("server", "arguments", "said"),
    [
        (
            DISPATCHER,
            ["--work_dir=d", "--coordinator=h:1", "--no_such_flag=1"],
            "Unknown command line flag 'no_such_flag'",
        ),
        (DISPATCHER, ["--coordinator=h:1"], "--work_dir"),
        (DISPATCHER, ["--work_dir=d"], "exactly one of --node_dir"),
        (DISPATCHER, ["--work_dir=d", "--coordinator=h:1", "--node_dir=n"], "exactly one of --node_dir"),
        (DISPATCHER, ["--work_dir=d", "--coordinator=nonsense"], "host:port"),
        (DISPATCHER, ["--work_dir=d", "--coordinator=h:1", "--port=70000"], "--port"),
        (DISPATCHER, ["--work_dir=d", "--coordinator=h:1", "--worker_timeout_ms=-1"], "--worker_timeout_ms"),
        (DISPATCHER, ["--work_dir=d", "--coordinator=h:1", "stray"], "unexpected argument: stray"),
        (
            DISPATCHER,
            ["--work_dir=/dev/null/d", "--coordinator=h:1"],
            "--work_dir=/dev/null/d: a file is there at /dev/null",
        ),
        (COORDINATOR, ["--work_dir=d", "--store_bytes_per_s=fast"], "must be bytes a second such as 200MB or 1GiB"),
        (COORDINATOR, ["--work_dir=d", "--store_bytes_per_s=-1"], "must be bytes a second such as 200MB or 1GiB"),
        (WORKER, ["--node_dir=n"], "--dispatcher"),
        (WORKER, ["--dispatcher=h:1"], "either --node_dir"),
        (WORKER, ["--dispatcher=h:1", "--cache_dir=c"], "either --node_dir"),
        (WORKER, ["--dispatcher=h", "--node_dir=n"], "host:port"),
        (WORKER, ["--dispatcher=h:1", "--cache_dir=c", "--coordinator=h:2", "--quota=much"], "--quota"),
        (WORKER, ["--dispatcher=h:1", "--node_dir=n", "--worker_address=h"], "host:port"),
        (WORKER, ["--dispatcher=h:1", "--node_dir=n", "--heartbeat_interval_ms=1"], "--heartbeat_interval_ms"),
    ],
)
def test_bad_flags(server: str, arguments: list[str], said: str, tmp_path: Path) -> None:
    done = run(server, *arguments)
    assert done.returncode != 0
    assert said in done.stderr + done.stdout
    assert "Traceback" not in done.stderr


def test_a_worker_without_a_dispatcher_ends_in_time_and_says_so(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("localhost", 0))  # bound, not listening: connections are refused
        address = f"localhost:{taken.getsockname()[1]}"
        done = run(WORKER, f"--dispatcher={address}", f"--node_dir={tmp_path}", "--port=0", "--connect_timeout_s=1")
    assert done.returncode == 1
    assert f"--dispatcher={address} has not answered for 1 s" in done.stderr


def test_a_taken_port_is_refused(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        taken.bind(("", 0))
        taken.listen()
        port = taken.getsockname()[1]
        for server, more in ((WORKER, ["--dispatcher=h:1"]), (DISPATCHER, [f"--work_dir={tmp_path}"])):
            done = run(server, f"--port={port}", f"--node_dir={tmp_path}", *more)
            assert done.returncode == 1
            assert f"--port={port}: Address already in use" in done.stderr


def test_a_worker_whose_node_needs_a_token_is_told_so_before_a_dispatcher_is_waited_for(tmp_path: Path) -> None:
    elsewhere = ["--coordinator=192.0.2.1:5040", "--dispatcher=192.0.2.1:5050", "--connect_timeout_s=600"]
    done = run(WORKER, *elsewhere, f"--cache_dir={tmp_path}/cache", "--port=0")  # within a minute
    assert done.returncode == 1
    assert "no token is asked for: give --auth_token_file" in done.stderr
