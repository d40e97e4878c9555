"""kill -9 in the middle of a scan that several nodes share: of a node that helps, of the one whose task it is, of the
coordinator. The scan ends, finds all, and little is read twice."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support import node_calls, shared_scan
from tests.support.cluster import wait_until
from tests.support.shared_scan import FILE_BYTES, SIZE_BYTES
from tfquiver.proto.tfquiver.v1 import named_datasets_pb2 as pb

pytestmark = pytest.mark.long

READY, SCANNING = pb.NamedDataset.STATE_READY, pb.NamedDataset.STATE_SCANNING
IN_HAND = 4  # files of a node at a time


@pytest.mark.parametrize("victim", ["one that helps", "the one whose task it is", "coordinator"])
def test_a_kill_in_the_middle_costs_what_was_in_hand(tmp_path: Path, victim: str) -> None:
    with shared_scan.stored(2e6) as store, shared_scan.place(tmp_path, store) as place:
        place.call("Create", shared_scan.SPEC)
        wait_until(lambda: all(shared_scan.read_bytes(node) > 2 * FILE_BYTES for node in place.nodes), "all scan", 60)
        assert place.state("files") == SCANNING
        host = shared_scan.scanning(place)
        lost_bytes = 0
        if victim == "coordinator":
            place.coordinator.kill()
            place.coordinator.restart()
            wait_until(lambda: len(node_calls.nodes(place.coordinator.address)) == 3, "all nodes are members", 60)
            again = 3 * IN_HAND * FILE_BYTES
        else:
            dead = host if victim.endswith("is") else next(node for node in place.nodes if node is not host)
            lost_bytes = shared_scan.read_bytes(dead)
            dead.kill()
            place.nodes.remove(dead)
            # What a helper has finished is told; what the scanning node has, and what it was told, is on its disk only.
            again = lost_bytes + (3 if dead is host else 1) * IN_HAND * FILE_BYTES
        store.change_rate(8e6)
        found = place.until("files", READY)
        assert found.dataset.size_bytes == SIZE_BYTES
        read_bytes = store.traffic().payload_bytes
        assert read_bytes <= SIZE_BYTES + again + FILE_BYTES
        if victim == "one that helps":
            assert read_bytes <= SIZE_BYTES + (IN_HAND + 1) * FILE_BYTES, "what it had finished is not read again"
        with shared_scan.place(tmp_path / "one", store, shared_scan.ALONE, nodes=1) as alone:
            store.change_rate(0)
            alone.call("Create", shared_scan.SPEC)
            assert alone.until("files", READY).dataset.digest_id == found.dataset.digest_id
