"""A node whose disk hangs: it is a member all the same, and ends when it is told to."""

from __future__ import annotations

import random
import signal
import threading
from pathlib import Path

import grpc
import pytest

from tests.support import node_calls, warm
from tests.support.cluster import Server, wait_until
from tests.support.disks import dead, ext4
from tests.support.hanging_disk import hanging_disk
from tests.support.mounted import command, mounted
from tests.support.privileges import needs_dead_mounts, needs_disks, needs_fuse
from tests.support.store_node import write_files
from tfquiver.grpc_plumbing import rpc
from tfquiver.proto.tfquiver.v1 import named_datasets_pb2, named_datasets_pb2_grpc
from tfquiver.scanning.cutting import CutPolicy

NODE_TIMEOUT_MS = 1000


@needs_disks
def test_heartbeats_go_on_and_it_ends_when_it_is_told_to(tmp_path: Path) -> None:
    pattern = write_files(tmp_path / "data", files=3, records_each=200)
    flags = ["--port=0", f"--work_dir={tmp_path / 'work'}", f"--node_timeout_ms={NODE_TIMEOUT_MS}"]
    coordinator = Server("tfquiver.service.coordinator.main", flags, tmp_path / "coordinator.log").start()
    with ext4(tmp_path) as disk:
        node = Server(
            "tfquiver.service.node.main",
            [f"--cache_dir={disk.path / 'cache'}", "--quota=4MiB", f"--coordinator={coordinator.address}"],
            tmp_path / "node.log",
        ).start()
        try:
            disk.freeze()
            scan = threading.Thread(target=_ensured, args=(node.ready["control"], pattern), daemon=True)
            scan.start()  # its inserts wait for the disk
            begun = node_calls.status(node.ready["control"]).store_bytes
            wait_until(lambda: node_calls.status(node.ready["control"]).store_bytes > begun, "it reads")
            for _ in range(2):  # each longer than a node may be silent
                threading.Event().wait(NODE_TIMEOUT_MS / 1000)
                assert [its.node_id for its in node_calls.nodes(coordinator.address)] == [node.ready["node_id"]]
            node.process.send_signal(signal.SIGTERM)
            wait_until(lambda: not node_calls.nodes(coordinator.address), "it is no member any more", 10)
        finally:
            disk.thaw()
            code = node.stop()
            scan.join(10)
            coordinator.stop()
    # Where gRPC waits for the disk with the interpreter's lock only the kernel can end it.
    assert code in (0, -signal.SIGALRM), node.log_tail()


@pytest.mark.slow
@needs_fuse
def test_a_coordinator_whose_log_waits_for_the_disk_ends_and_the_next_one_goes_on(tmp_path: Path) -> None:
    """It waited for its log for as long as the disk hung, and nobody could take its place."""
    with hanging_disk(tmp_path) as disk:
        flags = ["--port=0", f"--work_dir={disk.path / 'work'}"]
        coordinator = Server("tfquiver.service.coordinator.main", flags, tmp_path / "coordinator.log").start()
        try:
            disk.hang()
            with rpc.channel(coordinator.address) as channel:
                stub = named_datasets_pb2_grpc.NamedDatasetsStub(channel)
                spec = named_datasets_pb2.DatasetSpec(name="n", sources=["/data/*"])
                with pytest.raises(grpc.RpcError) as raised:
                    stub.Create(spec, timeout=1.0, wait_for_ready=True)
            assert raised.value.code() is grpc.StatusCode.DEADLINE_EXCEEDED
            assert coordinator.stop(20) == 0
            assert "leaving all the same" in coordinator.log_tail()
            disk.go_on()
            coordinator.restart()
            assert not node_calls.nodes(coordinator.address)
        finally:
            disk.go_on()
            coordinator.stop()


@pytest.mark.slow
@needs_dead_mounts
@pytest.mark.parametrize("kind, flags", [
    ("node", ["--cache_dir"]), ("coordinator", ["--work_dir"]), ("coordinator", ["--standby", "--work_dir"]),
])  # fmt: skip
def test_who_waits_for_a_disk_from_the_start_says_so_and_ends_when_it_is_told_to(
    tmp_path: Path, kind: str, flags: list[str]
) -> None:
    """A coordinator heard no signal: only a kill ended it."""
    with dead(tmp_path / "mount") as mount:
        *others, flag = flags
        arguments = ["--port=0", *others, f"{flag}={mount / 'x'}"]
        server = Server(f"tfquiver.service.{kind}.main", arguments, tmp_path / "log").launch()
        try:
            wait_until(lambda: f"{mount / 'x'}: has been starting for 10 s" in server.log_tail(), "it says so", 30)
            server.stop(10)
        finally:
            server.kill()


@pytest.mark.slow
@needs_fuse
def test_servers_that_begin_while_their_disk_hangs_end_when_they_are_told_to(tmp_path: Path) -> None:
    """Its directories are known to the kernel: what they wait for is a file that is opened, or read."""
    with hanging_disk(tmp_path) as disk:
        servers = [
            Server(f"tfquiver.service.{kind}.main", ["--port=0", f"--{flag}={disk.path / kind}"], tmp_path / kind)
            for kind, flag in (("coordinator", "work_dir"), ("node", "cache_dir"))
        ]
        for server in servers:
            server.start().stop()
        disk.hang()
        try:
            # One after the other: the directory that both lie in has a lock, and who waits for that hears no signal.
            for server in servers:
                server.launch()
                wait_until(lambda one=server: _waits_in_the_kernel(one), "it waits for the disk")  # type: ignore[misc]
                server.stop(10)
        finally:
            disk.go_on()
            for server in servers:
                server.kill()


def _waits_in_the_kernel(server: Server) -> bool:
    """Some thread of it, for what a file system of FUSE is to answer."""
    threads = Path(f"/proc/{server.process.pid}/task").iterdir()
    return any("request_wait_answer" in (thread / "stack").read_text() for thread in threads)


@pytest.mark.long
@needs_fuse
@needs_disks
def test_misses_are_served_though_the_log_is_on_that_disk(tmp_path: Path) -> None:
    """As it is where nobody says otherwise: the first line about the disk held the node, and all its readers."""
    source = tmp_path / "data"
    source.mkdir()
    for number in range(8):
        (source / f"{number}").write_bytes(random.Random(number).randbytes(1_000_000))
    with (
        ext4(tmp_path, 128 << 20) as disk,
        mounted(tmp_path / "mnt", disk.path / "cache", [str(source)], "--read_ahead=0", "--patience_s=10") as mount,
    ):
        warm.run(command("clear", disk.path / "cache"), check=True, capture_output=True)
        disk.freeze()
        try:
            for path in sorted(source.iterdir()):
                assert (mount.point / path.name).read_bytes() == path.read_bytes()
        finally:
            disk.thaw()


def _ensured(control: str, pattern: Path) -> None:
    try:
        node_calls.ensure(control, pattern, CutPolicy(4096, 16384, 65536))
    except Exception:  # noqa: BLE001 - the node ends meanwhile
        return
