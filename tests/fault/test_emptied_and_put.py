"""While a data set is emptied, what one node has put at another one that has emptied it already goes, too."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import google_crc32c

from tests.support import node_calls, numbered
from tests.support.cluster import wait_until
from tests.support.named_place import Place, name
from tfquiver.digests.digest import Digest
from tfquiver.proto.tfquiver.v1 import named_datasets_pb2 as pb
from tfquiver.service.node.connections_between_nodes.peer_connection import PeerConnection
from tfquiver.service.node.disk import entry

READY = pb.NamedDataset.STATE_READY


def put(digest: Digest, shard: int, node_id: str, address: str) -> None:
    """As a full owner does with what it was being brought."""
    ref = digest.shard(shard)
    with Path(ref.file.uri.removeprefix("file://")).open("rb") as file:
        file.seek(ref.offset)
        raw = file.read(ref.length_bytes)
    crc32c = google_crc32c.value(raw)
    connection = PeerConnection(node_id, address, "", "owner")
    try:
        connection.put(entry.Header(entry.RAW, len(raw), len(raw), crc32c, crc32c, ref.hash), raw)
    finally:
        connection.close()


def test_what_is_put_at_a_node_that_has_emptied_it_already_goes(tmp_path: Path) -> None:
    """It stayed, and `show` said so. What is put there of others stays."""
    place = Place(tmp_path / "cluster", nodes=2, flags=["--node_timeout_ms=20000"])
    try:
        ready, slow = place.nodes
        for number, called in enumerate(("goes", "stays")):
            numbered.write(tmp_path / called, 4, 100, 20_000 + number)
            place.call("Create", pb.DatasetSpec(name=called, sources=[f"{tmp_path / called}/"]))
            place.until(called, READY)
        digest_id = {called: place.until(called, READY).dataset.digest_id for called in ("goes", "stays")}
        paths = [tmp_path / "cluster" / "cache0" / "digests" / f"{one.hex()}.tfqd" for one in digest_id.values()]
        wait_until(lambda: all(path.exists() for path in paths), "it has both digests")
        goes, stays = map(Digest.open, paths)
        (there,) = (
            node for node in node_calls.nodes(place.coordinator.address)
            if node.control_address == ready.ready["control"]
        )  # fmt: skip
        before = node_calls.status(ready.ready["control"]).entries
        os.kill(slow.process.pid, signal.SIGSTOP)
        try:
            place.call("Evict", name("goes"))
            wait_until(lambda: node_calls.status(ready.ready["control"]).entries < before, "this one has emptied it")
            kept = node_calls.status(ready.ready["control"]).entries
            for shard in range(3):
                put(goes, shard, there.node_id, there.data_address)
            for shard in range(stays.num_shards):
                put(stays, shard, there.node_id, there.data_address)
            came = node_calls.status(ready.ready["control"]).entries
            assert came == stays.num_shards + 3 > kept
        finally:
            os.kill(slow.process.pid, signal.SIGCONT)
        place.until("goes", READY)
        wait_until(lambda: node_calls.status(ready.ready["control"]).entries == stays.num_shards, "those have gone")
        assert place.until("goes", READY).resident_bytes == 0
        place.call("Prefetch", name("goes"))
        whole = place.until("goes", READY)
        assert whole.resident_bytes == whole.dataset.size_bytes and not whole.reason
    finally:
        place.stop()
