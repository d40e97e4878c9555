"""What policies see, from what the coordinator knows: who reads what, what it takes on the disks, what was measured."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tfquiver.clock import Clock
from tfquiver.content.entry_size import most_disk_bytes
from tfquiver.proto.tfquiver.v1 import types_pb2
from tfquiver.service.coordinator.budgets.budgets import Budgets
from tfquiver.service.coordinator.cache import chunk_counts
from tfquiver.service.coordinator.cache.caching import Caching
from tfquiver.service.coordinator.cache.placement import COOPERATIVE, LRU, NONE, UNEVEN_SHARE, UNIFORM
from tfquiver.service.coordinator.datasets.registry import Registry
from tfquiver.service.coordinator.nodes.membership import Membership
from tfquiver.service.coordinator.policies.interface import Allocation, ClusterView, DatasetView, JobView, Mode
from tfquiver.service.coordinator.probes import Probes
from tfquiver.service.coordinator.probing.job_meter import MOST_STALL_SHARE, Measured
from tfquiver.service.coordinator.probing.probe import ProbeResult
from tfquiver.service.coordinator.sessions.sessions import Sessions

_GONE_S = 30.0  # between two epochs a job may read nothing for a while
_TWO_CHUNKS = 2.2  # of the mean: chunks are cut at shards, and the largest two must have room

_MODES: Mapping[Mode, types_pb2.CacheMode.ValueType] = {
    "none": NONE, "cooperative": COOPERATIVE, "uniform": UNIFORM, "lru": LRU,
}  # fmt: skip
_NAMES: Mapping[int, Mode] = {number: name for name, number in _MODES.items()}


@dataclass(frozen=True, slots=True)
class _Size:
    """Whole, and cached by two chunks."""

    size_bytes: int
    cooperative_bytes: int


class ClusterViews:
    """Lives on the coordinator's loop. Data sets that nobody reads, and nobody has pinned, are left out: what is kept
    of them makes way for others."""

    def __init__(
        self,
        clock: Clock,
        registry: Registry,
        membership: Membership,
        sessions: Sessions,
        caching: Caching,
        budgets: Budgets,
        probes: Probes,
    ) -> None:
        self._clock, self._registry, self._membership, self._sessions = clock, registry, membership, sessions
        self._caching, self._budgets, self._probes = caching, budgets, probes
        self.reading: dict[tuple[str, bytes], float] = {}  # job and data set -> when it was last seen to read
        self._sizes: dict[bytes, _Size] = {}

    def note(self) -> None:
        """Who reads what. Call it now and then."""
        now = self._clock.now()
        for session in self._sessions:
            if session.readers:
                self.reading[session.job or session.session_key, session.digest_id] = now
        for key, seen_at in list(self.reading.items()):
            if seen_at + _GONE_S <= now or key[1] not in self._registry:
                del self.reading[key]

    def facts(self) -> object:
        """Another value whenever a new plan should be made at once."""
        pins = {digest_id: str(setting) for digest_id, setting in self._caching.placement.pins.items()}
        quotas = sorted(node.quota_bytes for node in self._membership.live())
        probed = {key: result.at for key, result in self._probes.results.items()}
        return frozenset(self.reading), pins, dict(self._budgets.pins.bytes_per_s), quotas, probed

    async def view(self) -> ClusterView:
        """Of now. Raises as Registry.digest."""
        pins = self._caching.placement.pins
        wanted = {digest_id for _, digest_id in self.reading} | pins.keys()
        for digest_id in wanted - self._sizes.keys():
            digest = await self._registry.digest(digest_id)
            self._sizes[digest_id] = await asyncio.to_thread(_size, digest.lengths, digest.num_shards)
        for digest_id in self._sizes.keys() - wanted:
            del self._sizes[digest_id]
        quotas_bytes = [node.quota_bytes for node in self._membership.live() if node.quota_bytes]
        even = 1 - UNEVEN_SHARE if len(quotas_bytes) > 1 else 1.0
        known = sorted(digest_id for digest_id in wanted if digest_id in self._registry)
        return ClusterView(
            cache_bytes=int(sum(quotas_bytes) * even),
            remote_bytes_per_s=None,
            datasets=tuple(self._dataset(digest_id, pins.get(digest_id)) for digest_id in known),
            jobs=tuple(self._job(*key) for key in sorted(self.reading) if key[1] in known),
        )

    def size_bytes(self, digest_id: bytes) -> int:
        """On the disks, whole; 0: not known yet."""
        size = self._sizes.get(digest_id)
        return size.size_bytes if size else 0

    def dataset_name(self, digest_id: bytes) -> str:
        """Names are not unique, and people know them."""
        found = self._registry.find(digest_id).name if digest_id in self._registry else ""
        return f"{found} ({digest_id.hex()[:12]})".strip()

    def job_name(self, job: str, digest_id: bytes) -> str:
        """A job that reads several data sets is several here."""
        alone = sum(other == job for other, _ in self.reading) == 1
        return job if alone else f"{job}, {self.dataset_name(digest_id)}"

    def _job(self, job: str, digest_id: bytes) -> JobView:
        measured, probed = self._probes.measured(job, digest_id), self._probes.result(job, digest_id)
        return JobView(
            name=self.job_name(job, digest_id),
            dataset=self.dataset_name(digest_id),
            ideal_bytes_per_s=could_read(measured, probed) if measured else None,
            hit_bytes_per_s=probed.hit_bytes_per_s if probed else None,
            miss_bytes_per_s=probed.miss_bytes_per_s if probed else None,
            hit_ratio=measured.hit_share if measured else None,
            remote_pin_bytes_per_s=self._budgets.pins.bytes_per_s.get(job),
        )

    def _dataset(self, digest_id: bytes, pin: types_pb2.CacheSetting | None) -> DatasetView:
        size, resident_bytes = self._sizes[digest_id], 0
        if digest_id in self._caching:
            table = self._caching.residency.table(digest_id)
            resident_bytes = int(table.digest.lengths[np.frombuffer(table.resident, np.uint8) > 0].sum())
        return DatasetView(
            name=self.dataset_name(digest_id),
            size_bytes=size.size_bytes,
            cooperative_bytes=size.cooperative_bytes,
            now=allocation_of(self._caching.placement.setting(digest_id), size.size_bytes),
            pin=allocation_of(pin, size.size_bytes) if pin else None,
            resident_bytes=min(resident_bytes, size.size_bytes),
        )


def could_read(measured: Measured, probed: ProbeResult | None) -> float | None:
    """f*. Whoever has done nothing but wait is taken to read as much faster as can be measured: given a cache, it is
    seen what it makes of that; with less it would never be given any. What it has once made of one is the most: behind
    a prefetch the reader waits for the store also while the trainer computes."""
    could = measured.ideal_bytes_per_s or measured.bytes_per_s / (1 - MOST_STALL_SHARE)
    if probed and probed.basis == "hit":
        could = min(could, probed.hit_bytes_per_s)
    return could or None


def allocation_of(setting: types_pb2.CacheSetting, size_bytes: int) -> Allocation:
    """No limit means all of it."""
    mode = _NAMES.get(setting.mode, "none")
    return Allocation(mode, min(size_bytes, setting.allocation_bytes or size_bytes) if mode != "none" else 0)


def setting_of(allocation: Allocation) -> types_pb2.CacheSetting:
    return types_pb2.CacheSetting(mode=_MODES[allocation.mode], allocation_bytes=allocation.cache_bytes)


def _size(lengths: npt.NDArray[np.uint64], shards: int) -> _Size:
    size_bytes = int(most_disk_bytes(lengths).sum())
    chunks = min(max(1, shards), chunk_counts.relevance_chunks(size_bytes, 1, shards))
    return _Size(size_bytes, min(size_bytes, int(_TWO_CHUNKS * size_bytes / chunks)))
