"""A node's disk is full when a data set comes to be: its digest is in memory only. When there is room again it is kept:
by it what the node has since goes with its data set, though the node is killed, and away when that is deleted."""

from __future__ import annotations

import contextlib
from pathlib import Path

from tests.support import node_calls, numbered
from tests.support.cluster import wait_until
from tests.support.disks import ext4, fill
from tests.support.named_place import Place, name
from tests.support.privileges import needs_disks
from tfquiver.proto.tfquiver.v1 import named_datasets_pb2 as pb

READY = pb.NamedDataset.STATE_READY


@needs_disks
def test_a_digest_that_the_disk_had_no_room_for_is_kept_later(tmp_path: Path) -> None:
    (tmp_path / "cluster").mkdir()
    with ext4(tmp_path, 64 << 20) as disk:
        (tmp_path / "cluster" / "cache0").symlink_to(disk.path / "cache")
        (disk.path / "cache").mkdir(mode=0o700)
        place = Place(tmp_path / "cluster", nodes=2, flags=["--node_timeout_ms=2000"])
        full, other = place.nodes
        try:
            wait_until(
                lambda: all(len(node_calls.peers(node.ready["control"])) == 1 for node in place.nodes),
                "each has a part of what either scans",
            )
            others = fill(disk.path)
            with others.open("ab", buffering=0) as file, contextlib.suppress(OSError):
                while True:
                    file.write(b"x")
            # Its digest takes more than what small files of the node give back meanwhile.
            numbered.write(tmp_path / "data", 400, 1, 10_000)
            place.call("Create", pb.DatasetSpec(name="train", sources=[f"{tmp_path / 'data'}/"]))
            dataset = place.until("train", READY).dataset
            wait_until(lambda: "is kept in memory only" in full.log.read_text(), "its digest is not kept")
            others.unlink()

            def is_whole() -> bool:
                place.call("Prefetch", name("train"))
                return place.until("train", READY).resident_bytes == dataset.size_bytes

            wait_until(is_whole, "there is room for all of it", 60)
            assert node_calls.status(full.ready["control"]).entries > 0
            path = disk.path / "cache" / "digests" / f"{dataset.digest_id.hex()}.tfqd"
            wait_until(path.exists, "its digest is kept", 60)
            full.kill()
            place.call("Delete", name("train"))
            wait_until(lambda: not place.state("train"), "its name is free")
            full.start()
            wait_until(lambda: node_calls.status(full.ready["control"]).entries == 0, "nothing is left", 30)
            assert node_calls.status(other.ready["control"]).entries == 0
        finally:
            full.kill()
            place.stop()
