"""What follows from the states of all data sets that have names, kept up name by name: where there are ten thousand,
only those that have changed are looked at. Pure.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from tfquiver.proto.tfquiver.v1 import coordinator_pb2
from tfquiver.proto.tfquiver.v1 import named_datasets_pb2 as pb2
from tfquiver.service.coordinator.named_dataset_lifecycle import lifecycle
from tfquiver.service.coordinator.named_dataset_lifecycle.lifecycle import DELETING, EVICTING, SCANNING, WARMING, Life
from tfquiver.service.coordinator.named_dataset_lifecycle.progress import TaskProgress
from tfquiver.service.coordinator.named_dataset_lifecycle.table import NamedTable
from tfquiver.service.coordinator.named_dataset_lifecycle.told_to_nodes import tasks
from tfquiver.service.coordinator.named_dataset_lifecycle.told_to_nodes.changes import NamedChanges

_WITH_TASKS = (SCANNING, WARMING, EVICTING, DELETING)


@dataclass(slots=True)
class _Noted:
    life: str = ""
    named: list[pb2.NamedDigest] = field(default_factory=list)


class Overview:
    """`first_version`: of `changes`."""

    def __init__(self, table: NamedTable, first_version: int = 1) -> None:
        self._table = table
        self._noted: dict[str, _Noted] = {}  # those of which nodes were told something else last, last
        self._busy: dict[str, None] = {}  # those that became so first, first
        self._progress: dict[str, tuple[str, TaskProgress]] = {}  # by life, of the task that it has now
        self._others: dict[str, None] = {}  # names of which nodes are to be told something else
        self.changes = NamedChanges(first_version)

    def note(self) -> None:
        """A state has changed: of ten thousand that have, all at once would take a while."""
        names = self._table.take_changed()
        self._others |= dict.fromkeys(name for name in names if self._note(name, self._table.get(name)))

    def update(self) -> bool:
        """After states have changed: whether `named` is another."""
        self.note()
        others, self._others = self._others, {}
        if others:
            self.changes.add(others)
        return bool(others)

    @property
    def named(self) -> list[pb2.NamedDigest]:
        return [one for noted in self._noted.values() for one in noted.named]

    def tell(self, reply: coordinator_pb2.OrdersReply, since: int) -> None:
        """Puts in what of `named` a node lacks that has that version of it, one of `changes`; 0: none."""
        reply.named_version, reply.named_since = self.changes.version, since
        if not since:
            reply.named.extend(self.named)
            return
        for name in self.changes.since(since):
            if (noted := self._noted.get(name)) and noted.named:
                reply.named.extend(noted.named)
            else:
                reply.named_gone.append(name)

    def busy(self) -> Iterator[Life]:
        """Those for which nodes may have something to do."""
        return (life for name in list(self._busy) if (life := self._table.get(name)))

    def progress(self, life: Life) -> TaskProgress:
        """Of the task that it has now."""
        found = self.find_progress(life)
        if found is None:
            found = TaskProgress()
            self._progress[life.life] = lifecycle.task_id(life), found
        return found

    def find_progress(self, life: Life) -> TaskProgress | None:
        task_id, progress = self._progress.get(life.life, ("", None))
        return progress if task_id == lifecycle.task_id(life) else None

    def _note(self, name: str, life: Life | None) -> bool:
        before = self._noted.get(name)
        if before is not None and (life is None or life.life != before.life):
            self._progress.pop(before.life, None)
        if life is None:
            self._busy.pop(name, None)
            self._noted.pop(name, None)
            return bool(before and before.named)
        if life.phase in _WITH_TASKS:
            self._busy[name] = None
        else:
            self._busy.pop(name, None)
        after = _Noted(life.life, tasks.named(life))
        other = (before.named if before else []) != after.named
        if other:
            self._noted.pop(name, None)
        self._noted[name] = after
        return other
