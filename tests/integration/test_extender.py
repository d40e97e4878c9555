"""The scheduler extender as a process: kube-scheduler's questions over HTTP, a real coordinator with its nodes."""

from __future__ import annotations

import json
import random
import signal
import socket
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support import node_calls, records
from tests.support.cluster import Server, wait_until
from tfquiver.grpc_plumbing import rpc
from tfquiver.proto.tfquiver.v1 import coordinator_pb2 as pb
from tfquiver.proto.tfquiver.v1 import coordinator_pb2_grpc, named_datasets_pb2, named_datasets_pb2_grpc, types_pb2
from tfquiver.service.extender import server

EXTENDER = "tfquiver.service.extender.main"
MACHINES = ["machine-a", "machine-b", "machine-c"]


class Place:
    """Machines a and c are of one rack, b of another; c has no node. The data set is a's alone."""

    def __init__(self, root: Path) -> None:
        rng = random.Random(4)
        self.root = root
        (root / "train-0").write_bytes(records.stream([rng.randbytes(2000) for _ in range(300)]))
        arguments = ["--port=0", f"--work_dir={root / 'work'}", "--node_timeout_ms=2000"]
        self.coordinator = Server("tfquiver.service.coordinator.main", arguments, root / "coordinator.log").start()
        there = f"--coordinator={self.coordinator.address}"
        self.nodes = [
            Server(
                "tfquiver.service.node.main",
                [f"--cache_dir={root / name}", "--quota=64MiB", there, f"--labels=host={name},rack={rack}"],
                root / f"{name}.log",
            ).start()
            for name, rack in (("machine-a", "r1"), ("machine-b", "r2"))
        ]
        self.extender = Server(EXTENDER, [there, "--port=0"], root / "extender.log").start()

    def place(self) -> None:
        """Has the data set scanned, and kept on machine a alone."""
        wait_until(lambda: len(node_calls.nodes(self.coordinator.address)) == 2, "both are members")
        with rpc.channel(self.coordinator.address) as channel:
            stub = named_datasets_pb2_grpc.NamedDatasetsStub(channel)
            spec = named_datasets_pb2.DatasetSpec(name="team.train", sources=[str(self.root / "train-*")])
            stub.Create(spec, timeout=20, wait_for_ready=True)
            request = named_datasets_pb2.GetNamedDatasetRequest(name="team.train", resident=True)
            wait_until(lambda: stub.Get(request, timeout=20).version > 0, "it is scanned", 60.0)
            digest_id = stub.Get(request, timeout=20).dataset.digest_id
            coordinator: Any = coordinator_pb2_grpc.CoordinatorStub(channel)
            rule = types_pb2.PlacementRule(selector="host=machine-a")
            coordinator.SetPlacement(pb.SetPlacementRequest(digest_id=digest_id, rule=rule), timeout=20)
            asked = pb.GetPlacementRequest(digest_id=digest_id)
            wait_until(lambda: coordinator.GetPlacement(asked, timeout=20).settled, "it is where it belongs", 60.0)

    def ask(self, what: str, body: bytes) -> Any:
        url = f"http://127.0.0.1:{self.extender.port}/{what}"
        request = urllib.request.Request(url, body, {"Content-Type": "application/json"})
        with urllib.request.urlopen(request, timeout=20) as reply:
            return json.loads(reply.read())

    def scores(self, dataset: str = "team.train") -> dict[str, int]:
        answer = self.ask("prioritize", args(dataset))
        return {one["Host"]: one["Score"] for one in answer}

    def stop(self) -> list[int]:
        return [server.stop() for server in (self.extender, *self.nodes, self.coordinator)]


def labels_of_a_machine(rack: str) -> dict[str, str]:
    """Some forty, as clouds and discovery of features give them; one has a key of the longest kind."""
    found = {f"feature.node.kubernetes.io/cpu-cpuid.{number}": "true" for number in range(40)}
    return {**found, f"{'longest.' * 20}example.com/{'a' * 63}": "", "rack": rack}


def args(dataset: str = "team.train", require: bool = False, job: str = "") -> bytes:
    annotations = {"tfquiver.dev/dataset": dataset} | ({"tfquiver.dev/placement": "Require"} if require else {})
    racks = {"machine-a": "r1", "machine-b": "r2", "machine-c": "r1"}
    items = [{"metadata": {"name": name, "labels": labels_of_a_machine(rack)}} for name, rack in racks.items()]
    meta = {"name": "p", "annotations": annotations, "labels": {"tfquiver.dev/training-job": job}}
    pod = {"metadata": meta, "spec": {"containers": [{"name": "main"}]}}
    return json.dumps({"Pod": pod, "Nodes": {"items": items}, "NodeNames": None}).encode()


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    place = Place(tmp_path)
    try:
        place.place()
        yield place
    finally:
        codes = place.stop()
    assert set(codes) <= {0, -signal.SIGKILL}


def test_the_machine_that_has_it_then_its_rack_then_the_others(place: Place) -> None:
    scores = place.scores()
    assert scores["machine-a"] == 10
    assert scores["machine-a"] > scores["machine-c"] > scores["machine-b"]
    kept = place.ask("filter", args(require=True))
    assert "machine-a" in [one["metadata"]["name"] for one in kept["Nodes"]["items"]]
    everywhere = place.ask("filter", args())
    assert len(everywhere["Nodes"]["items"]) == 3 and everywhere["FailedNodes"] == {}


def test_what_is_not_known_changes_nothing(place: Place) -> None:
    assert set(place.scores("no.such").values()) == {0}
    assert set(place.scores("").values()) == {0}
    refused = place.ask("prioritize", args(job="\N{GRINNING FACE}" * 250))
    assert {one["Score"] for one in refused} == {0}, "its name is longer than one can be"
    assert place.scores()["machine-a"] == 10, "one that is not known does not silence the others"


def test_a_coordinator_that_is_away_or_hangs_keeps_no_pod_waiting(place: Place) -> None:
    place.coordinator.process.send_signal(signal.SIGSTOP)
    try:
        began_s = time.monotonic()
        assert set(place.scores("another.set").values()) == {0}
        assert time.monotonic() - began_s < 5.0, "--within_s is a second"
        began_s = time.monotonic()
        for _ in range(20):
            assert set(place.scores().values()) == {0}
        assert time.monotonic() - began_s < 5.0, "after a failure nobody waits"
    finally:
        place.coordinator.process.send_signal(signal.SIGCONT)
    place.coordinator.kill()
    assert len(place.ask("filter", args(require=True))["Nodes"]["items"]) == 3
    place.coordinator.restart()
    wait_until(lambda: place.scores()["machine-a"] == 10, "it asks again", 60.0, 0.2)


def test_garbage_is_refused_and_the_server_lives(place: Place) -> None:
    for body in (b"", b"x", b"[]", b"{}", b'{"Pod": {}, "NodeNames": 3}', b"[" * 100_000, b"\xff" * 10):
        with pytest.raises(urllib.error.HTTPError) as refused:
            place.ask("prioritize", body)
        assert refused.value.code == 400
        refused.value.close()
    with socket.create_connection(("127.0.0.1", place.extender.port), 20.0) as sock:
        length = server.MAX_BODY_BYTES + 1
        sock.sendall(f"POST /filter HTTP/1.1\r\nHost: x\r\nContent-Length: {length}\r\n\r\n".encode() + b"x" * 65536)
        sock.shutdown(socket.SHUT_WR)
    assert place.scores()["machine-a"] == 10
    with urllib.request.urlopen(f"http://127.0.0.1:{place.extender.port}/healthz", timeout=20) as reply:
        assert reply.read() == b"ok\n"
