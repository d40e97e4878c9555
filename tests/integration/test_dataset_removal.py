"""Removing data sets from a running cluster, and from what is on disk."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import grpc
import pytest

from tests.support import node_calls, warm
from tests.support.cluster import Server, wait_until
from tests.support.store_node import write_files
from tfquiver.grpc_plumbing import rpc
from tfquiver.proto.tfquiver.v1 import coordinator_pb2 as pb
from tfquiver.proto.tfquiver.v1 import coordinator_pb2_grpc, types_pb2
from tfquiver.scanning.cutting import CutPolicy

POLICY = CutPolicy(1024, 4096, 16384)


class Place:
    def __init__(self, root: Path) -> None:
        self.root = root
        self.coordinator = Server(
            "tfquiver.service.coordinator.main", ["--port=0", f"--work_dir={root / 'work'}"], root / "coordinator.log"
        ).start()
        flags = [f"--cache_dir={root / 'cache'}", f"--coordinator={self.coordinator.address}", "--quota=64MiB"]
        self.node = Server("tfquiver.service.node.main", flags, root / "node.log").start()

    def call(self, method: str, request: object) -> object:
        with rpc.channel(self.coordinator.address) as channel:
            stub = coordinator_pb2_grpc.CoordinatorStub(channel)
            return getattr(stub, method)(request, timeout=20.0, wait_for_ready=True)

    def scan(self, pattern: Path) -> types_pb2.Dataset:
        return node_calls.ensure(self.node.ready["control"], pattern, POLICY)

    def entries(self) -> int:
        return int(node_calls.status(self.node.ready["control"]).entries)

    def store_bytes(self) -> int:
        return int(node_calls.status(self.node.ready["control"]).store_bytes)

    def on_disk(self, dataset: types_pb2.Dataset) -> list[Path]:
        places = (self.root / "work" / "digests", self.root / "cache" / "digests")
        return [path for place in places if (path := place / f"{dataset.digest_id.hex()}.tfqd").exists()]

    def command(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "tfquiver.cli.main", "dataset", *arguments]
        command += ["--service", self.coordinator.address]
        return warm.run(command, capture_output=True, text=True, timeout=30)


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[[], Place]]:
    places: list[Place] = []

    def made() -> Place:
        places.append(Place(tmp_path))
        return places[-1]

    yield made
    for place in places:
        place.node.stop()
        place.coordinator.stop()


@pytest.fixture
def place(start: Callable[[], Place]) -> Place:
    return start()


def test_everything_of_it_goes_but_what_others_share(place: Place, tmp_path: Path) -> None:
    pattern = write_files(tmp_path / "data", files=2, records_each=60)
    whole = place.scan(pattern)
    part = place.scan(tmp_path / "data" / "0.tfrecord")
    assert place.entries() == whole.shards
    setting = types_pb2.CacheSetting(mode=types_pb2.CACHE_MODE_UNIFORM, allocation_bytes=60 << 20)
    place.call("SetCache", pb.SetCacheRequest(digest_id=whole.digest_id, setting=setting))
    for _ in range(2):
        assert not place.call("DeleteDataset", pb.DeleteDatasetRequest(digest_id=whole.digest_id)).owners  # type: ignore[attr-defined]
    wait_until(lambda: place.entries() == part.shards, "what it alone had is deleted")
    wait_until(lambda: not place.on_disk(whole), "its digests are deleted")
    assert place.on_disk(part)
    for method, request in (
        ("FindDataset", pb.FindDatasetRequest(digest_id=whole.digest_id)),
        ("FindDataset", pb.FindDatasetRequest(name="other")),
        ("GetCache", pb.GetCacheRequest(digest_id=whole.digest_id)),
        ("SetCache", pb.SetCacheRequest(digest_id=whole.digest_id, setting=setting)),
    ):
        with pytest.raises(grpc.RpcError) as raised:
            place.call(method, request)
        assert raised.value.code() is grpc.StatusCode.NOT_FOUND
    place.call("SetCache", pb.SetCacheRequest(digest_id=part.digest_id, setting=setting))  # its room is free again
    read_bytes = place.store_bytes()
    assert place.scan(pattern).digest_id == whole.digest_id  # its files are known: they are read when somebody reads
    assert place.store_bytes() == read_bytes


def test_nobody_is_interrupted_unless_it_is_said(place: Place, tmp_path: Path) -> None:
    dataset = place.scan(write_files(tmp_path / "data", files=1, records_each=60))
    opened = pb.OpenReaderRequest(
        session_key="k", digest_id=dataset.digest_id, job="run", reader_id="r", node_id="n", incarnation="1"
    )
    session_id = place.call("OpenReader", opened).session_id  # type: ignore[attr-defined]
    done = place.command("delete", "test")
    assert done.returncode == 1
    assert "1 reader reads data set 'test' (" in done.stderr and "--force" in done.stderr
    done = place.command("delete", "test", "--force", "--json")
    assert json.loads(done.stdout) == {"digest_id": dataset.digest_id.hex(), "removed": True, "owners": []}
    lease = pb.LeaseRequest(session_id=session_id, reader_id="r", sequence=1, max_shards=1)
    for method, request in (("Lease", lease), ("OpenReader", opened)):
        with pytest.raises(grpc.RpcError) as raised:
            place.call(method, request)
        assert raised.value.code() is grpc.StatusCode.NOT_FOUND
    assert place.command("delete", dataset.digest_id.hex()).returncode == 0
    done = place.command("delete", "test")
    assert (done.returncode, "no data set 'test'" in done.stderr) == (1, True)


def test_a_coordinator_killed_half_way_removes_the_rest_at_its_start(place: Place, tmp_path: Path) -> None:
    dataset = place.scan(write_files(tmp_path / "data", files=1, records_each=60))
    digest = tmp_path / "work" / "digests" / f"{dataset.digest_id.hex()}.tfqd"
    shutil.copy(digest, tmp_path / "copy")
    assert len(place.on_disk(dataset)) == 2, "the node keeps its digest, too: who hears of it may delete it"
    place.node.kill()
    assert place.command("delete", "test").returncode == 0
    for _ in range(2):  # from the log, then from its snapshot
        place.coordinator.kill()
        shutil.copy(tmp_path / "copy", digest)  # as if it had died before it came to delete it
        place.coordinator.launch_again().await_ready()
        assert not digest.exists()
        with pytest.raises(grpc.RpcError, match="no data set"):
            place.call("FindDataset", pb.FindDatasetRequest(digest_id=dataset.digest_id))
    place.node.launch_again().await_ready()  # it was away, and hears of it now
    wait_until(lambda: place.entries() == 0 and not place.on_disk(dataset), "the node has deleted it")


def test_a_coordinator_that_knows_nothing_deletes_nothing(place: Place, tmp_path: Path) -> None:
    dataset = place.scan(write_files(tmp_path / "data", files=1, records_each=60))
    place.coordinator.kill()
    shutil.rmtree(tmp_path / "work")
    place.coordinator.launch_again().await_ready()
    wait_until(lambda: bool(node_calls.nodes(place.coordinator.address)), "the node is a member")
    again = place.scan(tmp_path / "data" / "*.tfrecord")
    assert (place.entries(), again.digest_id) == (dataset.shards, dataset.digest_id)


def test_a_setting_whose_digest_was_lost_takes_no_room_and_can_be_taken_away(place: Place, tmp_path: Path) -> None:
    lost = place.scan(write_files(tmp_path / "lost", files=1, records_each=60))
    other = place.scan(write_files(tmp_path / "other", files=1, records_each=70))
    setting = types_pb2.CacheSetting(mode=types_pb2.CACHE_MODE_UNIFORM, allocation_bytes=60 << 20)
    place.call("SetCache", pb.SetCacheRequest(digest_id=lost.digest_id, setting=setting))
    place.coordinator.kill()
    (tmp_path / "work" / "digests" / f"{lost.digest_id.hex()}.tfqd").unlink()
    place.coordinator.launch_again().await_ready()
    wait_until(lambda: bool(node_calls.nodes(place.coordinator.address)), "the node is a member")
    orders = place.call("Orders", pb.OrdersRequest()).orders  # type: ignore[attr-defined]
    assert not orders
    place.call("SetCache", pb.SetCacheRequest(digest_id=other.digest_id, setting=setting))
    assert place.command("set-cache", lost.digest_id.hex(), "unset").returncode == 0
    assert place.command("set-cache", other.digest_id.hex(), "unset", "--json").returncode == 0
    assert not place.call("Orders", pb.OrdersRequest()).orders  # type: ignore[attr-defined]
