"""A daemon that ends in its start: whoever started it is told how, and its last words."""

from __future__ import annotations

import concurrent.futures
import sys
import time
from pathlib import Path

import psutil
import pytest

from tfquiver import errors
from tfquiver.cli.up_stop_logs_clear import whole_cluster
from tfquiver.cli.up_stop_logs_clear.last_time import Asked
from tfquiver.node_daemon_and_notes_in_directories import cluster_file, daemon, up_file


@pytest.mark.parametrize(
    ("script", "said"),
    [
        (
            "echo 'no memory' >&2; kill -KILL $$",
            ["killed by SIGKILL, as the kernel does when", "node.log:\nno memory"],
        ),
        ("kill -SEGV $$", ["ended at its start (killed by SIGSEGV); it has said nothing in "]),
        ("echo hello", ["said what no node says ('hello\\n')"]),
        ("echo 'bad flag' >&2; exit 3", ["ended at its start (exit code 3); the end of ", "node.log:\nbad flag"]),
    ],
)
def test_how_it_ended_is_said(script: str, said: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "program"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o700)
    log = tmp_path / "cache" / "log" / "node.log"
    log.parent.mkdir(parents=True)
    log.write_text("what a node said yesterday\n")
    monkeypatch.setattr(sys, "executable", str(program))
    before = psutil.Process().children()
    with pytest.raises(errors.UnavailableError) as raised:
        daemon.find_or_start(tmp_path / "cache")
    for words in said:
        assert words in str(raised.value)
    assert "yesterday" not in str(raised.value)
    assert psutil.Process().children() == before


def test_one_that_is_not_ready_in_time_is_left_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "program"
    program.write_text(f"#!/bin/sh\necho $$ > {tmp_path}/pid; echo slow >&2; exec sleep 60\n")
    program.chmod(0o700)
    monkeypatch.setattr(sys, "executable", str(program))
    with pytest.raises(errors.DeadlineError, match=r"is not ready in time; the end of .*node.log:\nslow"):
        daemon.find_or_start(tmp_path / "cache", timeout_s=1.0)
    slow = psutil.Process(int((tmp_path / "pid").read_text()))
    assert slow.is_running() and slow.parent() != psutil.Process()
    slow.kill()


@pytest.mark.slow
def test_where_a_clusters_node_is_down_none_is_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(sys, "executable", "/nobody/starts/this")
    cluster_file.write(tmp_path, "head:5040")
    with pytest.raises(errors.UnavailableError) as raised:
        daemon.find_or_start(tmp_path, timeout_s=2.5)
    assert "it is a node's of the cluster at head:5040, and that node does not run" in caplog.text
    for words in (
        f"tfquiver-node --coordinator=head:5040 --cache_dir={tmp_path}",
        f"where that cluster is no more, delete {tmp_path}/cluster",
    ):
        assert words in str(raised.value)


def test_all_who_wait_for_a_clusters_node_are_told_the_same(tmp_path: Path) -> None:
    """And keep nobody from the directory meanwhile, such as who starts a cluster there."""
    cluster_file.write(tmp_path, "head:5040")
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        waiting = [pool.submit(daemon.find_or_start, tmp_path, timeout_s=1.5) for _ in range(2)]
        with daemon.only_one_starts(tmp_path, time.monotonic() + 1.0):
            pass
        for one in waiting:
            with pytest.raises(errors.UnavailableError, match="of the cluster at head:5040"):
                one.result(30)


@pytest.mark.parametrize("before", [0, 5040], ids=["the first", "at another port than the one before"])
def test_an_up_that_does_not_get_far_leaves_the_directory_nobodys(
    before: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Killed while TensorFlow is loaded, say: its node was there already."""
    program = tmp_path / "program"
    program.write_text(
        "#!/bin/sh\ncase $2 in\n*coordinator*) echo '{\"port\": 5041}'; exec sleep 60;;\n"
        f"*.node.*) printf %s localhost:5041 > {tmp_path}/cluster; exit 3;;\n*) echo hello;;\nesac\n"
    )
    program.chmod(0o700)
    monkeypatch.setattr(sys, "executable", str(program))
    if before:
        up_file.write(tmp_path, up_file.Ports(coordinator=before, dispatcher=7), up_file.Given(workers=3))
        cluster_file.write(tmp_path, f"localhost:{before}")
    with pytest.raises(errors.UnavailableError, match="the node did not start"):
        whole_cluster.run(tmp_path, Asked(), 0, 0, False)
    assert cluster_file.read(tmp_path) == "localhost:5041"
    with pytest.raises(errors.UnavailableError, match="ended at its start"):
        daemon.find_or_start(tmp_path, timeout_s=5.0)
    if before:
        assert up_file.read(tmp_path) == up_file.Ports(5041, 7) and up_file.read_given(tmp_path).workers == 3


def test_what_up_ran_and_runs_no_more_is_nobodys(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "program"
    program.write_text("#!/bin/sh\necho hello\n")
    program.chmod(0o700)
    monkeypatch.setattr(sys, "executable", str(program))
    up_file.write(tmp_path, up_file.Ports(coordinator=5041))
    cluster_file.write(tmp_path, "localhost:5041")
    with pytest.raises(errors.UnavailableError, match="said what no node says"):
        daemon.find_or_start(tmp_path)
    cluster_file.write(tmp_path, "localhost:5042")
    with pytest.raises(errors.UnavailableError, match="of the cluster at localhost:5042"):
        daemon.find_or_start(tmp_path, timeout_s=0.5)
    cluster_file.write(tmp_path, "")
    with pytest.raises(errors.UnavailableError, match="said what no node says"):
        daemon.find_or_start(tmp_path)
