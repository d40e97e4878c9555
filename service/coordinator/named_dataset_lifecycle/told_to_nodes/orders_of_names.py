"""The orders of all nodes about data sets that have names: tasks, and digests to have at hand."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tfquiver.clock import Clock
from tfquiver.proto.tfquiver.v1 import coordinator_pb2
from tfquiver.proto.tfquiver.v1 import named_datasets_pb2 as pb2
from tfquiver.service.coordinator.dataset_caching.caching import Caching
from tfquiver.service.coordinator.named_dataset_lifecycle.lifecycle import DELETING, EVICTING, SCANNING, Life
from tfquiver.service.coordinator.named_dataset_lifecycle.table import NamedTable
from tfquiver.service.coordinator.named_dataset_lifecycle.told_to_nodes import tasks
from tfquiver.service.coordinator.named_dataset_lifecycle.told_to_nodes.overview import Overview
from tfquiver.service.coordinator.nodes_mounts_dispatchers.membership import Membership

_SCANS_BYTES = 1 << 20


class OrdersOfNames:
    """Lives on one event loop. `announce`: called when nodes are to be told something else."""

    def __init__(
        self, clock: Clock, table: NamedTable, membership: Membership, caching: Caching, overview: Overview
    ) -> None:
        self._clock, self._table, self._membership, self._caching = clock, table, membership, caching
        self._overview = overview
        self.announce: Callable[[], None] = lambda: None
        self.number = 0  # grows whenever they are others
        self.tasks: Sequence[pb2.DatasetTask] = ()

    def look(self) -> None:
        """After states may have changed."""
        if self._overview.update():
            self._are_others()
        made, scan_bytes, now = [], 0, self._clock.now()
        busy = list(self._overview.busy())
        evicting = sum(life.phase == EVICTING and self._makes_room(life, now) for life in busy)
        for life in busy:
            scanner = ""
            if life.phase == SCANNING:
                # The others when some of these are done: a reply holds only so much, and who is not told cannot answer.
                if not self._caching.met or scan_bytes > _SCANS_BYTES:
                    continue
                progress, nodes = self._overview.progress(life), self._membership.storing
                scanner = progress.scanner(nodes, life.scanned_by, life.life, now)
            alone = self._alone(life) if life.phase in (EVICTING, DELETING) else []
            task = tasks.task(life, scanner, alone)
            if task is None or (task.HasField("warm") and self._overview.progress(life).holds_back(evicting, now)):
                continue
            if task.HasField("scan"):
                scan_bytes += task.ByteSize()
            made.append(task)
        if made != self.tasks:
            self.tasks = made
            self._are_others()

    def _makes_room(self, life: Life, now: float) -> bool:
        return self._overview.progress(life).makes_room(self._membership.storing, now)

    def known(self, version: int) -> int:
        """That version of what is told of the digests, if a node that has it can be told the rest; else 0."""
        return version if version in self._overview.changes else 0

    def tell(self, reply: coordinator_pb2.OrdersReply, since: int) -> None:
        """Puts in what a node lacks that has that `known` version of what is told of the digests; 0: none."""
        reply.tasks.extend(self.tasks)
        self._overview.tell(reply, since)

    def _are_others(self) -> None:
        self.number += 1
        self.announce()

    def _alone(self, life: Life) -> list[bytes]:
        """Its versions that are nobody else's."""
        return [one for one in tasks.versions(life) if not self._table.holding(one, life.spec.name)]
