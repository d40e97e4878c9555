"""How each data set is to be cached: what a person or a policy has set, checked against what there is. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from tfquiver import errors
from tfquiver.digests import formats
from tfquiver.digests.digest import Digest
from tfquiver.disk_space_of_shards.entry_size import most_disk_bytes
from tfquiver.proto.tfquiver.v1 import commit_log_pb2 as log_pb2
from tfquiver.proto.tfquiver.v1 import types_pb2
from tfquiver.service.coordinator.dataset_caching import chunk_counts
from tfquiver.shard_owners_chunks_hash_prefixes import striping
from tfquiver.sizes_durations_amounts.amounts import apart, of_bytes

NONE, COOPERATIVE = types_pb2.CACHE_MODE_NONE, types_pb2.CACHE_MODE_COOPERATIVE
UNIFORM, LRU = types_pb2.CACHE_MODE_UNIFORM, types_pb2.CACHE_MODE_LRU
ROTATIONS = ("relevance", "cyclic")
# Rendezvous hashing gives nodes unequal parts of a chunk; the fullest must not run out of room before the others.
UNEVEN_SHARE = 0.05


class Placement:
    """Settings by digest id. `fix` decides, the caller journals, `apply` performs."""

    def __init__(self) -> None:
        self.settings: dict[bytes, types_pb2.CacheSetting] = {}
        # What is set for a data set that is not registered (its digest was lost) holds again when it is; it takes
        # nothing until then.
        self.known: Callable[[bytes], bool] = lambda digest_id: True

    def setting(self, digest_id: bytes) -> types_pb2.CacheSetting:
        return self.settings.get(digest_id, types_pb2.CacheSetting())

    def fix(
        self,
        digest: Digest,
        asked: types_pb2.CacheSetting,
        quotas_bytes: Sequence[int],
        policy: str = "",
        rooms_bytes: Sequence[int] | None = None,
        copies: int = 1,
    ) -> types_pb2.CacheSetting:
        """What is to be set where `asked` leaves things open. Takes a while for millions of shards.

        Args:
          quotas_bytes: of the live nodes.
          policy: which one asks; its plan fits as a whole, and says how many bytes. Empty: a person, for whom what
            policies have decided makes way.
          rooms_bytes: what their disks have room for, within these quotas; None: that is not known.
          copies: how often the nodes keep each shard: where all of it is to be kept, that takes as many times the room.

        Raises:
          InvalidArgumentError: a field that cannot be right.
          ResourceExhaustedError: there is not so much room.
        """
        if asked.mode not in (NONE, COOPERATIVE, UNIFORM, LRU):
            raise errors.InvalidArgumentError(f"setting.mode: {asked.mode} is not none, cooperative, uniform or lru")
        if asked.mode == COOPERATIVE and digest.format == formats.BYTES:
            raise errors.InvalidArgumentError(
                "setting.mode: cooperative: chunks come and go for readers of records, and this data set has none "
                "(format bytes): a mount would find nothing of it cached; give a size alone, or lru"
            )
        if asked.mode != COOPERATIVE and (asked.rotation or asked.chunks or asked.partitions):
            raise errors.InvalidArgumentError("setting: rotation, chunks and partitions are for mode cooperative")
        fixed = types_pb2.CacheSetting(mode=asked.mode, allocation_bytes=asked.allocation_bytes, decided_by=policy)
        if asked.mode == NONE:
            fixed.allocation_bytes = 0
        elif not policy:
            whole_bytes = self.whole_bytes(digest)
            is_whole = asked.mode == UNIFORM and asked.allocation_bytes >= whole_bytes
            if is_whole:
                fixed.allocation_bytes = max(asked.allocation_bytes, whole_bytes * copies)
            most_bytes = whole_bytes * copies
            shown_copies = copies if is_whole else 1
            self._fix_allocation(digest.digest_id, fixed, quotas_bytes, rooms_bytes, shown_copies, most_bytes)
            # More than all of it keeps no more, and would be taken from the others.
            fixed.allocation_bytes = min(fixed.allocation_bytes, most_bytes)
        if asked.mode == COOPERATIVE:
            _fix_chunks(fixed, asked, digest)
        return fixed

    def share(self, quotas_bytes: Sequence[int]) -> float:
        """What part of its allocation each data set can have: all of it, unless nodes that it was given with are gone.

        Args:
          quotas_bytes: of the live nodes.
        """
        there_bytes = sum(quotas_bytes)
        taken_bytes = sum(setting.allocation_bytes for setting in self.in_force.values())
        if taken_bytes <= there_bytes:
            return 1.0
        return there_bytes * (1 - UNEVEN_SHARE) / taken_bytes

    def apply(self, record: log_pb2.CacheSet) -> None:
        if record.setting.mode == types_pb2.CACHE_MODE_UNSPECIFIED:
            self.settings.pop(record.digest_id, None)
        else:
            self.settings[record.digest_id] = record.setting

    @staticmethod
    def whole_bytes(digest: Digest) -> int:
        """The allocation in which all of it has room, however badly it is compressed."""
        return int(most_disk_bytes(digest.lengths).sum())

    @property
    def in_force(self) -> dict[bytes, types_pb2.CacheSetting]:
        return {digest_id: setting for digest_id, setting in self.settings.items() if self.known(digest_id)}

    def is_pinned(self, digest_id: bytes) -> bool:
        """Whether `pins` has it; of many it takes long to find all."""
        setting = self.settings.get(digest_id)
        return setting is not None and not setting.decided_by and self.known(digest_id)

    def pinned_bytes(self, digest_id: bytes) -> int:
        """That it has by what a person has set."""
        return self.settings[digest_id].allocation_bytes if self.is_pinned(digest_id) else 0

    def left_bytes(self, there_bytes: int) -> int:
        """Of so many, for whom persons have set nothing yet."""
        return max(0, there_bytes - sum(setting.allocation_bytes for setting in self.pins.values()))

    @property
    def pins(self) -> dict[bytes, types_pb2.CacheSetting]:
        """What persons have set."""
        return {digest_id: setting for digest_id, setting in self.in_force.items() if not setting.decided_by}

    def snapshot(self) -> Iterator[log_pb2.CommitRecord]:
        for digest_id, setting in self.settings.items():
            yield log_pb2.CommitRecord(cache_set=log_pb2.CacheSet(digest_id=digest_id, setting=setting))

    def _fix_allocation(
        self,
        digest_id: bytes,
        fixed: types_pb2.CacheSetting,
        quotas_bytes: Sequence[int],
        rooms_bytes: Sequence[int] | None,
        copies: int,
        most_bytes: int,
    ) -> None:
        by_quotas_bytes = sum(quotas_bytes)
        there_bytes = by_quotas_bytes if rooms_bytes is None else min(by_quotas_bytes, sum(rooms_bytes))
        taken_bytes = sum(other.allocation_bytes for key, other in self.pins.items() if key != digest_id)
        free_bytes = max(0, there_bytes - taken_bytes)
        if not fixed.allocation_bytes and fixed.mode in (COOPERATIVE, LRU):
            several = sum(quota > 0 for quota in quotas_bytes) > 1
            # Quotas of all that one can write come to more together than a message has room for.
            fixed.allocation_bytes = min(int(free_bytes * (1 - UNEVEN_SHARE if several else 1)), most_bytes)
            if not fixed.allocation_bytes:
                raise errors.ResourceExhaustedError(
                    f"setting.allocation_bytes: other data sets have {of_bytes(taken_bytes)}, and the live nodes' "
                    f"quotas and disks have room for {of_bytes(there_bytes)}: make room there, or give a size"
                )
        own = self.settings.get(digest_id)
        has_bytes = own.allocation_bytes if own is not None and not own.decided_by else 0
        if fixed.allocation_bytes > max(free_bytes, has_bytes):  # what it has it keeps, though a disk is full by now
            asked, left = apart(fixed.allocation_bytes, free_bytes)
            there = f"the live nodes' quotas are {of_bytes(there_bytes)}"
            if there_bytes < by_quotas_bytes:
                quotas = of_bytes(by_quotas_bytes)
                there = f"the live nodes' disks have room for {of_bytes(there_bytes)} (their quotas are {quotas})"
            each = f" ({copies} of each shard)" if copies > 1 else ""
            raise errors.ResourceExhaustedError(
                f"setting.allocation_bytes: {asked}{each} are more than the {left} that are left: {there}, of which "
                f"other data sets have {of_bytes(taken_bytes)}"
            )


def _fix_chunks(fixed: types_pb2.CacheSetting, asked: types_pb2.CacheSetting, digest: Digest) -> None:
    fixed.rotation = asked.rotation or ROTATIONS[0]
    if fixed.rotation not in ROTATIONS:
        raise errors.InvalidArgumentError(f"setting.rotation: {fixed.rotation!r} is neither relevance nor cyclic")
    size_bytes, allocation_bytes = int(most_disk_bytes(digest.lengths).sum()), fixed.allocation_bytes
    if fixed.rotation == "relevance":
        chunks = chunk_counts.relevance_chunks(size_bytes, allocation_bytes, digest.num_shards)
    else:
        # The paper's two chunks of a tenth need a fifth: where there is less, they are smaller.
        chunks = max(chunk_counts.cyclic_chunks(size_bytes), chunk_counts.chunks_of(size_bytes, allocation_bytes / 2.2))
    cut = striping.stripe(digest.lengths, asked.chunks or chunks, asked.partitions)
    fixed.chunks, fixed.partitions = cut.chunks, cut.partitions
