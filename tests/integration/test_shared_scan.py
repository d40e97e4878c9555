"""A large data set is scanned by several nodes: each byte is read once, and what comes of it is what one node finds."""

from __future__ import annotations

from pathlib import Path

from tests.support import shared_scan
from tests.support.shared_scan import FILES, SIZE_BYTES
from tfquiver.grpc_plumbing import rpc
from tfquiver.proto.tfquiver.v1 import coordinator_pb2, coordinator_pb2_grpc
from tfquiver.proto.tfquiver.v1 import named_datasets_pb2 as pb

READY = pb.NamedDataset.STATE_READY
HEADS_BYTES = 12 * FILES


def test_three_nodes_scan_one_data_set_and_find_what_one_finds(tmp_path: Path) -> None:
    with shared_scan.stored(6e6) as store:
        with shared_scan.place(tmp_path / "three", store) as three:
            three.call("Create", shared_scan.SPEC)
            shared = three.until("files", READY)
            by_node = [shared_scan.read_bytes(node) for node in three.nodes]
            assert min(by_node) > SIZE_BYTES / 12, "all three have scanned"
            assert SIZE_BYTES <= sum(by_node) <= SIZE_BYTES + HEADS_BYTES, "each byte once"
            assert shared.resident_bytes == SIZE_BYTES, "its shards are at their owners"
            with rpc.channel(three.coordinator.address) as channel:
                stub = coordinator_pb2_grpc.CoordinatorStub(channel)
                listed = stub.ListDatasets(coordinator_pb2.ListDatasetsRequest(), timeout=20).datasets
            assert [one.digest_id for one in listed] == [shared.dataset.digest_id], "no part is registered"
            three.call("Refresh", pb.NamedDatasetRequest(name="files"))
            three.until("files", READY)
            assert three.total("store_bytes") == sum(by_node), "nothing is read again"
        store.change_rate(0)
        with shared_scan.place(tmp_path / "one", store, shared_scan.ALONE) as alone:
            alone.call("Create", shared_scan.SPEC)
            assert alone.until("files", READY).dataset.digest_id == shared.dataset.digest_id
            assert sorted(shared_scan.read_bytes(node) for node in alone.nodes)[:2] == [0, 0], "one node has scanned"


def test_a_small_data_set_is_one_nodes(tmp_path: Path) -> None:
    with (
        shared_scan.stored(0) as store,
        shared_scan.place(tmp_path, store, f"--scan_share_bytes={SIZE_BYTES // 2 + 1}") as place,
    ):
        place.call("Create", shared_scan.SPEC)
        place.until("files", READY)
        assert sorted(shared_scan.read_bytes(node) for node in place.nodes)[:2] == [0, 0]
