"""A node and its directory: what others have put there, whose it is, and what happens when it is deleted."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from tests.support import node_calls, warm
from tests.support.cluster import Server, wait_until
from tests.support.daemons import cache_dir_fixture, daemons
from tests.support.reader_client import Connection
from tfquiver import errors
from tfquiver.node_daemon_and_notes_in_directories import daemon
from tfquiver.node_daemon_and_notes_in_directories.directory import CacheDirectory
from tfquiver.node_daemon_and_notes_in_directories.node_endpoint import NodeEndpoint, read_endpoint

NODE = "tfquiver.service.node.main"
cache_dir = cache_dir_fixture()


def mode_of(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_a_directory_that_is_there_keeps_its_mode_and_what_is_made_is_private(tmp_path: Path) -> None:
    (tmp_path / "cache").mkdir()
    (tmp_path / "cache").chmod(0o755)
    for name in ("cache", "made"):
        node = Server(NODE, [f"--cache_dir={tmp_path / name}", "--quota=1MiB"], tmp_path / f"{name}.log").start()
        assert mode_of(tmp_path / name) == (0o755 if name == "cache" else 0o700)
        for path in (tmp_path / name).iterdir():
            assert mode_of(path) == (0o700 if path.is_dir() else 0o600), path
        assert node.stop() == 0


@pytest.mark.parametrize("file", ["node.lock", "node_id", "objects", "tmp", "digests", "run", "coordinator"])
def test_a_link_in_the_place_of_a_file_is_named_and_not_followed(tmp_path: Path, file: str) -> None:
    cache, target = tmp_path / "cache", tmp_path / "target"
    cache.mkdir()
    if "node" in file:
        target.write_text("precious\n")
        target.chmod(0o644)
    else:
        target.mkdir(mode=0o755)
        target.chmod(0o755)
    (cache / file).symlink_to(target)
    done = warm.run([sys.executable, "-m", NODE, f"--cache_dir={cache}"], capture_output=True, text=True, timeout=30)
    assert done.returncode == 1
    assert str(cache / file) in done.stderr
    assert "symbolic link" in done.stderr
    assert "Traceback" not in done.stderr
    assert mode_of(target) == (0o644 if "node" in file else 0o755)
    assert target.is_dir() or target.read_text() == "precious\n"
    assert target.is_file() or not list(target.iterdir())


def test_links_where_the_node_writes_anew_are_replaced(tmp_path: Path) -> None:
    cache, target = tmp_path / "cache", tmp_path / "target"
    cache.mkdir()
    target.write_text("precious\n")
    for name in ("node.json", "node.json.part", "node_id.part"):
        (cache / name).symlink_to(target)
    node = Server(NODE, [f"--cache_dir={cache}", "--quota=1MiB"], tmp_path / "log").start()
    assert json.loads((cache / "node.json").read_text())["pid"] == node.process.pid
    assert node.stop() == 0
    assert target.read_text() == "precious\n"


@pytest.mark.parametrize("file", ["start.lock", "log", "log/node.log"])
def test_a_link_where_a_daemon_is_started_is_named_and_not_followed(tmp_path: Path, cache_dir: Path, file: str) -> None:
    target = tmp_path / "target"
    (cache_dir / "log" if file == "log/node.log" else cache_dir).mkdir(parents=True)
    target.mkdir() if file == "log" else target.write_text("precious\n")
    (cache_dir / file).symlink_to(target)
    with pytest.raises(errors.InvalidArgumentError, match=f"cache_dir {cache_dir}: {file}: .*symbolic link"):
        daemon.find_or_start(cache_dir, idle_exit_s=2)
    assert not list(target.iterdir()) if target.is_dir() else target.read_text() == "precious\n"


def test_a_directory_whose_name_is_something_else_to_grpc_is_itself(tmp_path: Path) -> None:
    """`%20` was a space to it: a node took the other one's sockets, and who cleared one cache emptied the other. One
    that is not UTF-8 it does not take: no node started there."""
    names, nodes = ("a b", "a%20b", "lr=0.1,batch=64", "caf\udce9"), list[Server]()
    try:
        for name in names:
            arguments = [f"--cache_dir={tmp_path / name}", "--quota=1MiB"]
            nodes.append(Server(NODE, arguments, tmp_path / f"{name}.log").start())
        for name in names:
            endpoint = read_endpoint(tmp_path / name)
            for address in (endpoint.control, endpoint.local_control):
                assert node_calls.status(address).node.node_id == endpoint.node_id
            assert [one.node_id for one in node_calls.nodes(endpoint.coordinator)] == [endpoint.node_id]
    finally:
        for node in nodes:
            node.stop()


def test_no_directory_at_all_is_refused(tmp_path: Path) -> None:
    done = warm.run(
        [sys.executable, "-m", NODE, "--cache_dir="], capture_output=True, text=True, timeout=30, cwd=tmp_path
    )
    assert done.returncode != 0
    assert "--cache_dir" in done.stdout + done.stderr
    assert "must name a directory" in done.stdout + done.stderr
    assert list(tmp_path.iterdir()) == []


@pytest.fixture
def mounted_for_all() -> Iterator[Path]:
    """A directory that other users reach; pytest's own are private."""
    with tempfile.TemporaryDirectory(prefix="tfquiver-test-") as made:
        Path(made).chmod(0o755)
        yield Path(made)


@pytest.fixture
def volume(mounted_for_all: Path) -> Path:
    """As Kubernetes mounts one with fsGroup: root's, writable for the group, which new files inherit."""
    volume = mounted_for_all / "volume"
    volume.mkdir()
    os.chown(volume, 0, 1000)
    volume.chmod(0o2775)
    return volume


AS_SOMEBODY = """
import sys, os
# What is read later must be readable now.
import grpc._server, grpc._utilities, google.protobuf, google_crc32c, zstandard, numpy
from absl import app
from tfquiver.service.node import main
import tfquiver.service.node.node, tfquiver.service.coordinator.server, encodings.idna, multiprocessing
os.setgroups([]); os.setresgid(1000, 1000, 1000); os.setresuid(1000, 1000, 1000)
sys.argv = ["node", *sys.argv[1:]]
main.run()
"""


@contextlib.contextmanager
def _running_as_somebody(directory: Path, log_path: Path, *flags: str) -> Iterator[dict[str, str]]:
    """The ready line of a node that runs there as user and group 1000."""
    with log_path.open("wb") as log:
        command = [sys.executable, "-c", AS_SOMEBODY, f"--cache_dir={directory}", "--quota=1MiB", *flags]
        process = warm.Popen(command, stdout=subprocess.PIPE, stderr=log)
    assert process.stdout
    try:
        line = process.stdout.readline()
        assert line, log_path.read_text()
        yield json.loads(line)
    finally:
        process.terminate()
        ended = process.wait(60)
        process.stdout.close()
    assert ended == 0, log_path.read_text()


@pytest.mark.skipif(os.geteuid() != 0, reason="becoming another user needs root")
def test_a_volume_of_the_group_works_without_being_its_owner(tmp_path: Path, volume: Path) -> None:
    for directory in (volume, volume / "below"):
        with _running_as_somebody(directory, tmp_path / "log") as ready:
            with Connection(ready["socket"]) as connection:
                assert connection.hello() == ready["node_id"]
            assert (directory / "node.lock").stat().st_uid == 1000
            assert mode_of(volume) == 0o2775
            assert all(mode_of(path) & 0o077 == 0 for path in directory.iterdir() if path != volume / "below")


@pytest.mark.skipif(os.geteuid() != 0, reason="becoming another user needs root")
def test_a_volume_that_is_mounted_again_with_its_modes_widened_works(tmp_path: Path, volume: Path) -> None:
    """At each mount Kubernetes gives all that lies in a volume with fsGroup to the group, to read and to write."""
    with _running_as_somebody(volume, tmp_path / "log", "--reader_group=1000") as first:
        pass
    for path in [volume, *volume.rglob("*")]:
        os.chown(path, -1, 1000)
        path.chmod(mode_of(path) | (0o2770 if path.is_dir() else 0o660))
    with (
        _running_as_somebody(volume, tmp_path / "log", "--reader_group=1000") as second,
        Connection(second["socket"]) as connection,
    ):
        assert connection.hello() == first["node_id"] == second["node_id"]
        assert mode_of(Path(second["socket"]).parent) & 0o027 == 0, "the group passes through, and no more"


def test_a_directory_deleted_while_its_daemon_is_waited_for_is_made_again(
    cache_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever waits for the one that is just starting it finds neither."""
    find, asked = daemon.find, list[Path]()

    def looks(directory: Path) -> NodeEndpoint | None:
        asked.append(directory)
        if len(asked) == 2:  # its turn has come
            shutil.rmtree(directory)
        return find(directory)

    monkeypatch.setattr(daemon, "find", looks)
    endpoint = daemon.find_or_start(cache_dir, quota_bytes=1 << 20, idle_exit_s=1)
    assert find(cache_dir) == endpoint


def test_a_directory_deleted_under_a_daemon_is_left_to_the_next_one(cache_dir: Path) -> None:
    first = daemon.find_or_start(cache_dir, quota_bytes=1 << 20, idle_exit_s=30)
    process = psutil.Process(json.loads((cache_dir / "node.json").read_text())["pid"])
    shutil.rmtree(cache_dir, ignore_errors=True)
    assert daemon.find(cache_dir) is None
    second = daemon.find_or_start(cache_dir, quota_bytes=1 << 20, idle_exit_s=30)
    assert second.node_id != first.node_id
    wait_until(lambda: not process.is_running(), "the first one notices", 10)
    for address in (second.socket, second.control.removeprefix("unix:"), second.coordinator.removeprefix("unix:")):
        assert Path(address).is_socket(), "the first one removed what was the second's"
    assert daemon.find(cache_dir) == second
    assert daemon.find_or_start(cache_dir) == second
    assert len(daemons(cache_dir)) == 1


@pytest.mark.parametrize("part", ["run", "node.json", "node.lock"])
def test_a_daemon_that_cannot_be_found_any_more_leaves(cache_dir: Path, part: str) -> None:
    daemon.find_or_start(cache_dir, quota_bytes=1 << 20, idle_exit_s=30)
    process = psutil.Process(json.loads((cache_dir / "node.json").read_text())["pid"])
    if part == "run":
        shutil.rmtree(cache_dir / "run")
    else:
        (cache_dir / part).unlink()
    wait_until(lambda: not process.is_running(), "it leaves", 10)
    again = daemon.find_or_start(cache_dir, quota_bytes=1 << 20, idle_exit_s=30)
    assert daemon.find(cache_dir) == again
    assert "this node leaves" in (cache_dir / "log" / "node.log").read_text()


def test_a_daemon_whose_starter_is_gone_serves_without_complaint(cache_dir: Path) -> None:
    cache_dir.mkdir(mode=0o700)
    read_end, write_end = os.pipe()
    os.close(read_end)
    with (cache_dir / "stderr").open("wb") as log:
        process = warm.Popen(
            [sys.executable, "-m", NODE, f"--cache_dir={cache_dir}", "--quota=1MiB"], stdout=write_end, stderr=log
        )
    os.close(write_end)
    wait_until(lambda: daemon.find(cache_dir) is not None, "it is ready")
    process.terminate()
    assert process.wait(60) == 0
    assert "Traceback" not in (cache_dir / "stderr").read_text()
    assert "Broken pipe" in (cache_dir / "stderr").read_text()


def test_a_directory_that_is_another_ones_by_now_is_not_cleaned_up(tmp_path: Path) -> None:
    first = CacheDirectory(tmp_path / "cache")
    first.announce(socket="a")
    assert first.what_is_lost() == "reader.sock"
    shutil.rmtree(tmp_path / "cache")
    assert first.what_is_lost() == "node.lock"
    second = CacheDirectory(tmp_path / "cache")
    second.announce(socket="b")
    (second.sockets / "reader.sock").touch()
    first.close()
    assert json.loads((tmp_path / "cache" / "node.json").read_text())["socket"] == "b"
    assert second.what_is_lost() == ""
    with pytest.raises(errors.AlreadyRunningError, match=f"pid {os.getpid()} has it"):
        CacheDirectory(tmp_path / "cache")
    second.close()
    assert not list((tmp_path / "cache" / "run").iterdir())
