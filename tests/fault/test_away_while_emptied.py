"""A node is away while data sets are emptied and deleted: what it keeps of them goes when it is back, also when the
coordinator was restarted meanwhile."""

from __future__ import annotations

import os
import signal
from pathlib import Path

from tests.support import node_calls, numbered
from tests.support.cluster import wait_until
from tests.support.disks import ext4
from tests.support.named_place import Place, name
from tests.support.privileges import needs_disks
from tfquiver.digests.digest import Digest
from tfquiver.proto.tfquiver.v1 import named_datasets_pb2 as pb
from tfquiver.service.node.connections_between_nodes.peer_connection import Outcome, PeerConnection, Want
from tfquiver.service.node.sealed_memory_of_checked_shards.ready_shard import ReadyShard
from tfquiver.service.node.shards_from_disk_other_nodes_or_store.reach import ON_DISK

READY = pb.NamedDataset.STATE_READY


def test_what_a_node_brings_back_is_somebodys(tmp_path: Path) -> None:
    place = Place(tmp_path / "cluster", nodes=2, flags=["--node_timeout_ms=2000"])
    try:
        away, there = place.nodes
        address, kept = place.coordinator.address, list[int]()
        wait_until(
            lambda: all(len(node_calls.peers(node.ready["control"])) == 1 for node in place.nodes),
            "each has a part of what either scans",
        )
        for number, called in enumerate(("stays", "goes")):
            numbered.write(tmp_path / called, 16, 25, 20_000 + number)  # nobody owns none of 16
            place.call("Create", pb.DatasetSpec(name=called, sources=[f"{tmp_path / called}/"]))
            whole = place.until(called, READY)
            assert whole.resident_bytes == whole.dataset.size_bytes
            kept.append(node_calls.status(away.ready["control"]).entries)
        assert 0 < kept[0] < kept[1]
        # It is killed while it knows whose its shards are: else they go as what a scan left, an hour later.
        digests = tmp_path / "cluster" / "cache0" / "digests"
        wait_until(lambda: len([path for path in digests.iterdir() if path.suffix != ".tmp"]) == 2, "it has both")
        away.kill()
        wait_until(lambda: len(node_calls.nodes(address)) == 1, "it is missed")
        place.call("Evict", name("stays"))
        emptied = place.until("stays", READY)
        assert emptied.resident_bytes == 0
        assert "is away: what it keeps of it goes when it comes back" in emptied.reason
        place.call("Delete", name("goes"))
        wait_until(lambda: len(place.call("List", pb.ListNamedDatasetsRequest()).datasets) == 1, "its name is free")
        assert node_calls.status(there.ready["control"]).entries == 0
        place.coordinator.kill()
        place.coordinator.restart()
        away.start()
        wait_until(lambda: len(node_calls.nodes(address)) == 2, "it is back")
        wait_until(lambda: place.total("entries") == 0, "nothing is left", 60)
        assert place.until("stays", READY).resident_bytes == 0

        place.call("Prefetch", name("stays"))
        whole = place.until("stays", READY)
        assert whole.resident_bytes == whole.dataset.size_bytes
        away.kill()
        away.start()
        wait_until(lambda: node_calls.status(away.ready["control"]).entries == kept[0], "what was read since stays")
    finally:
        place.stop()


def given(digest: Digest, node_id: str, address: str) -> int:
    """How many of its shards that node gives to one that moves them."""
    wants = [
        Want(shard, digest.hashes[shard].tobytes(), int(digest.lengths[shard])) for shard in range(digest.num_shards)
    ]
    found = list[ReadyShard]()

    def on_item(want: Want, outcome: Outcome) -> None:
        if isinstance(outcome, ReadyShard):
            found.append(outcome)

    connection = PeerConnection(node_id, address, "", "mover")
    try:
        connection.get(digest.digest_id, wants, on_item, ON_DISK)
    finally:
        connection.close()
    for ready in found:
        ready.close()
    return len(found)


@needs_disks
def test_what_it_cannot_let_go_of_is_given_to_nobody(tmp_path: Path) -> None:
    """It would stay there: the others have emptied it."""
    (tmp_path / "cluster").mkdir()
    with ext4(tmp_path, 64 << 20) as disk:
        (tmp_path / "cluster" / "cache0").symlink_to(disk.path / "cache")
        (disk.path / "cache").mkdir(mode=0o700)
        place = Place(tmp_path / "cluster", nodes=2, flags=["--node_timeout_ms=2000"])
        away, address = place.nodes[0], place.coordinator.address
        try:
            wait_until(
                lambda: all(len(node_calls.peers(node.ready["control"])) == 1 for node in place.nodes),
                "each has a part of what either scans",
            )
            numbered.write(tmp_path / "data", 16, 25, 20_000)  # nobody owns none of 16
            place.call("Create", pb.DatasetSpec(name="train", sources=[f"{tmp_path / 'data'}/"]))
            digest_id = place.until("train", READY).dataset.digest_id
            path = disk.path / "cache" / "digests" / f"{digest_id.hex()}.tfqd"
            wait_until(path.exists, "it has the digest")
            digest = Digest.open(path)
            (there,) = (
                one for one in node_calls.nodes(address) if one.control_address == away.ready["control"]
            )  # fmt: skip
            kept = node_calls.status(away.ready["control"]).entries
            assert given(digest, there.node_id, there.data_address) == kept > 0
            os.kill(away.process.pid, signal.SIGSTOP)
            wait_until(lambda: len(node_calls.nodes(address)) == 1, "it is missed")
            place.call("Evict", name("train"))
            place.until("train", READY)
            disk.fail()
            os.kill(away.process.pid, signal.SIGCONT)
            wait_until(lambda: "does not let go of" in away.log_tail(), "it is back, and has heard of it")
            assert node_calls.status(away.ready["control"]).entries == kept
            assert given(digest, there.node_id, there.data_address) == 0
        finally:
            away.kill()
            place.stop()
