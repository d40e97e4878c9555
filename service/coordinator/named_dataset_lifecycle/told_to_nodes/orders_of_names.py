"""The orders of all nodes about data sets that have names: tasks, and digests to have at hand."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tfquiver.clock import Clock
from tfquiver.proto.tfquiver.v1 import coordinator_pb2
from tfquiver.proto.tfquiver.v1 import named_datasets_pb2 as pb2
from tfquiver.service.coordinator.dataset_caching.caching import Caching
from tfquiver.service.coordinator.named_dataset_lifecycle.lifecycle import DELETING, EVICTING, SCANNING, WARMING, Life
from tfquiver.service.coordinator.named_dataset_lifecycle.table import NamedTable
from tfquiver.service.coordinator.named_dataset_lifecycle.told_to_nodes import tasks
from tfquiver.service.coordinator.named_dataset_lifecycle.told_to_nodes.overview import Overview
from tfquiver.service.coordinator.nodes_mounts_dispatchers.membership import Membership

_SCANS_BYTES = 1 << 20
# Every node is told of each task, and answers: of ten thousand at a time each look was a tenth of a second of the loop,
# each reply a megabyte for each of a thousand nodes, and what these had said of them gigabytes.
MOST_TASKS = 256
_SCANS_OF_A_NODE = 2  # one scans one after the other
_LONG_S = 60.0  # others' turn comes, too: a disk that hangs, or a data set of many TB


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
        self._told: dict[str, float] = {}  # lives whose tasks nodes are given, since when
        self.left_out: frozenset[str] = frozenset()  # lives whose turn is still to come
        self._scans: dict[str, tuple[Life, pb2.DatasetTask]] = {}  # as they were made last, by life

    def is_told(self, life: Life) -> bool:
        """Whether nodes are given its task."""
        return life.life in self._told

    def look(self) -> None:
        """After states may have changed."""
        if self._overview.update():
            self._are_others()
        made, scan_bytes, now = [], 0, self._clock.now()
        nodes, busy = self._membership.storing, list(self._overview.busy())
        evicting = sum(life.phase == EVICTING and self._makes_room(life, now) for life in busy)
        most_scans, scans, new = max(MOST_TASKS, _SCANS_OF_A_NODE * len(nodes)), 0, 0
        told, left_out, scanned = dict[str, float](), set[str](), dict[str, tuple[Life, pb2.DatasetTask]]()
        for life in busy:
            scanner, since_s = "", self._told.get(life.life)
            if life.phase != SCANNING and new >= MOST_TASKS and since_s is None:
                left_out.add(life.life)
                continue
            if life.phase == SCANNING:
                # The others when some of these are done: a reply holds only so much, and who is not told cannot answer.
                if not self._caching.met or scan_bytes > _SCANS_BYTES or scans >= most_scans:
                    continue
                scanner = self._overview.progress(life).scanner(nodes, life.scanned_by, life.life, now)
            elif life.phase == WARMING and self._overview.progress(life).holds_back(evicting, now):
                continue
            task = self._task(life, scanner)
            if task is None:
                continue
            if scanner:
                scan_bytes, scans = scan_bytes + task.ByteSize(), scans + 1
                scanned[life.life] = life, task
            else:
                told[life.life] = since_s = now if since_s is None else since_s
                new += now - since_s < _LONG_S
            made.append(task)
        self._told, self.left_out, self._scans = told, frozenset(left_out), scanned
        if made != self.tasks:
            self.tasks = made
            self._are_others()

    def _task(self, life: Life, scanner: str) -> pb2.DatasetTask | None:
        of, made = self._scans.get(life.life, (None, None))
        if made is not None and of is life and made.scan.node_id == scanner:
            return made
        return tasks.task(life, scanner, self._alone(life) if life.phase in (EVICTING, DELETING) else [])

    def _makes_room(self, life: Life, now: float) -> bool:
        """It will, where its turn is still to come."""
        return not self.is_told(life) or self._overview.progress(life).makes_room(self._membership.storing, now)

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
