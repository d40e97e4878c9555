"""`tfquiver forget`, and nodes whose machines may be taken away, against servers that are killed."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.cluster import Cluster, wait_until
from tfquiver.cli.main import main
from tfquiver.cli.status_asked_watched_explained import status
from tfquiver.cli.status_tables_and_warnings import words


def lost(cluster: Cluster) -> list[str]:
    """Their ids."""
    return [node["node_id"] for node in status.collect(cluster.coordinator.address)["lost_nodes"]]


def problems(cluster: Cluster) -> list[str]:
    return [line for line in status.collect(cluster.coordinator.address)["problems"] if " is lost: " in line]


def test_a_node_that_is_gone_for_good_is_forgotten_by_a_coordinator_that_is_killed_too(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with Cluster(tmp_path / "cluster", workers=0) as cluster:
        assert cluster.node is not None
        named = words.short(cluster.node.ready["node_id"])
        forget = ["forget", "--service", cluster.coordinator.address]
        assert main([*forget, named]) == 1, "it lives"
        assert f"node {cluster.node.ready['node_id']} is heard of, " in capsys.readouterr().err
        cluster.node.kill()
        wait_until(lambda: bool(lost(cluster)), "it is given up")
        (line,) = problems(cluster)
        assert f"`tfquiver forget {named}`" in line
        assert main([*forget, named]) == 0
        assert capsys.readouterr().out == f"node {named} at localhost:{cluster.node.port} is forgotten\n"
        assert lost(cluster) == []
        assert main([*forget, named]) == 1
        assert f"no node or dispatcher '{named}' is lost" in capsys.readouterr().err
        cluster.coordinator.kill()
        cluster.coordinator.restart()
        assert main([*forget, "--all_lost"]) == 0
        assert capsys.readouterr().out == "nothing is lost\n"
        cluster.node.restart()
        wait_until(lambda: len(status.collect(cluster.coordinator.address)["nodes"]) == 1, "it may come back")
        cluster.node.kill()
        wait_until(lambda: bool(lost(cluster)), "and is missed again")
        assert main([*forget, "--all_lost"]) == 0
        assert lost(cluster) == []
        cluster.node.restart()
        wait_until(lambda: len(status.collect(cluster.coordinator.address)["nodes"]) == 1, "it is back once more")
        cluster.coordinator.kill()
        cluster.node.kill()
        cluster.coordinator.restart()
        capsys.readouterr()
        assert main([*forget, named]) == 0, "it has not come back, and need not be lost before"
        assert capsys.readouterr().out == f"node {named} at localhost:{cluster.node.port} is forgotten\n"
        assert main([*forget, named]) == 1


def test_a_spot_node_that_is_killed_is_told_and_no_problem(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    flags = {"node": ["--labels=lifecycle=spot,rack=r1"]}
    with Cluster(tmp_path / "cluster", workers=0, flags=flags) as cluster:
        assert cluster.node is not None
        cluster.node.kill()
        wait_until(lambda: bool(lost(cluster)), "it is given up")
        assert problems(cluster) == []
        assert main(["status", cluster.coordinator.address]) == 0
        assert "\n1 spot node is gone, as they may be, in the last hour: " in capsys.readouterr().out
