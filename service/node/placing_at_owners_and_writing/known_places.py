"""Where data sets are kept, as the coordinator last told this node. Pure; may be read from any thread."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tfquiver.digests.digest import Digest
from tfquiver.proto.tfquiver.v1 import coordinator_pb2 as pb
from tfquiver.proto.tfquiver.v1 import types_pb2
from tfquiver.service.node.coordinator_link.of_members import OfMembers
from tfquiver.shard_owners_chunks_hash_prefixes import labels, prefixes
from tfquiver.shard_owners_chunks_hash_prefixes.places import Places
from tfquiver.shard_owners_chunks_hash_prefixes.prefixes import Prefixes


@dataclass(frozen=True, slots=True)
class KeptSet:
    """One data set. `moves`: what is elsewhere than it should be is to move."""

    places: Places
    moves: bool

    @staticmethod
    def all(told: Sequence[pb.DatasetPlaces]) -> dict[bytes, KeptSet]:
        """By digest id."""
        places: list[Places] = []
        for one in told:
            if 0 < one.same_as <= len(places):
                places.append(places[one.same_as - 1])
            else:
                groups = [(group.rack, list(group.node_ids)) for group in one.places.groups]
                places.append(Places(groups, one.places.replicas))
        return {one.digest_id: KeptSet(its, one.moves) for one, its in zip(told, places, strict=True)}


@dataclass(frozen=True, slots=True)
class ToldPlaces:
    """What one version says. Does not change."""

    version: int
    sets: Mapping[bytes, KeptSet]  # by digest id


class KnownPlaces:
    def __init__(self, node_id: str = "", members: Callable[[], Sequence[types_pb2.NodeInfo]] = tuple) -> None:
        """`members`: every live node; another object whenever they are others."""
        self._node_id = node_id
        self._racks = OfMembers(members, lambda live: {node.node_id: node.labels.get(labels.RACK, "") for node in live})
        self._told = ToldPlaces(0, {})
        self._moved: dict[bytes, KeptSet] = {}  # of which nothing is left here that others own
        self._contents: dict[bytes, Prefixes] = {}  # sorted, of the digests that are here

    @property
    def told(self) -> ToldPlaces:
        """The newest, both of it together: taken apart, the one may be of another version than the other."""
        return self._told

    @property
    def rack(self) -> str:
        """This node's; "": it has none, or is not a member yet."""
        return self._racks().get(self._node_id, "")

    @property
    def version(self) -> int:
        return self._told.version

    @property
    def sets(self) -> Mapping[bytes, KeptSet]:
        """By digest id; the same object as long as nothing is different."""
        return self._told.sets

    def use(self, version: int, told: Sequence[pb.DatasetPlaces]) -> bool:
        """The newest, instead of all before; whether it is another version. Version 0: what was told before holds."""
        if not version or version == self.version:
            return False
        sets = KeptSet.all(told)
        if sets == self.sets:
            self._told = ToldPlaces(version, self.sets)
        else:
            self._told = ToldPlaces(version, sets)
            self._contents = {key: values for key, values in self._contents.items() if key in sets}
            self._moved = {key: kept for key, kept in self._moved.items() if sets.get(key) == kept}
        return True

    def has(self, digest: Digest) -> None:
        """The digest of one of them is here: its shards are known by their hashes from now on. Sorts them."""
        if digest.digest_id in self.sets and digest.digest_id not in self._contents:
            self._contents = {**self._contents, digest.digest_id: np.sort(prefixes.of_rows(digest.hashes))}

    def has_moved(self, digest_id: bytes, kept: KeptSet) -> bool:
        """Of one that is kept like that nothing is left here that others own; whether that is so now, and new."""
        if kept != self.sets.get(digest_id) or kept == self._moved.get(digest_id):
            return False
        self._moved[digest_id] = kept
        return True

    def is_moving(self, digest_id: bytes) -> bool:
        """Something may be left here that others own, and are to take over from here."""
        kept = self.sets.get(digest_id)
        return kept is not None and kept.moves and self._moved.get(digest_id) != kept

    def of(self, digest_id: bytes) -> Places | None:
        """None: it has no rule."""
        kept = self.sets.get(digest_id)
        return kept.places if kept else None

    def holding(self, hash: bytes) -> list[Places]:
        """Of the data sets that have such a shard."""
        value = prefixes.of_hash(hash)
        found = []
        for digest_id, its in list(self._contents.items()):
            at = int(np.searchsorted(its, value))
            if at < len(its) and its[at] == value and (kept := self.sets.get(digest_id)):
                found.append(kept.places)
        return found

    def owned(self, values: Prefixes) -> npt.NDArray[np.bool_]:
        """Shape [shards]: whether this node owns them, by the placement of any data set. Of many data sets it takes a
        while: for a thread."""
        found = np.zeros(len(values), np.bool_)
        for digest_id, its in list(self._contents.items()):
            if not len(its) or (kept := self.sets.get(digest_id)) is None:
                continue
            at = np.minimum(np.searchsorted(its, values), len(its) - 1)
            there = np.flatnonzero((its[at] == values) & ~found)
            if len(there):
                found[there] = kept.places.owned(values[there], self._node_id)
        return found

    def quotas(self, digest_id: bytes, quotas: Mapping[str, int]) -> Mapping[str, int]:
        """Without the nodes that are to keep nothing of a data set."""
        places = self.of(digest_id)
        if places is None:
            return quotas
        return {name: quota for name, quota in quotas.items() if name in places.members}

    def before_store(self, digest_id: bytes, hash: bytes) -> str:
        """Who is to be asked before this node, an owner, reads the store; "": nobody."""
        places = self.of(digest_id)
        if places is None or (len(places.groups) < 2 and places.replicas < 2):
            return ""
        (first,) = places.first(prefixes.of_hashes([hash]))
        return "" if first == self._node_id else first

    def others(self, digest_id: bytes, hash: bytes, failed: str) -> list[str]:
        """Other nodes that own it than this one and the one that has failed; those of this node's rack first."""
        places = self.of(digest_id)
        if places is None or (len(places.groups) < 2 and places.replicas < 2):
            return []
        names = [name for name in places.all(prefixes.of_hashes([hash]))[0] if name not in (failed, self._node_id)]
        return sorted(names, key=self.is_far)

    def is_far(self, node_id: str) -> bool:
        """In another rack, as far as labels say."""
        racks = self._racks()
        own, other = racks.get(self._node_id, ""), racks.get(node_id, "")
        return bool(own and other and own != other)
