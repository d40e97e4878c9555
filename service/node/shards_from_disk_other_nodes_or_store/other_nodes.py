"""Shards from other nodes: from the owner; where that cannot be had, or is late, from others that have it."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Sequence
from typing import Protocol

from absl import logging

from tfquiver import errors
from tfquiver.digests.digest import Digest, ShardRef
from tfquiver.log_files_and_lines.logs import about
from tfquiver.log_files_and_lines.rare_lines import every_n_seconds
from tfquiver.materializing.derived_uris import is_derived
from tfquiver.service.node.counters.stats import Stats
from tfquiver.service.node.reading_the_object_store.hedging import Hedges
from tfquiver.service.node.sealed_memory_of_checked_shards.ready_shard import ReadyShard
from tfquiver.service.node.sealed_memory_of_checked_shards.verified import VerifiedShard
from tfquiver.service.node.shards_from_disk_other_nodes_or_store.first_answer import Ask, first_answer
from tfquiver.service.node.shards_from_disk_other_nodes_or_store.reach import ANYWHERE, ON_DISK, STORE

_MAX_SUSPECTS = 4096
_ASK_S = 15.0  # of another owner before the store: two that were told differently might wait for each other
# A peer that works says so each second. One that is only slower than usual has the shard, which the store would be
# asked for, and paid for, in vain.
STORE_AFTER_S = 1.5


class Peers(Protocol):
    @property
    def mismatches(self) -> int:
        """Bodies from peers that were not what was asked for."""

    def knows(self, node_id: str) -> bool:
        """Is it a live node other than this one?"""

    async def get(
        self, node_id: str, digest: Digest, ref: ShardRef, suspect: bool = False, reach: int = ANYWHERE
    ) -> ReadyShard:
        """Bytes that have the shard's hash. `suspect`: check them even where the peer is trusted. `reach`: how far that
        node may go for them (reach.py).

        Raises UnavailableError and others: the caller goes on without that node.
        """


class Owners(Protocol):
    """Of data sets that have a placement: who else owns a shard."""

    def before_store(self, digest_id: bytes, hash: bytes) -> str:
        """Who is asked before this node reads the store; "": nobody."""

    def others(self, digest_id: bytes, hash: bytes, failed: str) -> list[str]:
        """Who may have it, too, where one node has failed; the nearest first."""

    def is_far(self, node_id: str) -> bool:
        """In another rack."""


class OtherNodes:
    """Lives on one loop.

    Args:
      peers: None: there are no others.
      owners: None: no data set has a placement.
      stats: counts what crosses racks.
    """

    def __init__(self, node_id: str, peers: Peers | None, owners: Owners | None, stats: Stats) -> None:
        self._node_id, self._peers, self._owners, self._stats = node_id, peers, owners, stats
        # What takes a computation says nothing of how long a peer takes that has it.
        self._hedges, self._hedges_of_derived = Hedges(), Hedges()
        self._suspects: set[bytes] = set()  # were bad in a reader's hands, and came from a peer for all we know

    @property
    def mismatches(self) -> int:
        return self._peers.mismatches if self._peers else 0

    def suspect(self, hash: bytes) -> None:
        """Its bytes are checked when they come next, wherever from."""
        if self._peers and len(self._suspects) < _MAX_SUSPECTS:
            self._suspects.add(hash)

    async def get(
        self, digest: Digest, ref: ShardRef, owner: str, ask_others: bool, instead: Ask[VerifiedShard] | None = None
    ) -> ReadyShard | VerifiedShard | None:
        """None: the store is left.

        Args:
          ask_others: as in ShardSource.get.
          instead: reads the store, where nobody else is left to be asked and the node that was is late.
        """
        if self._peers is None:
            return None
        first, reach = owner, ANYWHERE
        if owner == self._node_id and ask_others and self._owners:
            first, reach = self._owners.before_store(digest.digest_id, ref.hash), STORE
        if not first or first == self._node_id:
            return None
        asked = [(first, reach)]
        if self._owners:
            asked += [(name, ON_DISK) for name in self._owners.others(digest.digest_id, ref.hash, first)]
        asked = [(name, its_reach) for name, its_reach in asked if self._peers.knows(name)]

        def failed(which: int, error: Exception) -> None:
            name = asked[which][0]
            every_n_seconds(
                logging.WARNING, "shard %d from node %s: %s; going on without it", 5, ref.index, name, error,
                extra=about(dataset=digest.name, digest=digest.digest_id, shard=ref.index, node=name),
            )  # fmt: skip

        asks: list[Ask[ReadyShard | VerifiedShard]] = [
            functools.partial(self._ask, name, digest, ref, its_reach) for name, its_reach in asked
        ]
        hedges = self._hedges_of_derived if is_derived(ref.file.uri) else self._hedges
        return await first_answer(
            asks, instead, hedges, failed, _let_go, STORE_AFTER_S, self._near([name for name, _ in asked])
        )

    def _near(self, names: Sequence[str]) -> int | None:
        """How many, from the first on, are in this rack, if that one is: what crosses racks is not asked for because
        one nearby is slower than usual."""
        if not self._owners or not names or self._owners.is_far(names[0]):
            return None
        return next((at for at, name in enumerate(names) if self._owners.is_far(name)), None)

    async def _ask(self, name: str, digest: Digest, ref: ShardRef, reach: int) -> ReadyShard:
        async with asyncio.timeout(_ASK_S if reach != ANYWHERE else None):
            return await self.get_from(name, digest, ref, reach)

    async def get_from(self, name: str, digest: Digest, ref: ShardRef, reach: int) -> ReadyShard:
        """From that node and no other. Raises UnavailableError and others."""
        if self._peers is None:
            raise errors.UnavailableError(f"node {name}: this one has no peers")
        suspect = ref.hash in self._suspects
        ready = await self._peers.get(name, digest, ref, suspect, reach)
        self._suspects.discard(ref.hash)  # not before: who is asked as well, or next, is checked, too
        if self._owners and self._owners.is_far(name):
            self._stats.cross_rack_bytes += ref.length_bytes
        return ready


def _let_go(found: ReadyShard | VerifiedShard) -> None:
    if isinstance(found, ReadyShard):
        found.close()
