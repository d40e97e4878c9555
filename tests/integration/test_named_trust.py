"""Data sets that have names, where tokens have names: who may make, see, and change which."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest

from tests.support import records
from tests.support.cluster import wait_until
from tests.support.store_node import build, write_files
from tests.support.trusted import Trusted
from tfquiver.grpc_plumbing import rpc
from tfquiver.proto.tfquiver.v1 import coordinator_pb2, named_datasets_pb2_grpc
from tfquiver.proto.tfquiver.v1 import named_datasets_pb2 as pb
from tfquiver.scanning.cutting import CutPolicy

DENIED, NOT_FOUND = grpc.StatusCode.PERMISSION_DENIED, grpc.StatusCode.NOT_FOUND
IN_USE = grpc.StatusCode.FAILED_PRECONDITION


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Trusted]:
    trusted = Trusted(tmp_path)
    yield trusted
    trusted.close()


def call(cluster: Trusted, who: str, method: str, request: Any) -> Any:
    with rpc.channel(cluster.coordinator.address) as channel:
        return getattr(named_datasets_pb2_grpc.NamedDatasetsStub(channel), method)(
            request, timeout=20, metadata=rpc.metadata(cluster.tokens[who]), wait_for_ready=True
        )


def refusal(cluster: Trusted, who: str, method: str, request: Any) -> Any:
    with pytest.raises(grpc.RpcError) as raised:
        call(cluster, who, method, request)
    return raised.value.code()


def test_sources_are_for_admins_and_what_is_anothers_is_not_there(cluster: Trusted, tmp_path: Path) -> None:
    files = write_files(tmp_path / "data", files=1, records_each=40)
    of_source = pb.DatasetSpec(name="everybodys", sources=[str(files)])
    assert refusal(cluster, "blue", "Create", of_source) is DENIED, "nodes would read it, with what they may"
    assert refusal(cluster, "rack1", "Create", of_source) is DENIED
    call(cluster, "ann", "Create", of_source)
    get = pb.GetNamedDatasetRequest(name="everybodys")
    wait_until(lambda: call(cluster, "ann", "Get", get).state == pb.NamedDataset.STATE_READY, "it is scanned")
    assert refusal(cluster, "blue", "Get", get) is NOT_FOUND
    assert not call(cluster, "blue", "List", pb.ListNamedDatasetsRequest()).datasets
    digest_id = call(cluster, "ann", "Get", get).dataset.digest_id
    cluster.call("ann", "ShareDataset", coordinator_pb2.ShareDatasetRequest(digest_id=digest_id, names=["blue"]))
    assert call(cluster, "blue", "Get", get).owner == "ann"
    for method in ("Evict", "Delete", "Refresh", "Prefetch"):
        assert refusal(cluster, "blue", method, pb.NamedDatasetRequest(name="everybodys")) is DENIED, method
    assert refusal(cluster, "blue", "Pin", pb.PinDatasetRequest(name="everybodys", pinned=True)) is DENIED
    assert refusal(cluster, "blue", "ReportTask", pb.ReportTaskRequest(node_id="a", task_id="x/1")) is DENIED

    (tmp_path / "data" / "more.tfrecord").write_bytes(records.stream([b"another record"] * 10))
    call(cluster, "ann", "Refresh", pb.NamedDatasetRequest(name="everybodys"))
    wait_until(lambda: call(cluster, "ann", "Get", get).version == 2, "it is listed again")
    assert call(cluster, "blue", "Get", get).owner == "ann", "the next version is shared alike"


def test_a_job_makes_one_of_a_digest_that_is_its_own(cluster: Trusted, tmp_path: Path) -> None:
    digest = build(write_files(tmp_path / "data", files=1, records_each=40), CutPolicy(1024, 2048, 4096), "its")
    parts = iter([coordinator_pb2.RegisterDatasetRequest(part=digest.to_bytes())])
    registered = cluster.call("blue", "RegisterDataset", parts)
    spec = pb.DatasetSpec(name="its", digest_id=registered.digest_id)
    assert refusal(cluster, "green", "Create", spec) is NOT_FOUND
    assert call(cluster, "blue", "Create", spec).owner == "blue"
    assert refusal(cluster, "green", "Create", pb.DatasetSpec(name="its", digest_id=bytes(32))) is NOT_FOUND
    with_a_secret = pb.DatasetSpec(name="x", digest_id=registered.digest_id, credentials="env:X")
    assert refusal(cluster, "blue", "Create", with_a_secret) is DENIED
    assert refusal(cluster, "blue", "Refresh", pb.NamedDatasetRequest(name="its")) is IN_USE
    call(cluster, "blue", "Delete", pb.NamedDatasetRequest(name="its"))
    wait_until(lambda: not call(cluster, "blue", "List", pb.ListNamedDatasetsRequest()).datasets, "it is gone")
