"""Data sets of any files that are larger than their room: a mount reads all of them right, and each pass over it takes
from the store what there is no room for.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support import node_calls, rotating
from tests.support.cluster import wait_until
from tests.support.mounted import mounted, sums
from tests.support.named_place import Place
from tests.support.privileges import needs_fuse
from tfquiver.proto.tfquiver.v1 import named_datasets_pb2 as pb
from tfquiver.proto.tfquiver.v1 import types_pb2

pytestmark = [needs_fuse]
FILES, FILE_BYTES, SHARE = 200, 24_000, 0.3
ENTRY_BYTES = 4096 + -(-FILE_BYTES // 4096) * 4096


@pytest.fixture
def source(tmp_path: Path, seed: int) -> Path:
    choose, root = random.Random(seed), tmp_path / "images"
    for number in range(FILES):
        (root / str(number % 5)).mkdir(parents=True, exist_ok=True)
        (root / str(number % 5) / f"{number:03}.jpg").write_bytes(choose.randbytes(FILE_BYTES))
    return root


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    made = Place(tmp_path, nodes=1, node_flags=["--hot=0"])
    yield made
    made.stop()


@pytest.mark.long
# What was used last is what comes last, when the next pass has begun at the front.
@pytest.mark.parametrize(("mode", "store_share"), [("uniform", 1 - SHARE), ("lru", 1)])
def test_a_pass_takes_from_the_store_what_has_no_room(
    place: Place, source: Path, mode: str, store_share: float
) -> None:
    node, wanted = place.nodes[0], sums(source)
    spec = pb.DatasetSpec(name="images", sources=[f"{source}/"], format=types_pb2.DATASET_FORMAT_BYTES)
    place.call("Create", spec)
    dataset = place.until("images", pb.NamedDataset.STATE_READY).dataset
    room_bytes = int(FILES * ENTRY_BYTES * SHARE)
    rotating.set_cache(place.coordinator.address, dataset, mode, allocation_bytes=room_bytes)
    wait_until(lambda: node_calls.status(node.ready["control"]).node.used_bytes <= room_bytes, "there is only its room")
    shares = []
    for _ in range(3):  # a mount of its own each: what one has open it need not ask for
        before = node_calls.status(node.ready["control"]).store_bytes
        flags = (f"--service={place.coordinator.address}", "--read_ahead=0")
        with mounted(place.root / "mnt", place.root / "cache0", ["images"], *flags, own_daemon=False) as mount:
            assert sums(mount.point) == wanted
        status = node_calls.status(node.ready["control"])
        assert status.node.used_bytes <= room_bytes
        shares.append((status.store_bytes - before) / (FILES * FILE_BYTES))
    assert shares[1:] == pytest.approx([store_share] * 2, abs=0.02), shares
