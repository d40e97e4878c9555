"""The nodes that were given up and are not back, for `tfquiver status`: else a row would be missing there, no more;
those are missed by a coordinator that was started since, too. Pure."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable

from absl import logging

from tfquiver.clock import Clock
from tfquiver.log_files_and_lines.logs import about
from tfquiver.proto.tfquiver.v1 import commit_log_pb2 as log_pb2
from tfquiver.proto.tfquiver.v1.coordinator_pb2 import LostNode
from tfquiver.proto.tfquiver.v1.types_pb2 import NodeInfo

MOST = 256
FORGOTTEN_S = 3600.0
_MOST_AT_ONCE = 32  # a millisecond or two
Record = log_pb2.CommitRecord


class LostNodes:
    """Who is there is journaled once, and again when it is at another address or is another one otherwise; who is
    given up, when it is. Gateways, which keep nothing, are not missed."""

    def __init__(
        self,
        clock: Clock,
        unix_s: Callable[[], float] = lambda: 0.0,
        journal: Callable[[Record], None] = lambda record: None,
    ) -> None:
        """`journal`: is given what changes; the caller makes it durable, soon: nobody waits for it."""
        self._clock, self._unix_s, self._journal = clock, unix_s, journal
        self._read: dict[str, log_pb2.NodeKnown] = {}  # from the log
        self._there: dict[str, log_pb2.NodeKnown] = {}  # id -> what the log says of who is no lost one
        # Of these, who has not come back since the coordinator was started again: id -> its address. It is awaited from
        # then on, and by then.
        self._awaited: dict[str, str] = {}
        self._awaited_from = clock.now()
        self._lost: dict[str, tuple[float, NodeInfo]] = {}  # id -> when last seen, and as what; in the order of losing
        # Of both of these, by their addresses: thousands come back at the same time, each of which may be at one's.
        self._away_at: dict[str, set[str]] = {}

    def add(self, info: NodeInfo, last_seen: float) -> None:
        """Where there are too many, the first that were lost are forgotten."""
        if not info.quota_bytes:
            return
        self._there.pop(info.node_id, None)
        self._awaited_no_more(info.node_id)
        self._lose(info, last_seen)
        self._journal(self._lost_record(info, last_seen))

    def there(self, info: NodeInfo) -> None:
        """It has joined, or is another one than it was; or at the address of one that is lost another has joined, with
        an empty directory."""
        self._awaited_no_more(info.node_id)
        was_lost = self._lost_no_more(info.node_id)
        for node_id in sorted(self._away_at.get(info.control_address, ())) if info.control_address else ():
            self.left(node_id)
        if not info.quota_bytes:
            if was_lost or info.node_id in self._there:
                self._gone(info.node_id)
            return
        known = log_pb2.NodeKnown(node=info)
        known.node.ClearField("used_bytes")  # other all the time
        known.node.ClearField("disk_room_bytes")
        if self._there.get(info.node_id) != known:
            self._there[info.node_id] = known
            self._journal(Record(node_known=known))

    def left(self, node_id: str) -> bool:
        """It is not missed, whether it was lost before or not. False: it would not have been."""
        known = self._lost_no_more(node_id) or node_id in self._there
        if known:
            self._gone(node_id)
        return known

    def deaf(self, seconds: float) -> None:
        """As Membership.deaf."""
        self._awaited_from = min(self._clock.now(), self._awaited_from + seconds)

    def is_any_due(self, too_old: float) -> bool:
        """`expire` would find some."""
        return bool(self._awaited) and self._awaited_from <= too_old

    def expire(self, too_old: float) -> bool:
        """Who was there before the coordinator was started again, and has not come back since `too_old`, is lost: some
        of them. False: there was none."""
        if not self.is_any_due(too_old):
            return False
        for node_id in list(itertools.islice(self._awaited, _MOST_AT_ONCE)):
            logging.warning(
                "node %s is lost: it has not come back since the coordinator was started again",
                node_id,
                extra=about(node=node_id),
            )
            self.add(self._there[node_id].node, self._awaited_from)
        return True

    @property
    def node_ids(self) -> list[str]:
        now = self._clock.now()
        return [node_id for node_id, (last_seen, _) in self._lost.items() if now - last_seen < FORGOTTEN_S]

    def awaited(self) -> list[NodeInfo]:
        """Who was there before the coordinator was started again, has not come back, and is not lost yet."""
        return [self._there[node_id].node for node_id in self._awaited]

    def told(self) -> list[LostNode]:
        """Those who were lost last come first."""
        now = self._clock.now()
        for node_id in self._lost.keys() - set(self.node_ids):
            self._lost_no_more(node_id)
        return [
            LostNode(node=info, silent_ms=int(1000 * (now - last_seen)))
            for last_seen, info in reversed(self._lost.values())
        ]

    # The log.

    def apply(self, known: log_pb2.NodeKnown) -> None:
        self._read.pop(known.node.node_id, None)
        if not known.gone:
            self._read[known.node.node_id] = known

    def restored(self) -> None:
        """The log has been read. Who was there has the time of a silent node to come back."""
        now, unix_s = self._clock.now(), self._unix_s()
        self._there = {node_id: known for node_id, known in self._read.items() if not known.heard_s}
        self._awaited = {node_id: known.node.control_address for node_id, known in self._there.items()}
        for node_id, address in self._awaited.items():
            self._away_at.setdefault(address, set()).add(node_id)
        self._awaited_from = now
        for known in self._read.values():
            ago_s = max(0.0, unix_s - known.heard_s)  # that clock may have been set
            if known.heard_s and ago_s < FORGOTTEN_S:
                self._lose(known.node, now - ago_s)
        self._read.clear()

    def still(self) -> Callable[[], Iterable[Record]]:
        """Gives the records that bring an empty object here; in any thread."""
        there, lost = list(self._there.values()), [self._lost_record(info, at) for at, info in self._lost.values()]
        return lambda: (*(Record(node_known=known) for known in there), *lost)

    # Inside.

    def _lose(self, info: NodeInfo, last_seen: float) -> None:
        self._lost_no_more(info.node_id)
        self._lost[info.node_id] = last_seen, info
        self._away_at.setdefault(info.control_address, set()).add(info.node_id)
        if len(self._lost) > MOST:
            self._gone_of_many(next(iter(self._lost)))

    def _gone_of_many(self, node_id: str) -> None:
        """Out of the log, too: where the others are forgotten, or come back, it would be missed again by a coordinator
        that is started then."""
        self._lost_no_more(node_id)
        self._journal(_gone_record(node_id))

    def _lost_no_more(self, node_id: str) -> bool:
        """False: it was not."""
        lost = self._lost.pop(node_id, None)
        if lost is not None:
            self._not_at(lost[1].control_address, node_id)
        return lost is not None

    def _awaited_no_more(self, node_id: str) -> None:
        address = self._awaited.pop(node_id, None)
        if address is not None:
            self._not_at(address, node_id)

    def _not_at(self, address: str, node_id: str) -> None:
        self._away_at[address].discard(node_id)
        if not self._away_at[address]:
            del self._away_at[address]

    def _gone(self, node_id: str) -> None:
        self._there.pop(node_id, None)
        self._awaited_no_more(node_id)
        self._journal(_gone_record(node_id))

    def _lost_record(self, info: NodeInfo, last_seen: float) -> Record:
        heard_s = max(1, int(self._unix_s() - (self._clock.now() - last_seen)))
        return Record(node_known=log_pb2.NodeKnown(node=info, heard_s=heard_s))


def _gone_record(node_id: str) -> Record:
    return Record(node_known=log_pb2.NodeKnown(node=NodeInfo(node_id=node_id), gone=True))
