"""What a node tells of its disk's room beside what its entries take: of one moment, from the first heartbeat on."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from tests.support import node_calls, numbered
from tests.support.cluster import wait_until
from tests.support.disks import ext4
from tests.support.named_place import Place, name
from tests.support.privileges import needs_disks
from tfquiver.disk_space_of_shards.node_room import most_bytes
from tfquiver.proto.tfquiver.v1 import named_datasets_pb2 as pb
from tfquiver.proto.tfquiver.v1 import types_pb2

READY = pb.NamedDataset.STATE_READY
SLACK_BYTES = 4 << 20  # digests, notes, what the file system keeps of files


@contextlib.contextmanager
def on_a_small_disk(tmp_path: Path) -> Iterator[tuple[Place, Callable[[], types_pb2.NodeInfo], Path]]:
    """A node with a quota that is more than its disk has; what it tells of itself, and its cache directory."""
    with ext4(tmp_path, 96 << 20) as disk:
        (tmp_path / "cluster").mkdir()
        (tmp_path / "cluster" / "cache0").symlink_to(disk.path / "cache")
        (disk.path / "cache").mkdir(mode=0o700)
        place = Place(tmp_path / "cluster", nodes=1, quota="1GiB")

        def told() -> types_pb2.NodeInfo:
            (node,) = node_calls.nodes(place.coordinator.address)
            return node

        try:
            yield place, told, disk.path / "cache"
        finally:
            place.stop()


@needs_disks
def test_a_node_can_keep_as_much_when_it_has_just_been_started_or_emptied(tmp_path: Path) -> None:
    """Plans were made with all of its quota, and with what was left on it; `set-cache lru` gave that for good."""
    with on_a_small_disk(tmp_path) as (place, told, _):
        empty_bytes = most_bytes(told())
        assert 64 << 20 < empty_bytes < 96 << 20, "with its first heartbeat"
        numbered.write(tmp_path / "goes", 4, 400, 20_000)
        place.call("Create", pb.DatasetSpec(name="goes", sources=[f"{tmp_path / 'goes'}/"]))
        place.until("goes", READY)
        assert told().used_bytes > 30 << 20
        place.call("Evict", name("goes"))
        place.until("goes", READY)
        assert not told().used_bytes
        assert abs(most_bytes(told()) - empty_bytes) < SLACK_BYTES


@needs_disks
def test_what_a_reader_holds_open_of_what_is_evicted_makes_no_node_smaller(tmp_path: Path) -> None:
    """Its space is free when it closes it: until then plans were made for a smaller disk."""
    with on_a_small_disk(tmp_path) as (place, told, cache):
        before_bytes = most_bytes(told())
        numbered.write(tmp_path / "goes", 4, 400, 20_000)
        place.call("Create", pb.DatasetSpec(name="goes", sources=[f"{tmp_path / 'goes'}/"]))
        place.until("goes", READY)
        size_bytes = 0
        with contextlib.ExitStack() as held:
            for path in (cache / "objects").rglob("*"):
                if path.is_file():
                    held.enter_context(path.open("rb"))
                    size_bytes += path.stat().st_size
            assert size_bytes > 2 * SLACK_BYTES, "what is held would be seen"
            place.call("Evict", name("goes"))
            place.until("goes", READY)
            assert not told().used_bytes
            until_s = time.monotonic() + 5.0  # some heartbeats

            def is_smaller() -> bool:
                return abs(most_bytes(told()) - before_bytes) >= SLACK_BYTES

            wait_until(lambda: is_smaller() or time.monotonic() > until_s, "it would be seen by now")
            assert not is_smaller()
