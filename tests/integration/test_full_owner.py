"""A scan where one node is small: what it owns and has no room for is kept by the other one, whichever scans."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.cluster import wait_until
from tests.support.racked import Racked
from tfquiver.proto.tfquiver.v1 import coordinator_pb2 as pb


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
