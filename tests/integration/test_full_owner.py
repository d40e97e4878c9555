"""A scan where one node is small: what it owns and has no room for is kept by the other one, whichever scans."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.support.cluster import wait_until
from tests.support.disks import fill, tmpfs
from tests.support.privileges import needs_mounts
from tests.support.racked import CALL_S, Racked
from tfquiver.grpc_plumbing import rpc
from tfquiver.proto.tfquiver.v1 import coordinator_pb2 as pb
from tfquiver.proto.tfquiver.v1 import named_datasets_pb2 as pb2
from tfquiver.proto.tfquiver.v1 import named_datasets_pb2_grpc

READY = pb2.NamedDataset.STATE_READY


@pytest.mark.parametrize("scans", ["large", "small"])
def test_the_store_is_read_once_though_an_owner_is_full(tmp_path: Path, scans: str) -> None:
    with Racked(tmp_path, {"large": "rack=1"}) as cluster:
        cluster.add("small", "rack=1", "--quota=128KiB")
        cluster.await_members(2)
        dataset, made = cluster.scan(scans)

        def resident() -> bool:
            (told,) = cluster.call("ListDatasets", pb.ListDatasetsRequest(looked_at=[dataset.digest_id])).datasets
            return bool(told.resident_bytes == dataset.size_bytes)

        wait_until(resident, "all of it is cached")
        for path in tmp_path.glob("train-*"):
            path.unlink()
        for node in ("small", "large"):
            assert sorted(cluster.read(node, dataset.digest_id)) == sorted(made)


@needs_mounts
@pytest.mark.parametrize("asked_for", ["prefetched", "read"])
def test_what_full_nodes_own_is_kept_by_the_one_with_room_not_by_one_whose_disk_is_full(
    tmp_path: Path, asked_for: str
) -> None:
    """By its quota that one has the most."""
    with tmpfs(tmp_path / "tmpfs", 16 << 20) as disk, Racked(tmp_path, {"roomy": "rack=1"}) as cluster:
        cluster.add("small", "rack=1", "--quota=128KiB")
        cluster.add("disk", "rack=1", f"--cache_dir={disk / 'cache'}", "--quota=1GiB")
        cluster.await_members(3)
        fill(disk)
        dataset, made = cluster.scan("roomy")
        named = partial(of_named, cluster)
        named("Create", pb2.DatasetSpec(name="whole", digest_id=dataset.digest_id))
        named("Evict", pb2.NamedDatasetRequest(name="whole"))

        def told() -> pb2.NamedDataset:
            found: pb2.NamedDataset = named("Get", pb2.GetNamedDatasetRequest(name="whole", resident=True))
            return found

        wait_until(lambda: told().state == READY and not told().resident_bytes, "it is emptied")
        if asked_for == "prefetched":
            named("Prefetch", pb2.NamedDatasetRequest(name="whole"))
            wait_until(lambda: told().state == READY, "it is prefetched")
            wait_until(lambda: told().resident_bytes == dataset.size_bytes, f"all is resident: {told()}")
            assert not told().reason
        else:
            for _ in range(2):
                assert sorted(cluster.read("small", dataset.digest_id)) == sorted(made)
            wait_until(lambda: told().resident_bytes == dataset.size_bytes, f"all is resident: {told()}")
        before_bytes = cluster.store_bytes()
        for node in ("small", "disk", "roomy"):
            assert sorted(cluster.read(node, dataset.digest_id)) == sorted(made)
        assert cluster.store_bytes() == before_bytes


def of_named(cluster: Racked, method: str, request: Any) -> Any:
    with rpc.channel(cluster.coordinator.address) as channel:
        stub = named_datasets_pb2_grpc.NamedDatasetsStub(channel)
        return getattr(stub, method)(request, timeout=CALL_S, wait_for_ready=True)
