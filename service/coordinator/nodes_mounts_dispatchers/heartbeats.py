"""What a node's sign of life says: that it is there, or anew; which shards it has got and lost. Pure."""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator

from absl import logging

from tfquiver.log_files_and_lines.logs import about
from tfquiver.proto.tfquiver.v1 import coordinator_pb2 as pb2
from tfquiver.service.coordinator.nodes_mounts_dispatchers.membership import InventoryVerdict, Membership, Sighting
from tfquiver.service.coordinator.resident_shards.residency import Change, Residency, Settled
from tfquiver.shard_owners_chunks_hash_prefixes.prefixes import of_hashes

# For each node more than so many, what they tell of shards waits for what others tell, up to a tenth of a second: a
# thousand tell 300 times a second, and to look for one node's ten shards costs as much as for those of thirty.
_FEW_NODES, _WAIT_S, _MOST_WAIT_S = 100, 0.0001, 0.1
_MOST_WAITING = 4096  # hashes: they are looked for at once
Later = Callable[[float, Callable[[], None]], object]


class Heartbeats:
    def __init__(
        self,
        membership: Membership,
        residency: Residency,
        seen: Callable[[str, str], None],
        changed: Callable[[Iterable[Change], bool], None],
        interval_ms: int,
        coordinator_incarnation: str,
        reported: Callable[[Iterable[pb2.ReaderReport]], None] = lambda reports: None,
        read: Callable[[str, str, pb2.StoreReads], None] = lambda node_id, incarnation, reads: None,
        moves: Callable[[str, Collection[pb2.MoveReport]], None] = lambda node_id, reports: None,
        settled: Callable[[Settled], None] = lambda settled: None,
        later: Later | None = None,
        stepwise: Callable[[Iterator[None]], None] = lambda steps: deque(steps, maxlen=0).clear(),
    ) -> None:
        """`seen`: told of a node's process that is new; `changed`: of what is resident now, or no longer, and whether
        it has just come from the store; `reported`: of what readers say of themselves; `read`: of what a node's process
        says of its reads of the store; `moves`: of what a node has to move; `settled`: as `changed`, of what many nodes
        have told together. `later`: calls after so many seconds (None: nothing waits); `stepwise`: takes steps."""
        self._membership, self._residency, self._seen, self._changed = membership, residency, seen, changed
        self._interval_ms, self._incarnation = interval_ms, coordinator_incarnation
        self._reported, self._read, self._moves = reported, read, moves
        self._settled, self._later, self._stepwise = settled, later, stepwise
        self._waits = False  # `_begin` is to be called
        self._settling: Iterator[None] | None = None
        self._is_finding_out = False
        self._news = pb2.HeartbeatReply()  # the last one with members: each of a thousand nodes is told the same

    def take(self, request: pb2.HeartbeatRequest) -> pb2.HeartbeatReply:
        """The reply is not to be changed. Raises as Membership.heartbeat."""
        node_id, membership = request.node.node_id, self._membership
        sighting = membership.heartbeat(request.node, request.incarnation)
        if sighting is not Sighting.KNOWN:
            logging.info("node %s %s", node_id, sighting.value, extra=about(node=node_id))
            self._seen(node_id, request.incarnation)
        membership.scans(node_id, request.scans)
        membership.mounts.take(node_id, request.mounts)
        verdict = membership.inventory(node_id, request.inventory)
        if verdict is InventoryVerdict.APPLY:
            self._apply(node_id, request.inventory)
        if self._residency.has_doubts and not self._is_finding_out:
            self._is_finding_out = True
            self._stepwise(self._finding_out())
        self._reported(request.readers)
        if request.HasField("store_reads"):
            self._read(node_id, request.incarnation, request.store_reads)
        self._moves(node_id, request.moves)
        if verdict is InventoryVerdict.GAP:  # it tells all at once, and is given the list then
            return self._reply(request.members_version, resend=True)
        if self._news.members_version != membership.version and membership.list_is_due():
            self._news = self._reply(membership.version)
            self._news.nodes.extend(membership.live())
        if request.members_version == self._news.members_version:
            return self._reply(self._news.members_version)
        return self._news

    def gone(self, node_id: str) -> Iterator[None]:
        """It has left, or is lost: it holds nothing any more. To be gone through to its end, part by part."""
        self.settle()
        changes = self._residency.node_gone(node_id)
        return (self._changed([change], False) for change in changes)

    def settle(self) -> None:
        """Tables say what every node has told until now."""
        for _ in self._settling or ():
            pass
        for _ in self._steps():
            pass

    def stop(self) -> None:
        """Nothing is settled later any more."""
        self._later = None

    def _reply(self, members_version: int, resend: bool = False) -> pb2.HeartbeatReply:
        return pb2.HeartbeatReply(
            members_version=members_version,
            resend_inventory=resend,
            heartbeat_interval_ms=self._interval_ms,
            coordinator_incarnation=self._incarnation,
        )

    def _apply(self, node_id: str, inventory: pb2.Inventory) -> None:
        added, removed = of_hashes(inventory.added), of_hashes(inventory.removed)
        wait_s = min(_MOST_WAIT_S, _WAIT_S * (self._membership.count - _FEW_NODES))
        if self._later is not None and wait_s > 0 and not inventory.full and not inventory.more:
            if self._residency.told(node_id, added, removed) >= _MOST_WAITING:
                self.settle()
            elif not self._waits and self._settling is None:
                self._waits = True
                self._later(wait_s, self._begin)
            return
        self.settle()
        if inventory.full:
            came, goes = self._residency.replaced(node_id, added)
            self._changed(came, False)
            if (first := next(goes, None)) is not None:  # most have just joined
                self._stepwise(self._going(itertools.chain([first], goes)))
        else:  # what a node tells when it comes back, in many messages, it held before
            self._changed(self._residency.added(node_id, added), not inventory.more)
        if len(removed):
            self._changed(self._residency.removed(node_id, removed), False)

    def _going(self, changes: Iterator[Change]) -> Iterator[None]:
        """What a node that tells everything anew had before."""
        return (self._changed([change], False) for change in changes)

    def _finding_out(self) -> Iterator[None]:
        """Who holds what had more holders than are known by name, and has lost all of these."""
        try:
            for change in self._residency.find_out():
                self._changed([change], False)
                yield
        finally:
            self._is_finding_out = False

    def _begin(self) -> None:
        self._waits = False
        if self._later is not None and self._settling is None:
            self._settling = self._steps()
            self._stepwise(self._settling)

    def _steps(self) -> Iterator[None]:
        """A data set after the other: others may be served between."""
        try:
            while self._residency.unsettled:
                for settled in self._residency.settle():
                    try:
                        self._settled(settled)
                    except Exception:  # noqa: BLE001 - the other tables would never say what has been taken for them
                        logging.exception("what follows from what nodes hold now failed")
                    yield
        finally:
            self._settling = None
