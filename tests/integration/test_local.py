"""One daemon a cache directory, found or started by whoever comes first."""

from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

import tfquiver
from tests.support import node_calls
from tests.support.cluster import wait_until
from tests.support.daemons import cache_dir_fixture, daemons, end_daemons
from tests.support.reader_client import Connection
from tfquiver import errors
from tfquiver.log_files_and_lines import log_file
from tfquiver.node_daemon_and_notes_in_directories import daemon, endpoints

FIND = (
    "import sys, dataclasses, json; from tfquiver.node_daemon_and_notes_in_directories import daemon as local;"
    "print(json.dumps(dataclasses.asdict(local.find_or_start(sys.argv[1], idle_exit_s=5))));"
    "assert 'tensorflow' not in sys.modules"
)
cache_dir = cache_dir_fixture()


def pid(directory: Path) -> int:
    return int(json.loads((directory / "node.json").read_text())["pid"])


def test_a_daemon_is_started_found_and_leaves(cache_dir: Path) -> None:
    assert daemon.find(cache_dir) is None
    started = daemon.find_or_start(cache_dir, quota_bytes=1 << 20, idle_exit_s=1)
    process = psutil.Process(pid(cache_dir))
    assert daemon.find_or_start(cache_dir) == started
    assert process.pid == pid(cache_dir)
    assert process.parent() != psutil.Process(), "the daemon is nobody's child"
    assert process not in psutil.Process().children(recursive=True)
    wait_until(lambda: not process.is_running(), "an idle daemon leaves")
    assert daemon.find(cache_dir) is None


def test_the_next_daemon_has_the_quota_that_the_last_one_was_given(cache_dir: Path) -> None:
    """A command had started it with 80 % of the disk."""
    daemon.find_or_start(cache_dir, quota_bytes=3 << 20, idle_exit_s=1)
    end_daemons(cache_dir)
    endpoint = daemon.find_or_start(cache_dir, idle_exit_s=5)
    assert node_calls.status(endpoint.local_control).node.quota_bytes == 3 << 20
    assert "quota: 3.1 MB, as the last node here" in (cache_dir / "log" / "node.log").read_text()


def test_the_log_of_a_daemon_that_runs_is_put_aside_when_it_is_long(cache_dir: Path) -> None:
    daemon.find_or_start(cache_dir, quota_bytes=1 << 20, idle_exit_s=30)
    log = cache_dir / "log" / "node.log"
    with log.open("ab") as file:  # as a library of it would
        file.write(b"a line of a library\n" * (log_file.MOST_BYTES // 20 + 1))
    writes_to = Path(f"/proc/{pid(cache_dir)}/fd/2")
    wait_until(lambda: log.with_name("node.log.old").exists() and writes_to.samefile(log), "it is put aside")
    os.kill(pid(cache_dir), signal.SIGTERM)
    wait_until(lambda: daemon.find(cache_dir) is None, "it leaves")
    assert log.stat().st_size < 1 << 20 < log.with_name("node.log.old").stat().st_size


def test_many_processes_at_once_get_one_daemon(cache_dir: Path) -> None:
    command = [sys.executable, "-c", FIND, str(cache_dir)]
    starters = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(8)]
    told = [starter.communicate(timeout=90)[0] for starter in starters]
    assert [starter.returncode for starter in starters] == [0] * 8
    assert len(set(told)) == 1
    assert len(daemons(cache_dir)) == 1


def test_what_a_killed_daemon_left_behind_is_replaced(cache_dir: Path) -> None:
    first = daemon.find_or_start(cache_dir)
    os.kill(pid(cache_dir), signal.SIGKILL)
    assert Path(first.socket).exists()
    second = daemon.find_or_start(cache_dir)
    assert second == first  # same places, same node id; another process
    with Connection(second.socket) as connection:
        assert connection.hello() == second.node_id


def test_a_daemon_that_cannot_start_says_why(tmp_path: Path) -> None:
    (tmp_path / "cache" / "log").mkdir(parents=True)
    (tmp_path / "cache" / "objects").write_text("in the way")
    with pytest.raises(errors.UnavailableError, match="objects"):
        daemon.find_or_start(tmp_path / "cache")
    (tmp_path / "file").write_text("")
    with pytest.raises(errors.InvalidArgumentError, match="file"):
        daemon.find_or_start(tmp_path / "file")


def test_an_endpoint_is_kept_beyond_a_thousand_descriptors(cache_dir: Path) -> None:
    """select() takes no descriptor above 1023; a trainer has such."""

    class NoOp:
        def set_endpoint(self, name: str, socket_path: str, kept: int = -1) -> None: ...

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(4096, hard), hard))
    taken = [os.open(os.devnull, os.O_RDONLY) for _ in range(1100)]
    try:
        kept = endpoints.KeptEndpoint("many", lambda: daemon.find_or_start(cache_dir, 1 << 20, idle_exit_s=5), NoOp())
        try:
            first = pid(cache_dir)
            os.kill(first, signal.SIGKILL)
            wait_until(lambda: daemon.find(cache_dir) is not None and pid(cache_dir) != first, "another daemon")
        finally:
            kept.close()
    finally:
        for descriptor in taken:
            os.close(descriptor)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_a_daemon_whose_sockets_were_deleted_is_not_found(cache_dir: Path) -> None:
    endpoint = daemon.find_or_start(cache_dir, quota_bytes=1 << 20, idle_exit_s=5)
    coordinator = Path(endpoint.coordinator.removeprefix("unix:"))
    assert coordinator.is_socket()
    coordinator.unlink()
    assert daemon.find(cache_dir) is None


def test_a_directory_of_here_whose_name_could_be_a_data_sets_is_told(
    cache_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    daemon.find_or_start(cache_dir, idle_exit_s=5)
    (tmp_path / "images").mkdir()
    monkeypatch.chdir(tmp_path)
    with pytest.raises(errors.NotFoundError, match=r"images is a directory here: name its files, images/\*"):
        tfquiver.dataset("images", cache_dir=cache_dir)
