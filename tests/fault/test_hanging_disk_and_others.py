"""While one node's disk hangs data sets that are emptied say so, all others are scanned, and it ends by itself."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.fault.test_emptied_and_put import READY
from tests.fault.test_emptied_and_put_late import late
from tests.support import numbered
from tests.support.cluster import wait_until
from tests.support.named_place import name
from tests.support.privileges import needs_disks
from tfquiver.proto.tfquiver.v1 import named_datasets_pb2 as pb

EVICTING = pb.NamedDataset.STATE_EVICTING


@pytest.mark.long
@needs_disks
def test_it_is_said_where_an_eviction_stands_and_others_are_scanned_meanwhile(tmp_path: Path) -> None:
    """Each eviction, and each note, held one of the threads that scans need, too; a scan on the node whose disk hung
    waited for that."""
    with late(tmp_path) as it:
        it.empty("goes")
        names = [f"more{number}" for number in range(6)]
        for number, called in enumerate(names):
            numbered.write(tmp_path / called, 1, 30, 30_000 + number)
            it.place.call("Create", pb.DatasetSpec(name=called, sources=[f"{tmp_path / called}/"]))
            it.place.until(called, READY)
        wait_until(lambda: it.told().entries > 0, "something of them is there")
        it.put_in_vain()
        for called in ("goes", *names):
            it.place.call("Evict", name(called))

        def said() -> bool:
            now = it.place.call("Get", pb.GetNamedDatasetRequest(name="goes"))
            return now.state == EVICTING and "the disk has not answered for" in now.reason

        wait_until(said, "it says what it waits for")
        for number in range(4):  # by either node
            called = f"new{number}"
            numbered.write(tmp_path / called, 2, 100, 40_000 + number)
            it.place.call("Create", pb.DatasetSpec(name=called, sources=[f"{tmp_path / called}/"]))
            it.place.until(called, READY)
        assert it.told().disk_hangs_ms > 10_000
        assert it.place.call("Get", pb.GetNamedDatasetRequest(name="goes")).state == EVICTING
        it.disk.thaw()
        for called in ("goes", *names):
            it.place.until(called, READY)
