from __future__ import annotations

import hashlib
from collections import Counter

from tfquiver.data_sources_found_and_registered.scans import ScanPatience, scanning_node
from tfquiver.proto.tfquiver.v1 import types_pb2

NODES = [types_pb2.NodeInfo(node_id=f"n{at}", control_address=f"host{at}:1", quota_bytes=1) for at in range(4)]
GATEWAY = types_pb2.NodeInfo(node_id="gateway", control_address="gateway:1")


def test_first_uses_are_spread_over_the_nodes_and_askers_of_one_listing_meet() -> None:
    keys = [hashlib.sha256(bytes([at])).digest() for at in range(200)]
    found = [scanning_node(key, [GATEWAY, *NODES]) for key in keys]
    assert found == [scanning_node(key, [*reversed(NODES), GATEWAY]) for key in keys]
    counts = Counter(found)
    assert set(counts) == {node.control_address for node in NODES}
    assert min(counts.values()) > 25
    assert scanning_node(keys[0], [GATEWAY]) == ""


def test_a_node_that_is_localhost_to_others_does_not_scan_for_them() -> None:
    near = types_pb2.NodeInfo(node_id="near", control_address="localhost:1", quota_bytes=1)
    keys = [hashlib.sha256(bytes([at])).digest() for at in range(50)]
    assert {scanning_node(key, [near, *NODES[:2]]) for key in keys} == {"host0:1", "host1:1"}
    assert scanning_node(keys[0], [near]) == "localhost:1", "on one machine all are"


def test_a_scan_of_hours_is_not_given_up_for_a_failure_at_its_end() -> None:
    patience = ScanPatience(30.0, 0.0)
    for at_s in range(0, 10_000, 20):
        patience.seen(at_s + 1, at_s)
        assert not patience.is_over(at_s + 10)
    assert not patience.is_over(9_980 + 30)
    assert patience.is_over(9_980 + 31)


def test_a_scan_that_always_fails_at_the_same_place_is_given_up() -> None:
    patience = ScanPatience(30.0, 0.0)
    for at_s in range(0, 40, 5):
        for done_bytes in (10, 50, 100):
            patience.seen(done_bytes, at_s)
    assert patience.is_over(40)
