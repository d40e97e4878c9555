"""Servers are killed while data sets with names are made, warmed, emptied, made anew and deleted: what was asked for
comes, and nothing is left over."""

from __future__ import annotations

import random
import time
from pathlib import Path
from typing import Any

import grpc
import pytest

from tests.support import node_calls, numbered
from tests.support.cluster import wait_until
from tests.support.named_place import Place, name
from tfquiver.grpc_plumbing import rpc
from tfquiver.proto.tfquiver.v1 import coordinator_pb2, coordinator_pb2_grpc
from tfquiver.proto.tfquiver.v1 import named_datasets_pb2 as pb

FILES, RECORDS, RECORD_BYTES = 8, 100, 20_000
SIZE_BYTES = FILES * RECORDS * (RECORD_BYTES + 16)
READY = pb.NamedDataset.STATE_READY


@pytest.mark.parametrize("victim", ["coordinator", "nodes", "all"])
def test_what_was_asked_for_comes_though_servers_are_killed(tmp_path: Path, victim: str, seed: int) -> None:
    rng = random.Random(seed)
    numbered.write(tmp_path / "data", FILES, RECORDS, RECORD_BYTES)
    place = Place(tmp_path, nodes=2)

    def kill_after(method: str, request: Any) -> None:
        """It is promised, and at once, or a little later, they are dead."""
        place.call(method, request)
        time.sleep(rng.choice([0, 0.05, 0.3]))
        servers = [place.coordinator] if victim != "nodes" else []
        servers += place.nodes if victim != "coordinator" else []
        for server in servers:
            server.kill()
        for server in servers:
            server.launch_again() if server is place.coordinator else server.launch()
        for server in servers:
            server.await_ready()
        wait_until(lambda: len(node_calls.nodes(place.coordinator.address)) == 2, "both nodes are members", 60)

    def settled(what: str, resident_bytes: int, version: int) -> None:
        def is_so() -> bool:
            try:
                named = place.call("Get", pb.GetNamedDatasetRequest(name="train", resident=True))
            except grpc.RpcError:
                return False
            as_asked = named.resident_bytes == resident_bytes and named.version == version
            return bool(named.state == READY and as_asked and not named.old_versions)

        wait_until(is_so, what, 90)

    try:
        kill_after("Create", pb.DatasetSpec(name="train", sources=[f"{tmp_path / 'data'}/part-*"], pin=True))
        settled("it is scanned", SIZE_BYTES, 1)
        place.call("Pin", pb.PinDatasetRequest(name="train", pinned=False))
        kill_after("Evict", name("train"))
        settled("it is emptied", 0, 1)
        kill_after("Prefetch", name("train"))
        settled("it is read again", SIZE_BYTES, 1)
        sorted((tmp_path / "data").iterdir())[0].unlink()
        kill_after("Refresh", name("train"))
        settled("there is a new version", SIZE_BYTES - SIZE_BYTES // FILES, 2)
        kill_after("Delete", name("train"))
        wait_until(lambda: place.total("entries") == 0, "no bytes without an owner", 60)
        wait_until(lambda: not place.call("List", pb.ListNamedDatasetsRequest()).datasets, "its name is free", 60)
        with rpc.channel(place.coordinator.address) as channel:
            stub: Any = coordinator_pb2_grpc.CoordinatorStub(channel)
            assert not stub.ListDatasets(coordinator_pb2.ListDatasetsRequest(), timeout=20).datasets
            orders = stub.Orders(coordinator_pb2.OrdersRequest(), timeout=20)
        assert not orders.orders, "no allocation without a data set"
        assert not orders.tasks and not orders.named
    finally:
        place.stop()
