"""Of a server that `tfquiver up` starts again one thing is said, by `status` and by `doctor`: who does it, and why."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.unit.test_status_tables import told
from tfquiver.cli.doctor import as_status_says, cluster, command
from tfquiver.cli.doctor.finding import Verdict
from tfquiver.cli.status_asked_watched_explained import up_away
from tfquiver.cli.status_tables_and_warnings import status_view
from tfquiver.cluster_address import running_nodes
from tfquiver.node_daemon_and_notes_in_directories import up_file
from tfquiver.node_daemon_and_notes_in_directories.up_file import Ports
from tfquiver.proto.tfquiver.v1 import types_pb2
from tfquiver.proto.tfquiver.v1.coordinator_pb2 import ListNodesReply, LostNode

NODE = "node-0123456789abcdef"


@contextmanager
def up_in(directory: Path, away: dict[str, str]) -> Iterator[dict[str, Any]]:
    """As an `up` that runs there, with these of its servers away, says it."""
    lock = os.open(directory / up_file.LOCK_FILE, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        os.write(lock, b"41\n")
        fcntl.flock(lock, fcntl.LOCK_EX)
        (directory / "node_id").write_text(f"{NODE}\n")
        up_file.write(directory, Ports(5040, 5050, [5061, 5062]), away=away)
        found = up_away.collect(str(directory))
        assert found is not None
        yield found
    finally:
        os.close(lock)


def of_up(problems: list[str]) -> bool:
    return len(problems) == 1 and "of `tfquiver up` (pid " in problems[0] and "is started again" in problems[0]


def test_its_node_is_one_problem_whether_it_is_silent_or_lost_or_not_yet_known(tmp_path: Path) -> None:
    well = told("run") | {"nodes": told("run")["nodes"][:1], "sessions": [], "datasets": []}
    silent = {"node_id": NODE, "error": "node 01234567 at localhost:1 does not answer", "quota_bytes": 9}
    lost = {"node_id": NODE, "control_address": "localhost:1", "silent_ms": 15_000, "quota_bytes": 9}
    with up_in(tmp_path, {"node": "SIGKILL"}) as up:
        for nodes, gone in ([silent], []), ([], [lost]), ([], []):
            status = well | {"nodes": nodes, "lost_nodes": gone}
            assert of_up(status_view.problems(status | {"up": up})), (nodes, gone)
            assert not of_up(status_view.problems(status)), "who asks elsewhere is told what is known there"
        other = silent | {"node_id": "node-fedcba9876543210"}
        assert len(status_view.problems(well | {"nodes": [silent, other], "up": up})) == 2, (
            "of others nothing is hidden"
        )


def test_so_are_its_dispatcher_and_its_workers(tmp_path: Path) -> None:
    well = told("run") | {"nodes": told("run")["nodes"][:1], "sessions": [], "datasets": []}
    workers = [{"address": f"localhost:{port}", "silent_ms": 60_000, "idle_ms": 0} for port in (5061, 5062)]
    status = well | {
        "dispatchers": [{"address": "localhost:5050", "workers": workers}],
        "lost_dispatchers": [{"address": "localhost:5050", "silent_ms": 60_000}],
    }
    assert len(status_view.problems(status)) == 3
    with up_in(tmp_path, {"dispatcher": "SIGKILL", "worker-1": "exit code 1"}) as up:
        found = status_view.problems(status | {"up": up})
        assert len(found) == 3 and sum("of `tfquiver up`" in one for one in found) == 2
        assert "worker localhost:5061" in found[2], "the one that only hangs"


def test_doctor_says_it_once_too(tmp_path: Path) -> None:
    info = types_pb2.NodeInfo(node_id=NODE, control_address="localhost:1", quota_bytes=9)
    with up_in(tmp_path, {"node": "SIGKILL"}) as up:
        for reply in ListNodesReply(nodes=[info], up_ms=600_000), ListNodesReply(lost=[LostNode(node=info)]):
            [found] = cluster._nodes(reply, "", up)
            assert (found.verdict, found.why) == (Verdict.WARN, up_away.problems(up)[0])
        silent = {"node_id": NODE, "error": "silent", "quota_bytes": 9}
        status = told("run") | {"nodes": [silent], "sessions": [], "datasets": [], "up": up}
        [found] = as_status_says.of(status)
        assert found.verdict is Verdict.OK


def test_doctor_says_which_up_has_a_coordinator_that_is_away(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(running_nodes, "directories", lambda: [tmp_path])
    with up_in(tmp_path, {"coordinator": "SIGKILL"}) as up:
        said = f"the coordinator of `tfquiver up` (pid 41) in {tmp_path} ended (SIGKILL) and is started again"
        for known in up, None:  # of an address it is found
            assert cluster.brings_back("localhost:5040", known, "").startswith(said)
        for other in "localhost:5041", "head:5040":
            assert "start it again (`tfquiver up`" in cluster.brings_back(other, None, ""), "of one that nobody knows"


def test_doctor_says_the_command_that_brings_an_up_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    directory = tmp_path / "the cache"
    directory.mkdir()
    with up_in(directory, {}):
        pass
    again = f"`tfquiver up '{directory}'` goes on with the cluster that ran there"
    [found] = command._of_servers(str(directory), directory, "")
    assert (found.verdict, found.do) == (Verdict.SKIP, again), "nothing says that a node runs there"
    assert up_away.again(directory, "localhost:5040") == again
    assert up_away.again(directory, "head:5040") == "", "a node of another cluster runs there by now"
    with up_in(directory, {}):
        assert up_away.again(directory) == ""
