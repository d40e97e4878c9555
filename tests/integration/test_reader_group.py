"""Trainers of other users: who is in the group reads, and changes nothing; who is not is not let in. As root only."""

from __future__ import annotations

import contextlib
import errno
import json
import mmap
import os
import shutil
import stat
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import grpc
import pytest

from tests.support import node_calls
from tests.support.as_user import as_user
from tests.support.cluster import Server
from tests.support.reader_client import Connection, ReaderClient
from tests.support.store_node import write_files
from tfquiver.grpc_plumbing import rpc
from tfquiver.messages_and_binary_formats import reader_frames as frames
from tfquiver.node_daemon_and_notes_in_directories import cluster_file
from tfquiver.node_daemon_and_notes_in_directories.node_endpoint import read_endpoint
from tfquiver.proto.tfquiver.v1 import coordinator_pb2 as pb
from tfquiver.proto.tfquiver.v1 import coordinator_pb2_grpc, types_pb2
from tfquiver.scanning.cutting import CutPolicy

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root becomes other users")
NODE = "tfquiver.service.node.main"
USER, GROUP, OTHER_GROUP = 54_321, 54_400, 54_401
POLICY = CutPolicy(1024, 4096, 16384)


class Place:
    def __init__(self, root: Path, node: Server, dataset: types_pb2.Dataset) -> None:
        self.root, self.cache, self.node, self.dataset = root, root / "cache", node, dataset


@pytest.fixture(scope="module", params=["raw", "zstd"])
def place(request: pytest.FixtureRequest) -> Iterator[Place]:
    """Embedded; in a folder that others can reach, as that of pytest is not."""
    root = Path(tempfile.mkdtemp(prefix="tfquiver-group-"))
    root.chmod(0o755)
    node = Server(
        NODE, [f"--cache_dir={root / 'cache'}", "--quota=64MiB", f"--reader_group={GROUP}", f"--codec={request.param}"],
        root / "node.log",
    )  # fmt: skip
    try:
        node.start()
        yield Place(root, node, node_calls.ensure(node.ready["control"], write_files(root / "data"), POLICY))
    finally:
        node.stop()
        shutil.rmtree(root)


def descriptors_of(place: Place) -> list[int]:
    """Of the first shards that the node passes; this process's."""
    with Connection(place.node.ready["socket"]) as connection:
        connection.hello()
        connection.send(frames.Open("", "key", place.dataset.digest_id, "job", "r", 1 << 20, frames.Wish(), False))
        found: list[int] = []
        while len(found) < 3:
            frame, descriptor = connection.receive()
            if isinstance(frame, frames.Shard):
                found.append(descriptor)
    return found


def number(call: Callable[[], object]) -> int:
    """0, or the errno with which it fails."""
    try:
        call()
    except OSError as error:
        return error.errno or -1
    return 0


@pytest.mark.parametrize(("gid", "groups"), [(GROUP, []), (OTHER_GROUP, [GROUP])])
def test_who_is_in_the_group_reads_it_all(place: Place, gid: int, groups: list[int]) -> None:
    def read() -> int:
        endpoint = read_endpoint(place.cache)
        reader = ReaderClient(endpoint.socket, place.dataset.digest_id, job=f"of {gid}{groups}", session_key=str(gid))
        found = sum(1 for _ in reader.shards())
        reader.close()
        return found

    assert as_user(USER, gid, groups, read) == place.dataset.shards


def test_who_is_in_the_group_finds_the_cluster_also_while_its_node_is_away() -> None:
    with tempfile.TemporaryDirectory(prefix="tfquiver-group-") as name, contextlib.ExitStack() as stack:
        root = Path(name)
        root.chmod(0o755)

        def started(module: str, *flags: str) -> Server:
            server = Server(module, list(flags), root / f"{module}.log").start()
            stack.callback(server.stop)
            return server

        coordinator = started("tfquiver.service.coordinator.main", "--port=0", f"--work_dir={root / 'work'}").address
        node = started(NODE, f"--cache_dir={root / 'cache'}", f"--coordinator={coordinator}", f"--reader_group={GROUP}")
        for _ in ("there", "away"):
            assert as_user(USER, GROUP, [], lambda: cluster_file.read(root / "cache")) == coordinator
            assert as_user(USER, OTHER_GROUP, [], lambda: cluster_file.read(root / "cache")) == ""
            node.kill()


def test_who_is_not_in_it_is_not_let_in(place: Place) -> None:
    def connect() -> list[int]:
        return [
            number(lambda: (place.cache / "node.json").read_bytes()),
            number(lambda: Connection(place.node.ready["socket"])),
        ]

    assert as_user(USER, OTHER_GROUP, [], connect) == [errno.EACCES, errno.EACCES]


def test_the_node_asks_who_it_is_even_where_the_socket_would_let_them(place: Place) -> None:
    """As where somebody has opened the folder and the socket."""
    path = Path(place.node.ready["socket"])
    was = stat.S_IMODE(path.stat().st_mode)
    path.chmod(0o666)
    for folder in (place.cache, path.parent):
        folder.chmod(0o711)
    try:
        with pytest.raises(RuntimeError, match=r"ReaderGoneError|ConnectionReset|BrokenPipe"):
            as_user(USER, OTHER_GROUP, [], lambda: Connection(path).hello())
    finally:
        path.chmod(was)
        for folder in (place.cache, path.parent):
            folder.chmod(0o710)


def test_the_group_reaches_the_sockets_and_nothing_else(place: Place) -> None:
    def look() -> set[str]:
        reached = set()
        known = [path for path in everything if os.access(path, os.R_OK) or os.access(path, os.W_OK)]
        for path in known:
            reached.add(path.name)
        return reached

    everything = [place.cache, *place.cache.rglob("*"), Path(place.node.ready["socket"]).parent]
    assert any(path.parent.name == "digests" for path in everything)
    assert as_user(USER, GROUP, [], look) == {"node.json", "reader.sock", "control.sock", "readers.sock"}
    assert not os.access(place.cache / "x", os.F_OK)


def test_what_is_passed_cannot_be_changed(place: Place) -> None:
    """Neither through the descriptor, nor by opening again what it stands for."""
    passed = descriptors_of(place)
    before = [os.pread(descriptor, 1 << 24, 0) for descriptor in passed]

    def attack() -> list[list[int]]:
        found = []
        for descriptor in passed:
            again = f"/proc/self/fd/{descriptor}"

            def rewrite(path: str = again) -> None:
                opened = os.open(path, os.O_RDWR)
                try:
                    os.pwrite(opened, b"poison", 0)
                finally:
                    os.close(opened)

            def truncate(path: str = again) -> None:
                opened = os.open(path, os.O_RDWR | os.O_TRUNC)
                os.close(opened)

            def mapped(fd: int = descriptor) -> None:
                mmap.mmap(fd, 0, mmap.MAP_SHARED, mmap.PROT_WRITE)[0] = 1

            found.append(
                [
                    number(lambda fd=descriptor: os.pwrite(fd, b"poison", 0)),
                    number(lambda fd=descriptor: os.ftruncate(fd, 0)),
                    number(lambda fd=descriptor: os.fchmod(fd, 0o777)),
                    number(mapped),
                    number(rewrite),
                    number(truncate),
                    number(lambda fd=descriptor: os.posix_fallocate(fd, 0, 1 << 20)),
                ]
            )
        return found

    for failed in as_user(USER, GROUP, [], attack):
        assert all(failed), failed
    assert [os.pread(descriptor, 1 << 24, 0) for descriptor in passed] == before
    for descriptor in passed:
        os.close(descriptor)


def test_on_its_socket_the_group_is_a_job(place: Place) -> None:
    """Who is in it owns what it has the node scan, and is neither node nor admin."""
    address = json.loads((place.cache / "node.json").read_text())["coordinator"]
    assert address.endswith("readers.sock")
    with rpc.channel(address) as channel:
        stub = coordinator_pb2_grpc.CoordinatorStub(channel)
        for method, request in (
            ("Heartbeat", pb.HeartbeatRequest()),
            ("Ack", pb.AckRequest()),
            ("OpenReader", pb.OpenReaderRequest()),
        ):
            with pytest.raises(grpc.RpcError, match="is not for job readers"):
                getattr(stub, method)(request, timeout=20.0)
        assert [one.digest_id for one in stub.ListDatasets(pb.ListDatasetsRequest(), timeout=20.0).datasets] == []


def test_without_the_flag_nobody_else_is_let_in(tmp_path: Path) -> None:
    root = Path(tempfile.mkdtemp(prefix="tfquiver-group-"))
    node = Server(NODE, [f"--cache_dir={root / 'cache'}", "--quota=0"], root / "node.log")
    try:
        node.start()
        root.chmod(0o755)
        for folder in (root / "cache", Path(node.ready["socket"]).parent):
            folder.chmod(0o711)
        Path(node.ready["socket"]).chmod(0o666)
        with pytest.raises(RuntimeError, match=r"ReaderGoneError|ConnectionReset|BrokenPipe"):
            as_user(USER, GROUP, [GROUP], lambda: Connection(node.ready["socket"]).hello())
    finally:
        node.stop()
        shutil.rmtree(root)


@pytest.mark.parametrize("group", ["no-such-group", "-1", str(1 << 33)])
def test_a_group_that_cannot_be_is_named(tmp_path: Path, group: str) -> None:
    command = [sys.executable, "-m", NODE, f"--cache_dir={tmp_path / 'cache'}", f"--reader_group={group}"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=30)
    assert done.returncode == 1
    assert f"--reader_group={group}" in done.stderr
