"""A data set is deleted, and servers are killed, while it is scanned: what the scan has cached until then is nobody's,
and goes; what another data set names stays."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support import node_calls, numbered
from tests.support.cluster import wait_until
from tests.support.named_place import Place, name
from tests.support.shared_scan import FILE_BYTES, stored
from tfquiver.proto.tfquiver.v1 import named_datasets_pb2 as pb
from tfquiver.proto.tfquiver.v1 import types_pb2
from tfquiver.testing.emulated_store import EmulatedStore

READY, SCANNING = pb.NamedDataset.STATE_READY, pb.NamedDataset.STATE_SCANNING
FILES = 12
STORE_BYTES_PER_S = 0.5e6  # the scan takes 24 s: it is under way still when a busy machine has seen its first shards


@pytest.fixture
def store() -> Iterator[EmulatedStore]:
    with stored(STORE_BYTES_PER_S, FILES) as made:
        yield made


@pytest.mark.long
@pytest.mark.parametrize("victim", ["nobody", "coordinator", "nodes"])
def test_what_a_scan_has_cached_goes_with_its_data_set(tmp_path: Path, store: EmulatedStore, victim: str) -> None:
    numbered.write(tmp_path / "data", 2, 100, 10_000)
    place = Place(tmp_path, nodes=2, env={"STORAGE_EMULATOR_HOST": store.url})
    try:
        place.call("Create", pb.DatasetSpec(name="stays", sources=[f"{tmp_path / 'data'}/"]))
        stays = place.until("stays", READY).dataset
        files = pb.DatasetSpec(
            name="files", sources=["gs://bucket/file-*"], format=types_pb2.DATASET_FORMAT_BYTES, pin=True
        )
        place.call("Create", files)
        wait_until(lambda: place.total("entries") >= stays.shards + 3, "some of it is cached", 60)
        assert place.state("files") == SCANNING
        victims = {"nobody": [], "coordinator": [place.coordinator], "nodes": place.nodes}[victim]
        if victim == "nodes":  # before, so that the scan is nobody's task when they come back
            for node in victims:
                node.kill()
        place.call("Delete", name("files"))
        for server in victims:
            server.kill()
            server.launch_again() if server is place.coordinator else server.launch()
            server.await_ready()
        wait_until(lambda: len(node_calls.nodes(place.coordinator.address)) == 2, "both nodes are members", 60)
        wait_until(lambda: place.total("entries") == stays.shards, "no bytes without an owner", 90)
        wait_until(lambda: len(place.call("List", pb.ListNamedDatasetsRequest()).datasets) == 1, "its name is free", 60)
        assert place.until("stays", READY).resident_bytes == stays.size_bytes
        place.call("Create", files)  # all of it once more, and this time it is let finish
        store.change_rate(0)
        again = place.until("files", READY, pb.NamedDataset.STATE_WARMING)
        assert again.dataset.size_bytes == FILES * FILE_BYTES
    finally:
        place.stop()
