"""A server that is killed while its own node starts leaves none behind, which would keep the cache directory."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.cluster import Server, wait_until


@pytest.mark.parametrize("started_s", [0.0, 0.2])
def test_the_node_of_a_worker_ends_too(tmp_path: Path, started_s: float) -> None:
    """`subprocess`, not a process that has imported everything: what counts is that the node still does."""
    arguments = ["--port=0", f"--work_dir={tmp_path / 'work'}"]
    coordinator = Server("tfquiver.service.coordinator.main", arguments, tmp_path / "coordinator.log").start()
    nodes: list[int] = []
    with (tmp_path / "log").open("w") as log:
        worker = subprocess.Popen(
            [sys.executable, "-m", "tfquiver.service.worker.main", "--port=0", f"--cache_dir={tmp_path / 'cache'}",
             f"--coordinator={coordinator.address}", "--dispatcher=localhost:2"],
            stdout=subprocess.DEVNULL, stderr=log,
        )  # fmt: skip
    try:

        def started() -> bool:
            nodes[:] = _nodes_of(worker.pid)
            return bool(nodes)

        wait_until(started, "it starts its node", every_s=0.001)
        with pytest.raises(subprocess.TimeoutExpired):
            worker.wait(started_s)
    finally:
        worker.kill()
        worker.wait()
    try:
        wait_until(lambda: not _is_node(nodes[0]), "the node has ended")
    finally:
        for node in filter(_is_node, nodes):
            os.kill(node, signal.SIGTERM)
        coordinator.stop()


def _nodes_of(pid: int) -> list[int]:
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return [int(child) for child in children if _is_node(int(child))]


def _is_node(pid: int) -> bool:
    try:
        os.kill(pid, 0)
        return b"tfquiver.service.node.main" in Path(f"/proc/{pid}/cmdline").read_bytes()
    except (ProcessLookupError, FileNotFoundError):
        return False
