"""Locks that say who has a directory: looking at one changes nothing for others who look."""

from __future__ import annotations

import os
import re
import resource
import subprocess
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tfquiver import durable, errors
from tfquiver.local_cluster import hold, stopping
from tfquiver.node_daemon_and_notes_in_directories import cluster_file, server_file, up_file
from tfquiver.node_daemon_and_notes_in_directories.directory import CacheDirectory
from tfquiver.service.coordinator.commit_log.work_dir import WorkDir
from tfquiver.service.node.counters import totals_file


def test_who_looks_is_not_taken_for_the_holder(tmp_path: Path) -> None:
    """An `up` that was killed leaves its pid in the file: whoever is taken for it would be sent its signal."""
    path = tmp_path / up_file.LOCK_FILE
    path.write_text(f"{os.getpid()}\n")
    seen: list[str | None] = []
    stop = threading.Event()

    def look() -> None:
        while not stop.is_set():
            seen.append(durable.holder(path))

    lookers = [threading.Thread(target=look) for _ in range(2)]
    for looker in lookers:
        looker.start()
    for _ in range(20_000):
        seen.append(durable.holder(path))
    stop.set()
    for looker in lookers:
        looker.join()
    assert set(seen) == {None}


def test_the_holder_is_seen_by_all_who_look(tmp_path: Path) -> None:
    path = tmp_path / up_file.LOCK_FILE
    lock = durable.lock_file(path)
    assert durable.holder(path) is None
    assert durable.try_lock(lock)
    os.pwrite(lock, b"17\n", 0)
    assert durable.holder(path) == durable.holder(path) == "17"
    os.close(lock)
    assert durable.holder(path) is None


def test_a_directory_that_was_deleted_is_no_longer_an_ups_own(tmp_path: Path) -> None:
    at = tmp_path / "cache"
    with hold.held(at, print) as is_ours:
        assert is_ours()
        assert stopping.holder(at / up_file.LOCK_FILE) == os.getpid()
        (at / up_file.LOCK_FILE).unlink()
        assert not is_ours()
        with hold.held(at, print) as its:
            assert its() and not is_ours()


def test_a_disk_without_room_for_its_number_is_named(tmp_path: Path) -> None:
    """As a disk that is full to its last byte: a file is made there, and nothing written. It was a traceback."""
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, limits[1]))
    try:
        with (
            pytest.raises(errors.ResourceExhaustedError, match=f"{tmp_path / up_file.LOCK_FILE}: File too large"),
            hold.held(tmp_path, print),
        ):
            pass
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    with hold.held(tmp_path, print) as is_ours:
        assert is_ours()


def test_a_lock_of_which_it_cannot_be_told_whose_it_is_is_named(tmp_path: Path) -> None:
    """It was a traceback."""
    (tmp_path / "coordinator").mkdir()
    lock = tmp_path / "coordinator" / "lock"
    lock.symlink_to(tmp_path / "nowhere")
    with pytest.raises(errors.InvalidArgumentError, match=f"{lock}: Too many levels"), hold.held(tmp_path, print):
        pass


def test_what_is_no_file_is_not_waited_for(tmp_path: Path) -> None:
    """A pipe to which nobody writes held `tfquiver up` and every trainer up for good."""
    for name in (up_file.LOCK_FILE, up_file.UP_FILE, cluster_file.FILE, server_file.FILE, totals_file.TOTALS_FILE):
        os.mkfifo(tmp_path / name)
    assert up_file.read(tmp_path) == up_file.Ports() and not up_file.is_up(tmp_path)
    assert (cluster_file.read(tmp_path), server_file.read(tmp_path)) == ("", None)
    assert totals_file.read(tmp_path) == totals_file.Totals()


@pytest.mark.parametrize("said", [b"\0" * 64, b"head", b"head:5040\nhead:5041"])
def test_what_is_no_address_is_no_cluster(said: bytes, tmp_path: Path) -> None:
    """Every trainer waited for its node, and printed it."""
    (tmp_path / cluster_file.FILE).write_bytes(said)
    assert cluster_file.read(tmp_path) == ""


@pytest.mark.parametrize("said", [b"", b"\0\0\0", b"\xff\xfe", b"two words\n", "knoten-é".encode()])
def test_what_is_no_nodes_id_is_not_taken_for_one(tmp_path: Path, said: bytes) -> None:
    (tmp_path / "node_id").write_bytes(said)
    first = CacheDirectory(tmp_path)
    first.close()
    assert re.fullmatch("node-[0-9a-f]{16}", first.node_id)
    again = CacheDirectory(tmp_path)
    again.close()
    assert again.node_id == first.node_id


def test_a_lock_that_was_deleted_before_it_was_taken_counts_for_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def taken_late(descriptor: int) -> bool:
        (tmp_path / up_file.LOCK_FILE).unlink(missing_ok=True)
        return True

    monkeypatch.setattr(durable, "try_lock", taken_late)
    with pytest.raises(Exception, match="somebody is deleting it"), hold.held(tmp_path, print):
        pass


def test_a_process_that_only_has_the_holders_number_gets_no_signal(tmp_path: Path) -> None:
    """As that of an `up` in another container, or of one that was killed while its successor is just starting."""
    path = tmp_path / up_file.LOCK_FILE
    lock = durable.lock_file(path)
    assert durable.try_lock(lock)
    with subprocess.Popen(["sleep", "60"]) as bystander:
        try:
            os.pwrite(lock, f"{bystander.pid}\n".encode(), 0)
            with pytest.raises(errors.UnavailableError, match=f"{path}: pid {bystander.pid} is another process here"):
                stopping.stop(tmp_path, lambda: 0, force=True)
            time.sleep(0.1)
            assert bystander.poll() is None
        finally:
            bystander.kill()
            os.close(lock)


@pytest.mark.parametrize("pid", [(1 << 22) - 1, 1 << 22, 10**19])
def test_a_holder_whose_number_nobody_has_here_is_not_said_to_be_stopped(pid: int, tmp_path: Path) -> None:
    """As of an `up` in a container that shares the directory: its numbers mean nothing here."""
    lock = durable.lock_file(tmp_path / up_file.LOCK_FILE)
    assert durable.try_lock(lock)
    try:
        os.pwrite(lock, f"{pid}\n".encode(), 0)
        with pytest.raises(errors.UnavailableError, match="just starting"):
            stopping.stop(tmp_path, lambda: 0, force=True)
    finally:
        os.close(lock)


def test_a_coordinator_that_has_the_directory_is_named_by_its_pid(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hold, "_PREDECESSOR_S", 0.0)
    work_dir = WorkDir(tmp_path / "coordinator", "x")
    named = rf"another server has coordinator/lock \(pid {os.getpid()}\)"
    with pytest.raises(errors.AlreadyRunningError, match=named), hold.held(tmp_path, print):
        pass
    work_dir.release()


@pytest.mark.parametrize(
    "holds", [lambda path: WorkDir(path, "1").release(), lambda path: CacheDirectory(path).close()]
)
def test_who_has_a_directory_removes_what_was_being_written_when_the_one_before_was_killed(
    tmp_path: Path, holds: Callable[[Path], None]
) -> None:
    """A list of a million shards that are nobody's yet was 40 MB at each such kill."""
    left, other = tmp_path / ".placed.log.0123456789abcdef.tmp", tmp_path / ".notes.tmp"
    left.write_bytes(b"half")
    other.write_bytes(b"somebody's")
    holds(tmp_path)
    assert not left.exists() and other.exists()


def test_a_pipe_in_the_place_of_a_lock_is_an_error_that_says_what_to_do(tmp_path: Path) -> None:
    """It was `Invalid argument`, or `Illegal seek`."""
    for name, holds in (("lock", lambda: WorkDir(tmp_path, "1")), ("node.lock", lambda: CacheDirectory(tmp_path))):
        os.mkfifo(tmp_path / name)
        with pytest.raises(errors.InvalidArgumentError, match="no file is in its place: move it away"):
            holds()
