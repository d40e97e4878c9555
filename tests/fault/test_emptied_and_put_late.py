"""What was put at a node whose disk takes long to keep it goes when its data set is emptied meanwhile, though whoever
put it was told after ten seconds that it is not kept, and says that he is through."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.fault.test_emptied_and_put import READY, put
from tests.support import node_calls, numbered
from tests.support.cluster import wait_until
from tests.support.disks import Disk, ext4
from tests.support.named_place import Place, name
from tests.support.privileges import needs_disks
from tfquiver import errors
from tfquiver.digests.digest import Digest
from tfquiver.proto.tfquiver.v1 import named_datasets_pb2 as pb
from tfquiver.proto.tfquiver.v1 import node_pb2


class Late:
    """Two nodes, of which the first has its cache on a disk that can be frozen, and two data sets."""

    def __init__(self, root: Path, disk: Disk) -> None:
        self.disk = disk
        (root / "cluster").mkdir()
        (root / "cluster" / "cache0").symlink_to(disk.path / "cache")
        (disk.path / "cache").mkdir(mode=0o700)
        self.place = Place(root / "cluster", nodes=2, flags=["--node_timeout_ms=30000"])
        self.here, self.other = self.place.nodes
        try:
            for number, called in enumerate(("goes", "other")):
                numbered.write(root / called, 4, 100, 20_000 + number)
                self.place.call("Create", pb.DatasetSpec(name=called, sources=[f"{root / called}/"]))
            digest_id = self.place.until("goes", READY).dataset.digest_id
            path = disk.path / "cache" / "digests" / f"{digest_id.hex()}.tfqd"
            wait_until(path.exists, "it has the digest")
            self.digest = Digest.open(path)
            self.empty("other")
        except BaseException:
            self.place.stop()
            raise

    def empty(self, called: str) -> None:
        self.place.until(called, READY)
        self.place.call("Evict", name(called))
        self.place.until(called, READY)

    def put_late(self) -> None:
        """From now on the disk takes nothing."""
        wait_until(lambda: not self.told().entries, "nothing stands there")
        self.put_in_vain()

    def put_in_vain(self) -> None:
        """So, too, though other things stand there."""
        (there,) = (
            node for node in node_calls.nodes(self.place.coordinator.address)
            if node.control_address == self.here.ready["control"]
        )  # fmt: skip
        self._written_bytes = self.told().written_bytes
        self.disk.freeze()
        with pytest.raises(errors.ResourceExhaustedError, match="the disk takes longer than 10 s"):
            put(self.digest, 0, there.node_id, there.data_address)

    def lands_and_goes(self) -> None:
        self.disk.thaw()
        wait_until(lambda: self.told().written_bytes > self._written_bytes, "it has landed")
        wait_until(lambda: not self.told().entries, "nothing of it is left")
        wait_until(lambda: not self.place.until("goes", READY).resident_bytes, "and that is told")

    def told(self) -> node_pb2.StatusReply:
        return node_calls.status(self.here.ready["control"])


@contextmanager
def late(root: Path) -> Iterator[Late]:
    with ext4(root, 64 << 20) as disk:
        it = Late(root, disk)
        try:
            yield it
        finally:
            disk.thaw()
            it.place.stop()


@needs_disks
def test_what_was_put_before_the_evict_and_lands_after_it_goes(tmp_path: Path) -> None:
    """The node said that it was through, and what its disk took later stayed."""
    with late(tmp_path) as it:
        it.empty("goes")
        it.put_late()
        it.place.call("Evict", name("goes"))
        it.empty("other")  # it has heard of the one before
        it.lands_and_goes()


@needs_disks
def test_what_is_put_while_others_empty_it_and_lands_when_all_have_goes(tmp_path: Path) -> None:
    """The look at what came meanwhile was over by then."""
    with late(tmp_path) as it:
        os.kill(it.other.process.pid, signal.SIGSTOP)
        try:
            it.place.call("Evict", name("goes"))
            it.put_late()
        finally:
            os.kill(it.other.process.pid, signal.SIGCONT)
        it.place.until("goes", READY)
        it.empty("other")  # it has heard that the one before is over
        it.lands_and_goes()
