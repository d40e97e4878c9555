"""What the rules come to with the nodes that live, and who is nearest to a reader."""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable, Collection, Container, Iterator, Mapping, Sequence

import numpy as np
import numpy.typing as npt

from tfquiver import errors
from tfquiver.proto.tfquiver.v1 import types_pb2
from tfquiver.proto.tfquiver.v1.coordinator_pb2 import MoveReport
from tfquiver.service.coordinator.dataset_placement_and_where_jobs_should_run.move_reports import (
    MAX_STANDING,
    MoveReports,
)
from tfquiver.service.coordinator.dataset_placement_and_where_jobs_should_run.names_told import NamesTold
from tfquiver.service.coordinator.dataset_placement_and_where_jobs_should_run.rules import Labels, Rules
from tfquiver.service.coordinator.nodes_mounts_dispatchers.membership import Membership
from tfquiver.service.coordinator.resident_shards.residency import Residency
from tfquiver.shard_owners_chunks_hash_prefixes import labels
from tfquiver.shard_owners_chunks_hash_prefixes.places import Groups, Places
from tfquiver.shard_owners_chunks_hash_prefixes.prefixes import Prefixes
from tfquiver.sizes_durations_amounts.amounts import many

MAX_NAMES_TOLD = 100_000  # of nodes, in all rules together: some MB, which every node is sent
_LOOKED_AT_ONCE = 100  # rules; to draw each of thousands of stripes anew takes the loop most of a second
_COOPERATIVE = types_pb2.CACHE_MODE_COOPERATIVE
_MOVING = (types_pb2.CACHE_MODE_UNSPECIFIED, types_pb2.CACHE_MODE_UNIFORM)


class Placed:
    def __init__(
        self,
        membership: Membership,
        residency: Residency,
        mode: Callable[[bytes], types_pb2.CacheMode.ValueType],
    ) -> None:
        """`mode`: how a data set is cached."""
        self.rules, self.reports = Rules(), MoveReports()
        self._membership, self._residency, self._mode = membership, residency, mode
        self.ready: Callable[[], bool] = lambda: True  # whether the nodes that live are known
        self.settings_set: Callable[[], int] = lambda: 0  # another number whenever a data set may be cached otherwise
        # So that versions of this process are never taken for those of the one before.
        self._first_version = random.SystemRandom().getrandbits(62) + 1
        self._made: dict[bytes, tuple[object, object, bool, Places, Groups | None]] = {}
        self._names = NamesTold()  # of what is made
        self._alike: dict[object, Places] = {}  # of `_alike_of`
        self._alike_of: object = None
        self._looked: tuple[object, ...] = ()
        self._nodes: object = None
        self._told: dict[bytes, tuple[Places, bool]] = {}
        # Of many rules: goes through what it is given, some steps at a time; and who is told when that is done.
        self.stepwise: Callable[[Iterator[None]], None] | None = None
        self.on_looked: Callable[[], None] = lambda: None
        self._is_looking = False
        self.changes = 0  # of what nodes are to be told, as far as `look` has seen them

    def places(self, digest_id: bytes) -> Places | None:
        """Where a data set is kept; None: it has no rule. The same object until that changes.

        A rotation brings each shard once: for what it keeps, the nodes count, racks and replicas do not.
        """
        rule = self.rules.find(digest_id)
        if rule is None:
            return None
        nodes, flat = self._membership.labelled, self._mode(digest_id) == _COOPERATIVE
        before = self._made.get(digest_id)
        if before is not None and before[0] is rule and before[1] is nodes and before[2] is flat:
            return before[3]
        groups = self.rules.groups(digest_id, nodes) if rule.stripe else None
        if before is not None and before[0] is rule and before[2] is flat and groups and before[4] is groups:
            places = before[3]
        else:
            places = self._computed(digest_id, rule, nodes, flat, groups)
        if before is not None and before[3] == places:
            places = before[3]
        self._made[digest_id] = rule, nodes, flat, places, groups
        self._names.put(digest_id, places)
        return places

    def copies(self, digest_id: bytes) -> int:
        """How often each shard is kept where all of it is: by chunks it has one copy, whatever the rule says."""
        rule = self.rules.find(digest_id)
        if rule is None:
            return 1
        groups = self.rules.groups(digest_id, self._membership.labelled)
        return max(1, sum(min(max(1, rule.replicas), len(names)) for _, names in groups))

    def _computed(
        self, digest_id: bytes, rule: types_pb2.PlacementRule, nodes: Labels, flat: bool, groups: Groups | None
    ) -> Places:
        """One object for all data sets that are kept alike: of thousands it takes seconds to make each its own."""
        if nodes is not self._alike_of:
            self._alike, self._alike_of = {}, nodes
        # A stripe is another one for each data set.
        key = (rule.selector, rule.rack_local, rule.replicas, flat) if not rule.stripe else digest_id
        places = self._alike.get(key)
        if places is None:
            places = Places(groups or self.rules.groups(digest_id, nodes), rule.replicas)
            if flat:
                places = places.flat
            if not rule.stripe:
                self._alike[key] = places
        return places

    def check_room(self, digest_id: bytes, rule: types_pb2.PlacementRule) -> None:
        """Raises ResourceExhaustedError: nodes are told all rules at once."""
        for its in self.rules.take_new():
            if its not in self._made:
                self.places(its)
        racks = len({its.get(labels.RACK) for its in self._membership.labelled.values()}) if rule.rack_local else 1
        own = min(rule.stripe * racks, len(self._membership.storing))
        if (names := self._names.without(digest_id) + own) > MAX_NAMES_TOLD:
            self._forget_made(self.rules)  # of rules that are gone
            names = self._names.without(digest_id) + own
        if names > MAX_NAMES_TOLD:
            raise errors.ResourceExhaustedError(
                f"stripe: {many(rule.stripe, 'node')}, and what other data sets are kept on, are {names} names; nodes "
                f"are told {MAX_NAMES_TOLD} at most: choose a smaller one, or 0, all that match"
            )

    def moves(self, digest_id: bytes) -> bool:
        """Whether what is elsewhere is to move."""
        return self._mode(digest_id) in _MOVING

    def take(self, node_id: str, reports: Collection[MoveReport]) -> bool:
        """What a node has to move, as it says; whether the rule of some data set has come to its end."""
        before, unfinished = self.rules.changes, self.rules.unfinished if reports else frozenset[bytes]()
        if len(self.reports) < MAX_STANDING:
            self.reports.take(node_id, reports, self.rules, self.rules.changes)
        else:
            self.reports.take(node_id, reports, unfinished)
        for report in reports if unfinished else ():
            if report.digest_id in unfinished and self._is_over(report.digest_id):
                self.rules.carried_out(report.digest_id)
        return self.rules.changes != before

    def _is_over(self, digest_id: bytes) -> bool:
        return self.reports.settled(digest_id, self._membership.storing, self.version)

    @property
    def version(self) -> int:
        """Of where data sets are kept now; 0: that, or the nodes, are not known yet."""
        version = self.newest[0]
        return 0 if self._is_looking else version

    @property
    def newest(self) -> tuple[int, Mapping[bytes, tuple[Places, bool]]]:
        """The version that was looked at last, and what nodes are to be told of it: of every data set that has a rule
        where it is kept, and whether what is elsewhere moves. Does not change: another look makes another one. Version
        0: the nodes are not known yet."""
        changes = self.look()
        return (self._first_version + changes, self._told) if self.ready() and self._looked else (0, {})

    def look(self) -> int:
        """`changes`, after looking whether there are more: not while nodes come back one by one after a restart."""
        if not self.ready():
            return self.changes
        for digest_id in [one for one in self.rules.ending if not self.moves(one)]:
            self.rules.ends(digest_id)
        if not self._is_looking and (self._membership.labelled is not self._nodes or self._now() != self._looked):
            self._is_looking = True
            self._begin()
        return self.changes

    def _begin(self) -> None:
        if self.stepwise is not None and len(self.rules) > _LOOKED_AT_ONCE:
            self.stepwise(self._steps_told())
        else:
            deque(self._steps(), maxlen=0)

    def _steps_told(self) -> Iterator[None]:
        yield from self._steps()
        self.on_looked()

    def _steps(self) -> Iterator[None]:
        """Looks at each rule; again at all, when meanwhile nodes, rules or settings have become others."""
        try:
            while True:
                nodes, looked, now = self._membership.labelled, self._now(), dict[bytes, tuple[Places, bool]]()
                for digest_id in list(self.rules):
                    if places := self.places(digest_id):
                        now[digest_id] = places, self.moves(digest_id)
                    yield
                    if nodes is not self._membership.labelled or looked != self._now():
                        break
                else:
                    break
            self.changes += now != self._told or looked[:1] != self._looked[:1]
            self._nodes, self._looked, self._told = nodes, looked, now
            self._forget_made(now)
        finally:
            self._is_looking = False

    def _now(self) -> tuple[int, int]:
        return self.rules.changes, self.settings_set()

    def _forget_made(self, kept: Container[bytes]) -> None:
        """Of all but these."""
        for digest_id in [one for one in self._made if one not in kept]:
            del self._made[digest_id]
            self._names.put(digest_id, None)

    def tell(self, dataset: types_pb2.Dataset) -> None:
        """What there is to say of its placement, in a message that is to be changed."""
        rule = self.rules.find(dataset.digest_id)
        if rule is None:
            return
        dataset.placement.CopyFrom(rule)
        for its in self.reports.of(dataset.digest_id):
            dataset.moving_shards += its.report.to_come_shards
            dataset.moving_bytes += its.report.to_come_bytes
            dataset.unmoved_shards += its.report.no_room_shards

    def rack(self, node_id: str) -> str:
        return self._membership.labels(node_id).get(labels.RACK, "")

    def nearest(self, digest_id: bytes, prefixes: Prefixes, names: Sequence[str], reader: str) -> list[str]:
        """Of each shard the holder that is nearest to a reader's node, of those that own it; `names`, where none of
        them holds it: another that does, or "".

        With racks a reader is sent to the owner in its own rack also where that one has nothing yet: it gets the shard
        from the home, once for all readers of the rack.
        """
        places = self.places(digest_id)
        if places is None or not places.groups:
            return list(names)
        rack, found = self.rack(reader), list(names)
        if len(places.groups) > 1 and any(rack == its for its, _ in places.groups):
            keepers = places.keepers(prefixes, rack)
            found = [keeper if name else "" for keeper, name in zip(keepers, names, strict=True)]
        if places.replicas == 1:
            return found
        owners, far = places.all(prefixes), {}
        for name in {name for its in owners for name in its}:
            far[name] = 0 if name == reader else 1 if rack and self.rack(name) == rack else 2
        holds = {name: self._residency.holds(name, prefixes) for name in far}
        for at, its in enumerate(owners):
            # With racks another one's owner is not asked, though it is nearer than the home may be: this one's will.
            may = [name for name in its if far[name] < 2] if rack and len(places.groups) > 1 else its
            having = [name for name in may if holds[name][at]]
            if having:
                found[at] = min(having, key=far.__getitem__)
        return found

    def missing(self, digest_id: bytes, prefixes: Prefixes, reader: str) -> list[str] | None:
        """Of each shard that no node holds, who is to; None: the data set has no rule."""
        places = self.places(digest_id)
        return None if places is None else places.keepers(prefixes, self.rack(reader))


def message(places: Places) -> types_pb2.Places:
    told = types_pb2.Places(replicas=places.replicas)
    for rack, names in places.groups:
        told.groups.add(rack=rack, node_ids=names)
    return told


def held_bits(masks: npt.NDArray[np.bool_]) -> list[bytes]:
    """Of each row a bit for each, the least significant of each byte first."""
    return [row.tobytes() for row in np.packbits(masks, axis=1, bitorder="little")]
