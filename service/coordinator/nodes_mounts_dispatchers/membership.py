"""Which nodes live. Pure: the clock is an argument."""

from __future__ import annotations

import enum
import math
from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from tfquiver import errors
from tfquiver.clock import Clock
from tfquiver.disk_space_of_shards.node_room import room_bytes
from tfquiver.proto.tfquiver.v1 import coordinator_pb2, types_pb2
from tfquiver.service.coordinator.nodes_mounts_dispatchers.lost_nodes import LostNodes
from tfquiver.service.coordinator.nodes_mounts_dispatchers.mounts import Mounts

MAX_NODES = 10_000
_FEW_NODES = 100
# For each node more, between lists of which only the room of nodes is news: of 1000 it is 97 KB, and takes 0.3 ms here
# and in each node.
_PAUSE_S = 0.03
# For each node more, between any two: one for each of 5000 that came at once took half a minute, and a gigabyte.
_LIST_PAUSE_S = 0.001


class Sighting(enum.Enum):
    KNOWN = "known"
    JOINED = "joined"
    RESTARTED = "restarted"  # the node is known, its process is new


class InventoryVerdict(enum.Enum):
    APPLY = "apply"
    REPEATED = "repeated"  # applied already
    GAP = "gap"  # ask for everything again


@dataclass(slots=True)
class _Node:
    info: types_pb2.NodeInfo
    incarnation: str
    last_seen: float
    heartbeats: int = 1
    inventory_version: int = 0
    inventory_known: bool = False
    inventory_whole: bool = False
    scans: int = 0
    labels: Mapping[str, str] = field(default_factory=dict)  # of `info`, where to read them takes two microseconds
    earlier: deque[str] = field(default_factory=lambda: deque(maxlen=8))  # incarnations


def _matters(info: types_pb2.NodeInfo) -> tuple[object, ...]:
    """What others must be told at once when it changes."""
    return info.control_address, info.data_address, info.quota_bytes, sorted(info.labels.items())


def _room(info: types_pb2.NodeInfo) -> int:
    """Others are told of every sixteenth of the quota, and near the end, where it matters who has room for another
    shard, of every halving."""
    free_bytes = room_bytes(info)
    return 16 * free_bytes // max(1, info.quota_bytes) or -free_bytes.bit_length()


class Membership:
    def __init__(self, clock: Clock, timeout_s: float, first_version: int = 1, lost: LostNodes | None = None) -> None:
        """`first_version`: so that versions of this process are never taken for those of the one before. `lost`: is
        told who is there, who is given up, and who leaves; None: one that remembers them while this process lives."""
        self._clock, self._timeout_s = clock, timeout_s
        self._began = clock.now()
        self._nodes: dict[str, _Node] = {}
        # Control address -> the live nodes there, who was heard of last comes last: mostly one. Of a rack that is lost,
        # to look for each at all others took seconds.
        self._at: dict[str, dict[str, None]] = {}
        self.lost, self.mounts = lost or LostNodes(clock), Mounts(clock)
        self._storing: tuple[str, ...] = ()
        self._labelled: Mapping[str, Mapping[str, str]] = {}
        self._changed = set[str]()  # nodes of which these two say what was before
        self._room_changed, self._refreshed_at = False, clock.now()
        self._listed_at = -math.inf
        self.joined_at = clock.now()  # the last one, if any
        self.version = first_version  # another one whenever what nodes must know of one another is

    def up_ms(self) -> int:
        """Since it began to know any node; at least 1."""
        return max(1, int(1000 * (self._clock.now() - self._began)))

    @property
    def storing(self) -> tuple[str, ...]:
        """Names of the live nodes that own shards (quota > 0), sorted. The same object until that changes."""
        self._settle()
        return self._storing

    @property
    def labelled(self) -> Mapping[str, Mapping[str, str]]:
        """Labels of the nodes of `storing`. The same object until one of them has others, or `storing` changes."""
        self._settle()
        return self._labelled

    def labels(self, node_id: str) -> Mapping[str, str]:
        """Of any live node; none of others."""
        node = self._nodes.get(node_id)
        return node.info.labels if node is not None else {}

    @property
    def all_told(self) -> bool:
        """Every live node has said all that it holds."""
        return all(node.inventory_whole for node in self._nodes.values())

    @property
    def count(self) -> int:
        """Of those that live."""
        return len(self._nodes)

    def live(self) -> list[types_pb2.NodeInfo]:
        return [node.info for node in self._nodes.values()]

    def silent_ms(self) -> list[int]:
        """Since each of `live` was last heard of."""
        now = self._clock.now()
        return [max(0, int(1000 * (now - node.last_seen))) for node in self._nodes.values()]

    def list_is_due(self) -> bool:
        """A list of those that live may be made for all: then the next one has to wait."""
        now = self._clock.now()
        if now < self._listed_at + _LIST_PAUSE_S * max(0, len(self._nodes) - _FEW_NODES):
            return False
        self._listed_at = now
        return True

    def is_live(self, node_id: str, incarnation: str) -> bool:
        node = self._nodes.get(node_id)
        return node is not None and node.incarnation == incarnation

    def heartbeat(self, info: types_pb2.NodeInfo, incarnation: str) -> Sighting:
        """Raises InvalidArgumentError for a process that another one of that node has replaced."""
        now = self._clock.now()
        node = self._nodes.get(info.node_id)
        if node is None:
            if len(self._nodes) >= MAX_NODES:
                raise errors.ResourceExhaustedError(f"{MAX_NODES} nodes are members already")
            self._nodes[info.node_id] = _Node(info, incarnation, now, labels=dict(info.labels))
            self._at.setdefault(info.control_address, {})[info.node_id] = None
            self.joined_at = now
            self.lost.there(info)
            self._refresh([info.node_id])
            return Sighting.JOINED
        before = node.info
        if node.incarnation == incarnation:
            node.info, node.last_seen, node.heartbeats = info, now, node.heartbeats + 1
            sighting = Sighting.KNOWN
        elif incarnation in node.earlier:
            raise errors.InvalidArgumentError(
                f"incarnation: node {info.node_id} was started again since; do two processes use one cache directory?"
            )
        else:
            node.earlier.append(node.incarnation)
            node.info, node.incarnation, node.last_seen, node.heartbeats = info, incarnation, now, node.heartbeats + 1
            node.inventory_version, node.inventory_known, node.inventory_whole = 0, False, False
            self.mounts.gone(info.node_id)
            sighting = Sighting.RESTARTED
        self._heard_at(info, before.control_address)
        self._room_changed = self._room_changed or _room(before) != _room(info)
        room_is_told_at = self._refreshed_at + _PAUSE_S * max(0, len(self._nodes) - _FEW_NODES)
        if matters := _matters(before) != _matters(info):
            node.labels = dict(info.labels)
            self.lost.there(info)
        if matters or (self._room_changed and now >= room_is_told_at):
            self._refresh([info.node_id] if matters else ())
        return sighting

    def inventory(self, node_id: str, inventory: coordinator_pb2.Inventory) -> InventoryVerdict:
        """Whether a report of a member is to be applied; notes its version when it is."""
        node = self._nodes[node_id]
        version = inventory.version
        if inventory.full:
            if node.inventory_known and 0 < version <= node.inventory_version:
                return InventoryVerdict.REPEATED
            node.inventory_version, node.inventory_known = version, True
            node.inventory_whole = not inventory.more
            return InventoryVerdict.APPLY
        if not node.inventory_known:
            return InventoryVerdict.GAP
        if version == 0 or version <= node.inventory_version:
            return InventoryVerdict.REPEATED
        if version > node.inventory_version + 1:
            node.inventory_known = False
            return InventoryVerdict.GAP
        node.inventory_version = version
        node.inventory_whole = node.inventory_whole or not inventory.more
        return InventoryVerdict.APPLY

    def heartbeats(self, node_id: str) -> int:
        """Of a member, so far."""
        return self._nodes[node_id].heartbeats

    def scans(self, node_id: str, count: int) -> None:
        """How many first uses of data sets a member is scanning, as it says."""
        self._nodes[node_id].scans = count

    @property
    def scanning(self) -> bool:
        """Some live node is."""
        return any(node.scans for node in self._nodes.values())

    def told(self) -> tuple[int, ...]:
        """Equal for as long as the members have told nothing new, of themselves or of what they hold."""
        nodes = self._nodes.values()
        sums = (sum(of) for of in zip(*((n.info.used_bytes, n.inventory_version, n.scans) for n in nodes), strict=True))
        return self.version, *sums

    def leave(self, node_id: str, incarnation: str) -> bool:
        """False when there is nothing to do: it has left already, or another process has taken its place."""
        if not self.is_live(node_id, incarnation):
            if node_id not in self._nodes:  # it was given up, or has not been heard of since a restart
                self.lost.left(node_id)
            return False
        self._pop(node_id)
        self.lost.left(node_id)
        self.mounts.gone(node_id)
        self._refresh([node_id])
        return True

    def forget(self, node_ids: Iterable[str], all_lost: bool = False) -> list[str]:
        """Nodes that are gone for good, `all_lost`: and all that are lost, are not missed any more; those that were, or
        would have been. Raises InUseError, and forgets none, where one that is named lives."""
        named = list(dict.fromkeys(node_ids))
        for node in (self._nodes[one] for one in named if one in self._nodes):
            silent_s = self._clock.now() - node.last_seen
            raise errors.InUseError(
                f"node {node.info.node_id} is heard of, {silent_s:.0f} s ago for the last time: stop it, or wait until "
                "it is lost"
            )
        lost = [one.node.node_id for one in self.lost.told()] if all_lost else []
        return [one for one in dict.fromkeys((*named, *lost)) if self.lost.left(one)]

    def deaf(self, seconds: float) -> None:
        """For so long nobody could be heard: it does not count as silence of the nodes."""
        now = self._clock.now()
        for node in self._nodes.values():
            node.last_seen = min(now, node.last_seen + seconds)
        self.lost.deaf(seconds)

    def expire(self) -> list[str]:
        """Nodes not heard of for the timeout; they are members no longer. All at once: see `silent` and
        `give_up` where there may be thousands."""
        too_old = self.too_old()
        lost = self.give_up(self.silent(too_old), too_old)
        while self.lost.expire(too_old):
            pass
        return lost

    def heard(self, node_id: str, incarnation: str) -> None:
        """A message of that process is here, and what it says is yet to be taken."""
        if self.is_live(node_id, incarnation):
            self._nodes[node_id].last_seen = self._clock.now()

    def too_old(self, at: float | None = None) -> float:
        """Who has not been heard of since is silent, as of that time of the clock; None: now."""
        return (self._clock.now() if at is None else at) - self._timeout_s

    def is_any_due(self, now: float) -> bool:
        """Somebody is silent, or has not come back since the coordinator was started again."""
        too_old = self.too_old(now)
        return any(node.last_seen <= too_old for node in self._nodes.values()) or self.lost.is_any_due(too_old)

    def silent(self, too_old: float) -> list[str]:
        """Who was heard of first comes first: another one at its address has taken its place."""
        silent = [(node.last_seen, node_id) for node_id, node in self._nodes.items() if node.last_seen <= too_old]
        return [node_id for _, node_id in sorted(silent)]

    def give_up(self, node_ids: Iterable[str], too_old: float) -> list[str]:
        """Of these those that are still silent; they are members no longer."""
        known = ((node_id, self._nodes.get(node_id)) for node_id in node_ids)
        lost = [node_id for node_id, node in known if node is not None and node.last_seen <= too_old]
        for node_id in lost:
            node = self._pop(node_id)
            self.mounts.gone(node_id)
            self._missed(node)
        if lost:
            self._refresh(lost)
        return lost

    def _heard_at(self, info: types_pb2.NodeInfo, before: str) -> None:
        if before != info.control_address:
            self._not_at(before, info.node_id)
        there = self._at.setdefault(info.control_address, {})
        if len(there) > 1:
            there.pop(info.node_id, None)
        there[info.node_id] = None

    def _pop(self, node_id: str) -> _Node:
        node = self._nodes.pop(node_id)
        self._not_at(node.info.control_address, node_id)
        return node

    def _not_at(self, address: str, node_id: str) -> None:
        del self._at[address][node_id]
        if not self._at[address]:
            del self._at[address]

    def _missed(self, node: _Node) -> None:
        """Not where another one has been started at its address since, with an empty directory."""
        address = node.info.control_address
        last = next(reversed(self._at.get(address, {})), None) if address else None
        if last is not None and self._nodes[last].last_seen > node.last_seen:
            self.lost.left(node.info.node_id)
        else:
            self.lost.add(node.info, node.last_seen)

    def _refresh(self, changed: Iterable[str] = ()) -> None:
        """`changed`: nodes that have come, gone, or are others than they were."""
        self.version += 1
        self._room_changed, self._refreshed_at = False, self._clock.now()
        self._changed.update(changed)

    def _settle(self) -> None:
        """When it is asked for: of ten thousand to go through all takes a millisecond or two, and with each of those
        that come back, or are lost, together seconds."""
        if not self._changed:
            return
        changed, nodes, labelled = self._changed, self._nodes, self._labelled
        self._changed = set()
        storing = {one for one in changed if one in nodes and nodes[one].info.quota_bytes > 0}
        if gone := {one for one in changed if one in labelled} - storing:
            self._storing = tuple(one for one in self._storing if one not in gone)
        if come := {one for one in storing if one not in labelled}:
            self._storing = tuple(sorted((*self._storing, *come)))
        if gone or come or any(nodes[one].labels != labelled[one] for one in storing):
            self._labelled = {node_id: nodes[node_id].labels for node_id in self._storing}
