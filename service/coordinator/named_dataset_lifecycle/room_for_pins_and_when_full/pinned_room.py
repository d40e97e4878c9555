"""The room of a pin: all of its data set, once for each copy that nodes keep."""

from __future__ import annotations

import contextlib
from collections.abc import Callable

from tfquiver import errors
from tfquiver.proto.tfquiver.v1 import types_pb2
from tfquiver.service.coordinator.dataset_caching.caching import Caching
from tfquiver.service.coordinator.dataset_caching.placement import UNIFORM
from tfquiver.service.coordinator.long_work.in_parts import InParts
from tfquiver.service.coordinator.named_dataset_lifecycle.table import NamedTable
from tfquiver.service.coordinator.nodes_mounts_dispatchers.membership import Membership
from tfquiver.service.coordinator.registering_sharing_removing_datasets.catalogue import Catalogue
from tfquiver.service.coordinator.registering_sharing_removing_datasets.registry import Registry


class PinnedRoom:
    """Lives on one event loop."""

    def __init__(
        self,
        table: NamedTable,
        registry: Registry,
        caching: Caching,
        catalogue: Catalogue,
        membership: Membership,
    ) -> None:
        self._table, self._registry, self._caching, self._catalogue = table, registry, caching, catalogue
        self._membership = membership
        self._left: dict[bytes, int] = {}  # what nobody has, by placement, until `looks_anew`
        self._nodes: object = None  # those that `outgrown` has seen
        self._whole: dict[bytes, int] = {}  # one copy of what nodes keep several times, and is pinned

    def looks_anew(self) -> None:
        """Something was set, or some time has gone by."""
        self._left.clear()

    async def take(self, digest_id: bytes, check: Callable[[], None] = lambda: None) -> None:
        """`check`: raises where it may not be any more. Raises ResourceExhaustedError."""
        nodes = self._membership.labelled
        digest = await self._registry.digest(digest_id)
        setting = types_pb2.CacheSetting(mode=UNIFORM, allocation_bytes=self._caching.placement.whole_bytes(digest))
        await self._catalogue.set_cache(digest_id, setting, check=check)
        if self._membership.labelled is not nodes:  # it may have room of as many copies as there were
            self._nodes = None

    async def give_back(self, digest_id: bytes, whose: str = "") -> None:
        """Unless it is to be pinned for another data set, perhaps since this one has waited for its turn."""

        def check() -> None:
            if self._table.is_to_be_pinned(digest_id, whose):
                raise errors.InUseError("it keeps its room")

        with contextlib.suppress(errors.InUseError):
            await self._catalogue.unset_cache(digest_id, check)

    async def outgrown(self) -> list[bytes]:
        """Pinned data sets of which nodes keep more copies than their pins have room for, or fewer: a rack has come, or
        gone. Looked at when nodes have become others only, and once after a start."""
        if (nodes := self._membership.labelled) is self._nodes:
            return []
        found, whole, parts = list[bytes](), dict[bytes, int](), InParts()
        placement, placed = self._caching.placement, self._caching.placed
        for digest_id in list(placed.rules):
            await parts.rest()
            rule = placed.rules.find(digest_id)
            if rule is None or not (rule.rack_local or rule.replicas > 1) or not placement.is_pinned(digest_id):
                continue
            with contextlib.suppress(errors.TfquiverError):  # its digest is gone, or damaged: it is scanned again
                if digest_id not in self._whole:
                    self._whole[digest_id] = placement.whole_bytes(await self._registry.digest(digest_id))
                whole[digest_id] = self._whole[digest_id]
                if placement.pinned_bytes(digest_id) != whole[digest_id] * placed.copies(digest_id):
                    found.append(digest_id)
        self._nodes, self._whole = nodes, whole
        return found

    async def wanted_bytes(self, digest_id: bytes) -> int:
        """What `take` asks for."""
        digest = await self._registry.digest(digest_id)
        return self._caching.placement.whole_bytes(digest) * self._caching.placed.copies(digest_id)

    def left_bytes(self, digest_id: bytes) -> int:
        """What `take` would find just now, with what it has already; cheap, also for thousands."""
        rule = self._caching.placed.rules.find(digest_id)
        kept = b"" if rule is None else rule.SerializeToString() + (digest_id if rule.stripe else b"")
        if kept not in self._left:
            self._left[kept] = self._catalogue.left_bytes(digest_id)
        return self._left[kept] + self._caching.placement.pinned_bytes(digest_id)

    def is_free(self, old: bytes) -> bool:
        """That version has room of its own that no other data set's newest version asks for."""
        holders = (self._table.get(name) for name in self._table.holding(old))
        wanted = any(other.pinned and other.digest_id == old for other in holders if other)
        return self._caching.placement.is_pinned(old) and not wanted and not self._table.is_to_be_pinned(old)
