"""What the log is told of nodes and dispatchers, while it cannot be written: of each only the last. Pure."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable

from tfquiver.proto.tfquiver.v1.commit_log_pb2 import CommitRecord
from tfquiver.service.coordinator.nodes_mounts_dispatchers.dispatchers_in_log import whole

MOST_BYTES = 8 << 20  # ten thousand nodes, and a hundred dispatchers with all their workers


class LatestNotes:
    """Nobody decides whether these come: on a disk that is full for days each silence, and each minute's workers of a
    dispatcher, would wait in memory. Of one key the last record counts alone."""

    def __init__(
        self, append: Callable[[CommitRecord], None], fails: Callable[[], bool], most_bytes: int = MOST_BYTES
    ) -> None:
        """`append`: to the log; `fails`: it could not be written when it was last tried."""
        self._append, self._fails, self._most_bytes = append, fails, most_bytes
        self._held: OrderedDict[tuple[str, str], CommitRecord] = OrderedDict()  # in the order of the last of each
        self._held_bytes = 0

    def add(self, record: CommitRecord) -> None:
        if not self._fails():
            self.flush()
            self._append(record)
            return
        key = _key(record)
        before = self._held.pop(key, None)
        if before is not None:
            self._held_bytes -= before.ByteSize()
            if before.HasField("dispatcher_known") and not before.dispatcher_known.workers_as_before:
                record = CommitRecord(dispatcher_known=whole(record.dispatcher_known, before.dispatcher_known))
        self._held[key] = record
        self._held_bytes += record.ByteSize()
        while self._held_bytes > self._most_bytes:
            self._held_bytes -= self._held.popitem(last=False)[1].ByteSize()

    def flush(self) -> bool:
        """What waits goes to the log, whether it can be written or not; False: there was nothing."""
        held, self._held, self._held_bytes = self._held, OrderedDict(), 0
        for record in held.values():
            self._append(record)
        return bool(held)


def _key(record: CommitRecord) -> tuple[str, str]:
    if record.HasField("node_known"):
        return "node", record.node_known.node.node_id
    return "dispatcher", record.dispatcher_known.address
