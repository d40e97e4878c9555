"""A disk that becomes read-only under a node, as after an error of the device, while data sets with names are emptied
and deleted: it is said that bytes stay, and when the disk can be written again nothing is left of what was deleted."""

from __future__ import annotations

from pathlib import Path

from tests.support import node_calls, numbered
from tests.support.cluster import Server, wait_until
from tests.support.disks import ext4
from tests.support.named_place import Place, name
from tests.support.privileges import needs_disks
from tfquiver.proto.tfquiver.v1 import named_datasets_pb2 as pb

READY = pb.NamedDataset.STATE_READY


def resident_bytes(place: Place) -> int:
    named: pb.NamedDataset = place.call("Get", pb.GetNamedDatasetRequest(name="train", resident=True))
    return named.resident_bytes


def known(node: Server) -> bool:
    return len(node_calls.peers(node.ready["control"])) == 1


@needs_disks
def test_what_stays_is_said_and_goes_when_it_can(tmp_path: Path) -> None:
    numbered.write(tmp_path / "data", 4, 100, 20_000)
    (tmp_path / "cluster").mkdir()
    with ext4(tmp_path, 64 << 20) as disk:
        (tmp_path / "cluster" / "cache1").symlink_to(disk.path / "cache")
        (disk.path / "cache").mkdir(mode=0o700)
        place = Place(tmp_path / "cluster", nodes=2)
        try:
            wait_until(lambda: all(map(known, place.nodes)), "each has a part of what either scans")
            place.call("Create", pb.DatasetSpec(name="train", sources=[f"{tmp_path / 'data'}/part-*"]))
            whole = place.until("train", READY)
            assert whole.resident_bytes == whole.dataset.size_bytes
            assert all(int(node_calls.status(node.ready["control"]).entries) for node in place.nodes), "each has a part"
            digests = disk.path / "cache" / "digests"  # without it a node that is started again asks after an hour
            wait_until(lambda: any(digests.glob("*.tfqd")), "the node has kept what says whose its shards are")
            disk.fail()
            place.call("Evict", name("train"))
            assert "its disk does not let go of" in place.until("train", READY).reason
            # A node tells what it gives up before it has, and what the disk has kept at its next heartbeat.
            wait_until(lambda: 0 < resident_bytes(place) < whole.dataset.size_bytes, "what stays is told of")
            place.call("Delete", name("train"))
            wait_until(lambda: not place.call("List", pb.ListNamedDatasetsRequest()).datasets, "its name is free")
            assert place.total("entries") > 0
            wait_until(lambda: "removed data sets: node" in place.nodes[1].log_tail(), "it says so, and tries again")
            place.nodes[1].kill()
            disk.remount()
            place.nodes[1].start()
            wait_until(lambda: place.total("entries") == 0, "no bytes without an owner", 60)
        finally:
            place.stop()
