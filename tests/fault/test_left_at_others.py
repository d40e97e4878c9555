"""What one node's first use of files has put at another node goes with its data set, though that node has never been
asked for it, and is away when it is deleted."""

from __future__ import annotations

from pathlib import Path

from tests.support import node_calls, numbered
from tests.support.cluster import wait_until
from tests.support.named_place import Place, name
from tfquiver.grpc_plumbing import rpc
from tfquiver.proto.tfquiver.v1 import coordinator_pb2, coordinator_pb2_grpc
from tfquiver.proto.tfquiver.v1 import named_datasets_pb2 as pb


def test_what_stands_where_its_digest_was_not_goes_with_it(tmp_path: Path) -> None:
    place = Place(tmp_path / "cluster", nodes=2)
    scans, owns = place.nodes
    try:
        wait_until(
            lambda: all(len(node_calls.peers(node.ready["control"])) == 1 for node in place.nodes),
            "each has a part of what either scans",
        )
        numbered.write(tmp_path / "first", 16, 25, 20_000)  # nobody owns none of 16
        numbered.write(tmp_path / "named", 2, 25, 21_000)
        dataset = node_calls.ensure(scans.ready["control"], tmp_path / "first" / "part-*")
        wait_until(lambda: place.total("entries") == dataset.shards, "all of it stands")
        assert node_calls.status(owns.ready["control"]).entries > 0
        # Nodes look then what scans have left.
        place.call("Create", pb.DatasetSpec(name="train", sources=[f"{tmp_path / 'named'}/"]))
        place.until("train", pb.NamedDataset.STATE_READY)
        place.call("Delete", name("train"))
        digest = tmp_path / "cluster" / "cache1" / "digests" / f"{dataset.digest_id.hex()}.tfqd"
        wait_until(digest.exists, "the other node has its digest", 60)
        owns.kill()
        with rpc.channel(place.coordinator.address) as channel:
            stub = coordinator_pb2_grpc.CoordinatorStub(channel)
            stub.DeleteDataset(coordinator_pb2.DeleteDatasetRequest(digest_id=dataset.digest_id), timeout=20)
        owns.start()
        wait_until(lambda: place.total("entries") == 0, "nothing is left", 60)
        wait_until(lambda: not digest.exists(), "nor is its digest")
    finally:
        place.stop()
