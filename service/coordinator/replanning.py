"""Plans anew when jobs, data sets, pins or room change, and now and then; carries out what is different then.

On the coordinator's event loop; the policy runs in a thread. What nobody reads is left out of the plan and so gives way
to what somebody does.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from absl import logging

from tfquiver import errors
from tfquiver.clock import Clock
from tfquiver.content.entry_size import most_disk_bytes
from tfquiver.proto.tfquiver.v1 import types_pb2
from tfquiver.service.coordinator.cache import chunk_counts
from tfquiver.service.coordinator.cache.caching import Caching
from tfquiver.service.coordinator.cache.placement import COOPERATIVE, LRU, NONE, UNEVEN_SHARE, UNIFORM
from tfquiver.service.coordinator.datasets.catalogue import Catalogue
from tfquiver.service.coordinator.datasets.registry import Registry
from tfquiver.service.coordinator.nodes.membership import Membership
from tfquiver.service.coordinator.planning.planner import Planner
from tfquiver.service.coordinator.policies.interface import Allocation, ClusterView, DatasetView, JobView, Mode, Plan
from tfquiver.service.coordinator.sessions.sessions import Sessions

_LOOK_S = 0.5
_GONE_S = 30.0  # between two epochs a job may read nothing for a while
_TWO_CHUNKS = 2.2  # of the mean: chunks are cut at shards, and the largest two must have room

_MODES: Mapping[Mode, types_pb2.CacheMode.ValueType] = {
    "none": NONE, "cooperative": COOPERATIVE, "uniform": UNIFORM, "lru": LRU,
}  # fmt: skip
_NAMES: Mapping[int, Mode] = {number: name for name, number in _MODES.items()}


@dataclass(frozen=True, slots=True)
class Size:
    """What a data set takes on the disks, whole, and cached by two chunks."""

    size_bytes: int
    cooperative_bytes: int


class Replanning:
    """`run` it as a task of the coordinator's loop."""

    def __init__(
        self,
        clock: Clock,
        registry: Registry,
        membership: Membership,
        sessions: Sessions,
        caching: Caching,
        catalogue: Catalogue,
        planner: Planner,
        interval_s: float,
    ) -> None:
        self.planner = planner
        self._clock, self._registry, self._membership, self._sessions = clock, registry, membership, sessions
        self._caching, self._catalogue, self._interval_s = caching, catalogue, interval_s
        self._reading: dict[tuple[str, bytes], float] = {}  # job and data set -> when it was last seen to read
        self._sizes: dict[bytes, Size] = {}
        self._planned_for: object = None
        self._due = 0.0

    def restored(self) -> None:
        """The log has been read: what the policy had decided is in force."""
        in_force = {
            self._name(digest_id): allocation(setting)
            for digest_id, setting in self._caching.placement.in_force.items()
            if setting.decided_by
        }
        if in_force:
            self.planner.restore(Plan(in_force), [])

    async def run(self) -> None:
        while True:
            await asyncio.sleep(_LOOK_S)
            try:
                await self.look()
            except errors.TfquiverError as error:
                logging.log_every_n_seconds(logging.ERROR, "planning: %s", 10, error)
            except Exception:  # noqa: BLE001 - the task's boundary: the plan in force stays
                logging.exception("planning failed; the plan in force stays")

    async def look(self) -> None:
        """Plans if there is reason to."""
        now = self._clock.now()
        self._note(now)
        facts = self._facts()
        if facts == self._planned_for and now < self._due:
            return
        self._planned_for, self._due = facts, now + self._interval_s
        await self._replan(now)

    async def view(self) -> ClusterView:
        """What policies see now."""
        wanted = {digest_id for _, digest_id in self._reading} | self._caching.placement.in_force.keys()
        wanted = {digest_id for digest_id in wanted if digest_id in self._registry}
        for digest_id in wanted - self._sizes.keys():
            digest = await self._registry.digest(digest_id)
            self._sizes[digest_id] = await asyncio.to_thread(_size, digest.lengths, digest.num_shards)
        for digest_id in self._sizes.keys() - wanted:
            del self._sizes[digest_id]
        quotas_bytes = [node.quota_bytes for node in self._membership.live() if node.quota_bytes]
        even = 1 - UNEVEN_SHARE if len(quotas_bytes) > 1 else 1.0
        jobs = sorted((job, self._name(digest_id)) for job, digest_id in self._reading if digest_id in wanted)
        return ClusterView(
            cache_bytes=int(sum(quotas_bytes) * even),
            remote_bytes_per_s=None,
            datasets=tuple(self._dataset(digest_id) for digest_id in sorted(wanted)),
            jobs=tuple(JobView(name=f"{job} on {dataset}", dataset=dataset) for job, dataset in jobs),
        )

    # Inside.

    def _note(self, now: float) -> None:
        """Who reads what."""
        for session in self._sessions:
            if session.readers:
                self._reading[session.job, session.digest_id] = now
        for key, seen_at in list(self._reading.items()):
            if seen_at + _GONE_S <= now or key[1] not in self._registry:
                del self._reading[key]

    def _facts(self) -> object:
        pins = {digest_id: str(setting) for digest_id, setting in self._caching.placement.pins.items()}
        quotas = sorted(node.quota_bytes for node in self._membership.live())
        return self._reading.keys() | set(), pins, quotas, self.planner.policy_name

    async def _replan(self, now: float) -> None:
        view = await self.view()
        if not view.cache_bytes:
            return  # nodes are still to come
        outcome = await asyncio.to_thread(self.planner.replan, view, now)
        for decision in outcome.decisions:
            logging.info("%s %s: %s", decision.kind, decision.name, decision.measurement or decision.refused)
        wanted = {
            digest_id: setting_of(outcome.plan.allocations.get(self._name(digest_id), Allocation()))
            for digest_id in {digest_id for _, digest_id in self._reading}
        }
        await self._catalogue.carry_out(self._differing(wanted), self.planner.policy_name)

    def _differing(self, wanted: Mapping[bytes, types_pb2.CacheSetting]) -> dict[bytes, types_pb2.CacheSetting]:
        """What is to be set, room given back first; what the policy had set for data sets that nobody reads is taken
        away."""
        settings = self._caching.placement.settings
        decided = {digest_id: setting for digest_id, setting in settings.items() if setting.decided_by}
        gone = {digest_id: types_pb2.CacheSetting() for digest_id in decided.keys() - wanted.keys()}
        changed = {
            digest_id: setting
            for digest_id, setting in wanted.items()
            if (before := settings.get(digest_id)) is None
            or (
                before.decided_by and (before.mode, before.allocation_bytes) != (setting.mode, setting.allocation_bytes)
            )
        }

        def growth_bytes(digest_id: bytes) -> int:
            before = settings[digest_id].allocation_bytes if digest_id in settings else 0
            return changed[digest_id].allocation_bytes - before

        return gone | {digest_id: changed[digest_id] for digest_id in sorted(changed, key=growth_bytes)}

    def _name(self, digest_id: bytes) -> str:
        """Names are not unique, and people know them."""
        found = self._registry.find(digest_id).name if digest_id in self._registry else ""
        return f"{found} {digest_id.hex()[:12]}".strip()

    def _dataset(self, digest_id: bytes) -> DatasetView:
        setting, size = self._caching.placement.setting(digest_id), self._sizes[digest_id]
        resident_bytes = 0
        if digest_id in self._caching:
            table = self._caching.residency.table(digest_id)
            resident_bytes = int(table.digest.lengths[np.frombuffer(table.resident, np.uint8) > 0].sum())
        return DatasetView(
            name=self._name(digest_id),
            size_bytes=size.size_bytes,
            cooperative_bytes=size.cooperative_bytes,
            now=allocation(setting),
            pin=allocation(setting) if setting.mode and not setting.decided_by else None,
            resident_bytes=resident_bytes,
        )


def allocation(setting: types_pb2.CacheSetting) -> Allocation:
    return Allocation(_NAMES.get(setting.mode, "none"), setting.allocation_bytes)


def setting_of(allocation: Allocation) -> types_pb2.CacheSetting:
    return types_pb2.CacheSetting(mode=_MODES[allocation.mode], allocation_bytes=allocation.cache_bytes)


def _size(lengths: object, shards: int) -> Size:
    size_bytes = int(most_disk_bytes(lengths).sum())
    chunks = min(max(1, shards), chunk_counts.relevance_chunks(size_bytes, 1, shards))
    return Size(size_bytes, min(size_bytes, int(_TWO_CHUNKS * size_bytes / chunks)))
