"""`--log_format=json` of real servers: what goes wrong is found in the fields of the lines that say it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support import node_calls, rotating
from tests.support.cluster import Cluster, Server, wait_until
from tests.support.reader_client import ReaderClient
from tfquiver import errors
from tfquiver.grpc_plumbing import rpc
from tfquiver.proto.tfquiver.v1 import coordinator_pb2, coordinator_pb2_grpc, node_pb2, node_pb2_grpc
from tfquiver.scanning.cutting import CutPolicy

ALWAYS = {"time", "severity", "server", "pid", "where", "message"}
SOMETIMES = {"job", "dataset", "digest", "shard", "hash", "node", "suppressed", "traceback"}
JOB = "sweep\n\x1b[2K" + "x" * 300  # as long and as bad as names may be
JSON = ["--log_format=json", "--verbosity=0"]
SHARDS = 4


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    flags = {"coordinator": JSON, "node": [*JSON, "--fetch_deadline_s=1"]}
    with Cluster(tmp_path / "cluster", workers=0, flags=flags) as running:
        yield running


def lines(server: Server) -> list[dict[str, Any]]:
    """All whole ones."""
    return [json.loads(line) for line in server.log.read_text().splitlines(keepends=True) if line.endswith("\n")]


def about(server: Server, **fields: Any) -> list[dict[str, Any]]:
    return [line for line in lines(server) if all(line.get(name) == value for name, value in fields.items())]


def told(server: Server, **fields: Any) -> list[dict[str, Any]]:
    """As `about`, when there are some: servers answer before their lines are written."""
    wait_until(lambda: bool(about(server, **fields)), f"a line about {fields}")
    return about(server, **fields)


def call(address: str, stub: type[Any], method: str, request: Any) -> Any:
    with rpc.channel(address) as channel:
        return getattr(stub(channel), method)(request, timeout=20.0, wait_for_ready=True)


def test_what_happened_is_found_by_job_data_set_shard_and_node(cluster: Cluster, tmp_path: Path) -> None:
    node = cluster.node
    assert node is not None
    control = node.ready["control"]

    # A fetch that fails: the file of a shard that is not cached has gone.
    rotating.write(tmp_path / "data", SHARDS)
    dataset = node_calls.ensure(control, tmp_path / "data" / "part-*", CutPolicy(1, 1, 1))
    call(control, node_pb2_grpc.NodeStub, "Clear", node_pb2.ClearRequest())
    for path in (tmp_path / "data").iterdir():
        path.unlink()
    client = ReaderClient(node.ready["socket"], dataset.digest_id, session_key="key", job=JOB)
    with pytest.raises(errors.TfquiverError):
        list(client.records())
    client.close()
    [line, *_] = told(node, digest=dataset.digest_id.hex(), dataset="test")
    assert line["job"].startswith(r"sweep\n\x1b[2Kxxx") and len(line["job"]) < 220
    assert line["shard"] in range(SHARDS)
    assert line["severity"] == "WARNING" and str(tmp_path / "data") in line["message"]

    # A scan of what are no records.
    (tmp_path / "bad").write_bytes(b"no records" * 100)
    with pytest.raises(Exception, match="bad"):
        node_calls.ensure(control, tmp_path / "bad")
    scanned = "scan: "
    wait_until(lambda: any(line["message"].startswith(scanned) for line in lines(node)), "the scan is told of")
    assert [line["dataset"] for line in lines(node) if line["message"].startswith(scanned)] == ["test"]

    # What a person has said of a job.
    request = coordinator_pb2.AllocateRemoteIORequest(job="other", bytes_per_s=1000)
    call(cluster.coordinator.address, coordinator_pb2_grpc.CoordinatorStub, "AllocateRemoteIO", request)
    assert ["may read 1000 bytes/s" in line["message"] for line in told(cluster.coordinator, job="other")] == [True]

    # A node that is lost.
    where = f"--coordinator={cluster.coordinator.address}"
    second = cluster.add("node", f"--cache_dir={tmp_path / 'second'}", "--quota=64MiB", where, name="second").start()
    node_id = second.ready["node_id"]
    second.kill()
    wait_until(
        lambda: any("is lost" in line["message"] for line in about(cluster.coordinator, node=node_id)), "it is lost"
    )

    for server in (cluster.coordinator, node, second):
        for line in lines(server):
            assert ALWAYS <= line.keys() <= ALWAYS | SOMETIMES, line
            assert all(
                len(value) <= 220
                for name, value in line.items()
                if name in SOMETIMES - {"shard", "suppressed", "traceback"}
            )
