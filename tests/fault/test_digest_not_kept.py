"""A node's disk is full when a data set comes to be: its digest is in memory only. When there is room again it is kept:
by it what the node has since goes with its data set, though the node is killed, and away when that is deleted."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

from tests.support import node_calls, numbered
from tests.support.cluster import wait_until
from tests.support.disks import ext4, fill
from tests.support.named_place import Place, name
from tests.support.privileges import needs_disks
from tfquiver.proto.tfquiver.v1 import named_datasets_pb2 as pb

READY = pb.NamedDataset.STATE_READY


@contextlib.contextmanager
def _kept_in_memory_only(root: Path) -> Iterator[tuple[Place, Path]]:
    """A place of two nodes, of which the first has shards of a data set and had no room for its digest; and where that
    will be."""
    (root / "cluster").mkdir()
    with ext4(root, 64 << 20) as disk:
        (root / "cluster" / "cache0").symlink_to(disk.path / "cache")
        (disk.path / "cache").mkdir(mode=0o700)
        place = Place(root / "cluster", nodes=2, flags=["--node_timeout_ms=2000"])
        full = place.nodes[0]
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
            numbered.write(root / "data", 400, 1, 10_000)
            place.call("Create", pb.DatasetSpec(name="train", sources=[f"{root / 'data'}/"]))
            dataset = place.until("train", READY).dataset
            wait_until(lambda: "is kept in memory only" in full.log.read_text(), "its digest is not kept")
            others.unlink()

            def is_whole() -> bool:
                place.call("Prefetch", name("train"))
                return place.until("train", READY).resident_bytes == dataset.size_bytes

            wait_until(is_whole, "there is room for all of it", 60)
            assert node_calls.status(full.ready["control"]).entries > 0
            yield place, disk.path / "cache" / "digests" / f"{dataset.digest_id.hex()}.tfqd"
        finally:
            full.kill()
            place.stop()


def _deleted_while_it_was_killed(place: Place) -> None:
    full = place.nodes[0]
    full.kill()
    place.call("Delete", name("train"))
    wait_until(lambda: not place.state("train"), "its name is free")
    full.start()


@needs_disks
def test_a_digest_that_the_disk_had_no_room_for_is_kept_later(tmp_path: Path) -> None:
    with _kept_in_memory_only(tmp_path) as (place, digest):
        wait_until(digest.exists, "its digest is kept", 60)
        _deleted_while_it_was_killed(place)
        wait_until(lambda: place.total("entries") == 0, "nothing is left")


@needs_disks
def test_what_came_before_its_digest_was_written_goes_as_what_a_scan_left(tmp_path: Path) -> None:
    with _kept_in_memory_only(tmp_path) as (place, digest):
        notes, entries = digest.parent.parent / "placed.log", node_calls.status(place.nodes[0].ready["control"]).entries
        wait_until(lambda: notes.stat().st_size > 40 * entries or digest.exists(), "they are noted")
        _deleted_while_it_was_killed(place)
        # Nodes look then what scans have left.
        numbered.write(tmp_path / "other", 2, 25, 21_000)
        place.call("Create", pb.DatasetSpec(name="other", sources=[f"{tmp_path / 'other'}/"]))
        place.until("other", READY)
        place.call("Delete", name("other"))
        wait_until(lambda: place.total("entries") == 0, "nothing is left", 60)
