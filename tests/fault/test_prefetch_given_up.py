"""A data set is emptied, or deleted, while it is being prefetched from a slow store: what was on its way then does not
come to stand after it."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.support.cluster import wait_until
from tests.support.named_place import Place, name
from tests.support.shared_scan import FILE_BYTES, stored
from tfquiver.proto.tfquiver.v1 import named_datasets_pb2 as pb
from tfquiver.proto.tfquiver.v1 import types_pb2
from tfquiver.testing.emulated_store import EmulatedStore

READY, WARMING = pb.NamedDataset.STATE_READY, pb.NamedDataset.STATE_WARMING
FILES = 12


@pytest.fixture
def store() -> Iterator[EmulatedStore]:
    with stored(0, FILES) as made:
        yield made


@contextmanager
def prefetching(root: Path, store: EmulatedStore) -> Iterator[Place]:
    """Two nodes that had all of it and gave it up; now some of it is there again, and the rest comes slowly."""
    place = Place(root, nodes=2, env={"STORAGE_EMULATOR_HOST": store.url})
    try:
        place.call(
            "Create",
            pb.DatasetSpec(name="files", sources=["gs://bucket/file-*"], format=types_pb2.DATASET_FORMAT_BYTES),
        )
        place.until("files", READY)
        place.call("Evict", name("files"))
        assert place.until("files", READY).resident_bytes == 0
        store.change_rate(0.5e6)
        place.call("Prefetch", name("files"))
        wait_until(lambda: place.total("entries") >= 1, "some of it is there", 60)
        yield place
    finally:
        place.stop()


@pytest.mark.parametrize("how", ["Evict", "Delete"])
def test_what_is_on_its_way_is_not_kept(tmp_path: Path, store: EmulatedStore, how: str) -> None:
    with prefetching(tmp_path, store) as place:
        place.call(how, name("files"))
        if how == "Evict":
            assert place.until("files", READY).resident_bytes == 0
        else:
            wait_until(lambda: not place.call("List", pb.ListNamedDatasetsRequest()).datasets, "its name is free", 60)
        store.change_rate(0)
        settled = place.total("store_bytes") - 1
        while settled != place.total("store_bytes"):  # what was on its way comes
            settled = place.total("store_bytes")
            time.sleep(1)
        assert place.total("entries") == 0, "no bytes without an owner"


@pytest.mark.long
def test_what_is_prefetched_again_at_once_is_kept(tmp_path: Path, store: EmulatedStore) -> None:
    """What the store was asked for before it was emptied is on its way still, and the second prefetch is given that."""
    with prefetching(tmp_path, store) as place:
        place.call("Evict", name("files"))
        place.until("files", READY)
        place.call("Prefetch", name("files"))
        wait_until(lambda: place.state("files") == WARMING, "it is read again", 60)
        store.change_rate(0)
        again = place.until("files", READY)
        assert (again.resident_bytes, again.reason) == (FILES * FILE_BYTES, "")
