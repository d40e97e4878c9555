"""Servers that somebody has started one by one: commands know them by their directories."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.support.cluster import Cluster
from tfquiver.cli.main import main
from tfquiver.cluster_address import running_nodes
from tfquiver.node_daemon_and_notes_in_directories import server_file


def test_a_coordinators_directory(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with Cluster(tmp_path / "cluster", workers=0) as cluster:
        at, pid = tmp_path / "cluster" / "coordinator", cluster.coordinator.process.pid
        assert at in running_nodes.work_dirs()
        assert main(["status", str(at), "--json"]) == 0
        assert json.loads(capsys.readouterr().out)["coordinator"] == cluster.coordinator.address
        assert main(["explain", str(at)]) == 0
        assert "no job reads now" in capsys.readouterr().out
        assert main(["explain", cluster.coordinator.address]) == 0
        capsys.readouterr()

        assert main(["logs", str(at)]) == 1
        said = f"(the coordinator there, pid {pid}, logs to its standard error, which is {cluster.coordinator.log})"
        assert said in capsys.readouterr().err
        assert cluster.node is not None
        for _ in range(2):
            assert main(["logs", str(cluster.cache_dir), "--lines", "1"]) == 0, (
                "a node's directory says which file it is"
            )
            said = capsys.readouterr().out
            assert said and said.strip() in cluster.node.log.read_text()
            cluster.node.kill()

        assert main(["stop", cluster.coordinator.address]) == 1
        assert f"an address, that of a server in {at}: tfquiver stop {at}\n" in capsys.readouterr().err
        assert main(["stop", str(at)]) == 0
        assert f"{at}: stopped the coordinator (pid {pid})\n" in capsys.readouterr().out
        assert cluster.coordinator.process.wait(10) == 0
        assert main(["status", str(at)]) == 1
        assert f"tfquiver-coordinator --work_dir={at}, with the flags" in capsys.readouterr().err
        assert server_file.running(at) is None


def test_a_dispatchers_directory(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with Cluster(tmp_path / "cluster", workers=0, dispatcher=True) as cluster:
        assert cluster.dispatcher is not None
        at = tmp_path / "cluster" / "dispatcher"
        assert main(["status", str(at), "--json"]) == 0
        assert json.loads(capsys.readouterr().out)["coordinator"] == cluster.coordinator.address
        assert main(["stop", str(at)]) == 0
        assert f"stopped the dispatcher (pid {cluster.dispatcher.process.pid})" in capsys.readouterr().out
        assert cluster.dispatcher.process.wait(10) == 0
