"""Shards on their way to where they belong: this node's disk, or their owner's."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence

import google_crc32c
from absl import logging

from tfquiver import errors
from tfquiver.disk_space_of_shards.node_room import room_bytes
from tfquiver.log_files_and_lines.logs import about
from tfquiver.log_files_and_lines.rare_lines import every_n_seconds
from tfquiver.proto.tfquiver.v1 import types_pb2
from tfquiver.service.node.coordinator_link.of_members import Members, OfMembers
from tfquiver.service.node.disk import codec, entry
from tfquiver.service.node.disk.disk_cache import DiskCache
from tfquiver.service.node.disk_quota_books_and_eviction.rules import Why
from tfquiver.service.node.placing_at_owners_and_writing.known_places import KnownPlaces
from tfquiver.service.node.placing_at_owners_and_writing.placed_here import PlacedHere
from tfquiver.service.node.sealed_memory_of_checked_shards.verified import VerifiedShard
from tfquiver.shard_owners_chunks_hash_prefixes.prefixes import of_hashes
from tfquiver.shard_owners_chunks_hash_prefixes.rendezvous import Owners

_ASKED = 2
_ASKED_WITH_ROOM = 4  # who had none a moment ago costs nothing


class Placer:
    """Puts shards that come by (a scan, a compressed file) where they belong. Thread-safe; blocks.

    `here` is what is on its way onto this node's disk; whoever has the placer closes it.

    Args:
      members: every live node; another object whenever they are others.
      known: where data sets with a placement are kept.
      put: sends a shard to a node, or does not where that node had no room a moment ago, unless its last argument says
        so; raises TfquiverError when that node does not take it.
    """

    def __init__(
        self,
        node_id: str,
        disk: DiskCache,
        members: Callable[[], Sequence[types_pb2.NodeInfo]] = tuple,
        put: Callable[[str, VerifiedShard, bool], None] | None = None,
        known: KnownPlaces | None = None,
    ) -> None:
        self._node_id, self._disk, self._members, self._put = node_id, disk, members, put
        self._known = known or KnownPlaces()
        self.here = PlacedHere(disk)
        self._storing, self._emptiest = OfMembers(members, _owners), OfMembers(members, self._by_room)

    def place(self, shard: VerifiedShard) -> bool:
        """Whether it is kept now: by its owner, or where that one has no room or cannot be reached, here, or by another
        node that has room. If it is not, the shard is fetched again when it is wanted."""
        owner = self.owner(shard.hash)
        try:
            if owner == self._node_id or self._put is None:
                self.here.insert(shard, Why.PASSES)
            elif self._disk.wanted(shard.hash, Why.PASSES):
                self._put(owner, shard, False)
        except errors.ResourceExhaustedError as error:
            if self._keeps_instead(owner, shard):
                return True
            every_n_seconds(
                logging.INFO, "what came by is not kept, and is read again when it is wanted: node %s: %s", 60, owner,
                error, extra=about(hash=shard.hash, node=owner),
            )  # fmt: skip
            return False
        except errors.TfquiverError as error:
            every_n_seconds(
                logging.WARNING, "a shard did not get to its owner: %s", 10, error, extra=about(hash=shard.hash)
            )
            return isinstance(error, errors.UnavailableError) and self._keeps_instead(owner, shard)
        return True

    def _keeps_instead(self, owner: str, shard: VerifiedShard) -> bool:
        """Whether another node than its owner keeps it now: this one, or one that has said that it has room."""
        if owner != self._node_id and self._keeps(shard):
            return True
        others = (node_id for node_id in self._others(shard.hash, _entry_bytes(len(shard.raw))) if node_id != owner)
        return any(self._takes(node_id, shard, insist=False) for node_id in itertools.islice(others, _ASKED_WITH_ROOM))

    def _keeps(self, shard: VerifiedShard) -> bool:
        """Whether it is kept here, though another node owns it: that one went away or is full, and the store would be
        read again. Not where it has no place here."""
        if any(self._node_id not in places.members for places in self._known.holding(shard.hash)):
            return False
        try:
            self.here.insert(shard, Why.PASSES)
        except errors.TfquiverError:
            return False
        return shard.hash in self._disk

    def hand_over(self, shard: VerifiedShard) -> bool:
        """Whether another node keeps a shard now for which its owner, this node, has no room: hashing fills nodes
        unevenly, and disks are of different sizes. The one with the most room is asked first. What is ordered was
        planned with the room of all: it is offered to who has said that there is none, too."""
        if self._disk.may_stand_in(shard.hash):
            others = itertools.islice(self._others(shard.hash), _ASKED)
            return any(self._takes(node_id, shard, insist=True) for node_id in others)
        if not self._disk.may_be_elsewhere(shard.hash):
            return False
        with_room = itertools.islice(self._others(shard.hash, _entry_bytes(len(shard.raw))), _ASKED_WITH_ROOM)
        return any(self._takes(node_id, shard, insist=False) for node_id in with_room)

    def may_hand_over(self, hash: bytes, raw_bytes: int, besides_bytes: int = 0) -> bool:
        """Whether `hand_over` may come to something, after so much more. Does not block."""
        if self._disk.may_stand_in(hash):
            return self._put is not None
        return self.has_room_for(hash, raw_bytes, besides_bytes)

    def has_room_for(self, hash: bytes, raw_bytes: int, besides_bytes: int = 0) -> bool:
        """Whether others have said that they have room, after so much more on all of them together, and may keep it.
        Does not block."""
        wants_bytes, rooms = _entry_bytes(raw_bytes), self._emptiest()
        if self._put is None or not rooms or rooms[0][1] < wants_bytes:  # soon seen, and often so
            return False
        if not (self._disk.may_be_elsewhere(hash) or self._disk.may_stand_in(hash)):
            return False
        return fits((room for _, room in self._with_room(hash, wants_bytes)), wants_bytes, besides_bytes)

    def _takes(self, node_id: str, shard: VerifiedShard, insist: bool) -> bool:
        """Whether another node keeps it now."""
        if self._put is None:
            return False
        try:
            self._put(node_id, shard, insist)
        except (errors.ResourceExhaustedError, errors.NotFoundError):
            return False
        except errors.TfquiverError as error:
            every_n_seconds(
                logging.WARNING, "no room here, and node %s: %s", 10, node_id, error,
                extra=about(hash=shard.hash, node=node_id),
            )  # fmt: skip
            return False
        return True

    def others_have_room(self, disk_bytes: int, besides_bytes: int = 0) -> bool:
        """Whether others have said that they have room for such an entry, after so much more on all of them."""
        return self._put is not None and fits((room for _, room in self._emptiest()), disk_bytes, besides_bytes)

    def _others(self, hash: bytes, wants_bytes: int = 0) -> Iterator[str]:
        return (node_id for node_id, _ in self._with_room(hash, wants_bytes))

    def _with_room(self, hash: bytes, wants_bytes: int) -> Iterator[tuple[str, int]]:
        """Others that store, may keep such a shard, and have said, if so much is wanted, that they have room for it;
        and that room. The one with the most first."""
        placed = self._known.holding(hash)
        for node_id, its_room_bytes in self._emptiest():
            if wants_bytes and its_room_bytes < wants_bytes:
                return
            if not placed or any(node_id in places.members for places in placed):
                yield node_id, its_room_bytes

    def _by_room(self, members: Members) -> list[tuple[str, int]]:
        """Others that store, and the room that they have said they have; the one with the most first."""
        others = [node for node in members if node.quota_bytes > 0 and node.node_id != self._node_id]
        rooms = [(node.node_id, room_bytes(node)) for node in others]
        return sorted(rooms, key=lambda room: -room[1])

    def owner(self, hash: bytes) -> str:
        """The node that should keep a shard; this one while no other is known."""
        for places in self._known.holding(hash):
            if first := places.first(of_hashes([hash]))[0]:
                return first
        owners = self._storing()
        return owners.of(of_hashes([hash]))[0] if owners else self._node_id

    def keeper(self, hash: bytes) -> str:
        """Who should keep a shard for readers of this node's rack; where racks are nothing to it, its owner."""
        for places in self._known.holding(hash):
            if keeper := places.keepers(of_hashes([hash]), self._known.rack)[0]:
                return keeper
        return self.owner(hash)


def _owners(members: Members) -> Owners | None:
    """None: nobody keeps anything."""
    names = [node.node_id for node in members if node.quota_bytes > 0]
    return Owners(names) if names else None


def fits(rooms_bytes: Iterable[int], entry_bytes: int, besides_bytes: int = 0) -> bool:
    """Whether an entry has room on one of these nodes, the emptiest first, where so much more comes to all of them
    before it, in entries like it: none is cut in two. Looks at no more nodes than that takes."""
    left_bytes = besides_bytes
    for its_room_bytes in rooms_bytes:
        if its_room_bytes < entry_bytes:
            return False
        if its_room_bytes >= entry_bytes + left_bytes:
            return True
        left_bytes = max(0, left_bytes - its_room_bytes // entry_bytes * entry_bytes)
    return False


def _entry_bytes(raw_bytes: int) -> int:
    """At most, on the disk."""
    return entry.disk_bytes(entry.HEADER_BYTES + raw_bytes)


def memory_bytes(header: entry.Header) -> int:
    """Most that `insert_received` and the receipt before it hold: the body as it came (twice while it is joined), and
    beside the raw bytes what they are compressed to again."""
    return 2 * header.raw_length + (header.stored_length if header.codec == entry.ZSTD else 0)


def insert_received(disk: DiskCache, header: entry.Header, body: bytes, sender: str) -> None:
    """Inserts what another node sent; it is not trusted. Blocks.

    Raises:
      DataLossError: the bytes are not what `header` says, or do not have its hash.
      ResourceExhaustedError, NeverFitsError: no room.
    """
    where = f"shard {header.hash.hex()} from {sender}"
    try:
        if google_crc32c.value(body) != header.crc32c_stored:
            raise errors.DataLossError(f"{where}: damaged on the way")
        raw = body if header.codec == entry.RAW else codec.decompress(body, header.raw_length, where)
        shard = VerifiedShard.check(header.hash, raw, where)
        if shard.crc32c != header.crc32c_raw:
            raise errors.DataLossError(f"{where}: the bytes have CRC {shard.crc32c:#x}, not {header.crc32c_raw:#x}")
    except errors.DataLossError:
        disk.refusals.from_others()
        raise
    disk.insert_placed(shard)
