"""Troubles of some nodes, a prefetch's that found no room, say, that are over as these nodes tell."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass

from tfquiver.clock import Clock
from tfquiver.disk_space_of_shards.node_room import room_bytes
from tfquiver.service.coordinator.dataset_caching.caching import Caching
from tfquiver.service.coordinator.long_work.in_parts import InParts
from tfquiver.service.coordinator.named_dataset_lifecycle import lifecycle
from tfquiver.service.coordinator.named_dataset_lifecycle.lifecycle import WARMING, Life
from tfquiver.service.coordinator.named_dataset_lifecycle.room_for_pins_and_when_full.waiting_pins import AGAIN_S
from tfquiver.service.coordinator.named_dataset_lifecycle.table import NamedTable
from tfquiver.service.coordinator.nodes_mounts_dispatchers.membership import Membership

_HEARTBEATS = 2  # the next one may have been on its way before the node was through


@dataclass(slots=True)
class _Noted:
    trouble_of: dict[str, int]
    heartbeats: dict[str, int]  # of the nodes that live, when it was seen first
    since_s: float


class TroublesOver:
    """Lives on one event loop."""

    def __init__(self, clock: Clock, table: NamedTable, membership: Membership, caching: Caching) -> None:
        self._clock, self._table, self._membership, self._caching = clock, table, membership, caching
        self._noted: dict[str, _Noted] = {}  # by life

    async def look(self, parts: InParts) -> AsyncIterator[Life]:
        """The next states of those of which it is over. What nodes told before they were through says nothing: what
        they had room for then they have filled since."""
        troubled = [life for life in self._table if life.trouble_of]
        self._noted = {life.life: self._note(life) for life in troubled}
        if not troubled:
            return
        live, now = self._membership.live(), self._clock.now()
        rooms: dict[str, int | None] = dict.fromkeys(self._membership.lost.node_ids)
        rooms.update({node.node_id: room_bytes(node) for node in live})
        heard = {node.node_id: self._membership.heartbeats(node.node_id) for node in live}
        for one in troubled:
            await parts.rest()
            life, noted = self._table.get(one.spec.name), self._noted[one.life]
            if life is None or life.life != one.life:
                continue
            share = self._caching.share(life.digest_id)
            all_here = share is not None and not share.age_s and share.resident_bytes >= share.size_bytes
            if not all_here and not self._have_told(life, noted, heard):
                continue
            after = lifecycle.trouble_over(life, rooms, all_here)
            # What cannot be read for another reason than it says is not tried all the time.
            if after is not life and (after.phase != WARMING or now - noted.since_s >= AGAIN_S):
                yield after

    def _have_told(self, life: Life, noted: _Noted, heard: Mapping[str, int]) -> bool:
        for node_id in (one for one, lacks_bytes in life.trouble_of.items() if lacks_bytes and one in heard):
            before = noted.heartbeats.get(node_id, 0)
            if before <= heard[node_id] < before + _HEARTBEATS:  # of one that has come anew there are fewer
                return False
        return True

    def _note(self, life: Life) -> _Noted:
        trouble_of = dict(life.trouble_of)
        noted = self._noted.get(life.life)
        if noted is not None and noted.trouble_of == trouble_of:
            return noted
        heartbeats = {node.node_id: self._membership.heartbeats(node.node_id) for node in self._membership.live()}
        return _Noted(trouble_of, heartbeats, self._clock.now())
