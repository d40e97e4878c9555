"""What policies see, from what the coordinator knows: who reads what, what it takes on the disks, what was measured."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Set
from dataclasses import dataclass

import numpy as np
from absl import logging

from tfquiver import errors
from tfquiver.clock import Clock
from tfquiver.digests.digest import Digest
from tfquiver.disk_space_of_shards.entry_size import most_disk_bytes
from tfquiver.log_files_and_lines.logs import about
from tfquiver.log_files_and_lines.rare_lines import every_n_seconds
from tfquiver.proto.tfquiver.v1 import types_pb2
from tfquiver.proto.tfquiver.v1.derived_datasets_pb2 import DerivedCost
from tfquiver.service.coordinator.bandwidth_budgets.budgets import Budgets
from tfquiver.service.coordinator.dataset_caching import chunk_counts
from tfquiver.service.coordinator.dataset_caching.caching import Caching
from tfquiver.service.coordinator.dataset_caching.placement import COOPERATIVE, LRU, NONE, UNEVEN_SHARE, UNIFORM
from tfquiver.service.coordinator.long_work.in_parts import InParts
from tfquiver.service.coordinator.measuring_jobs_and_stores.meters import GONE_S
from tfquiver.service.coordinator.nodes_mounts_dispatchers.membership import Membership
from tfquiver.service.coordinator.plan_rounds_and_moves.cache_room import CacheRoom
from tfquiver.service.coordinator.policies.views_and_plans.check import (
    LEAST_BYTES_PER_S,
    MOST_ACCELERATORS,
    MOST_BYTES,
    MOST_BYTES_PER_S,
)
from tfquiver.service.coordinator.policies.views_and_plans.interface import (
    Allocation,
    ClusterView,
    Computed,
    DatasetView,
    JobView,
    Mode,
)
from tfquiver.service.coordinator.policies.views_and_plans.names import DIGITS, Names, digits_of, names_of
from tfquiver.service.coordinator.probing.ideal import could_read, is_guess
from tfquiver.service.coordinator.probing.probes import Probes
from tfquiver.service.coordinator.registering_sharing_removing_datasets.registry import Registry
from tfquiver.service.coordinator.sessions.sessions import Sessions
from tfquiver.shard_owners_chunks_hash_prefixes import prefixes, striping

_MODES: Mapping[Mode, types_pb2.CacheMode.ValueType] = {
    "none": NONE, "cooperative": COOPERATIVE, "uniform": UNIFORM, "lru": LRU,
}  # fmt: skip
_NAMES: Mapping[int, Mode] = {number: name for name, number in _MODES.items()}
_AT_A_TIME = 32  # sessions
_HARDLY_ANY = 0.05  # of a data set: as little as may be hit in a window that counts as missed (ProbeLimits.pure_share)


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
        store_bytes_per_s: float = 0.0,
        left: Callable[[], Set[str]] = frozenset,
        cost_of: Callable[[bytes], DerivedCost | None] = lambda digest_id: None,
    ) -> None:
        """
        Args:
          store_bytes_per_s: what a person says that the store gives all together; 0: nobody has said.
          left: keys of sessions that tf.data workers hold open, while their trainers have left.
          cost_of: what a derived data set took to compute, by digest id.
        """
        self._clock, self._registry, self._membership, self._sessions = clock, registry, membership, sessions
        self._caching, self._budgets, self._probes = caching, budgets, probes
        self._store_bytes_per_s, self._left, self._cost_of = store_bytes_per_s, left, cost_of
        self.reading: dict[tuple[str, bytes], float] = {}  # job and data set -> when it was last seen to read
        self.read_now = set[tuple[str, bytes]]()  # as of the last note
        self.irregular = set[tuple[str, bytes]]()  # of those: whose epochs are drawn by a scheme of sampling
        self.names = Names()  # in the last view
        self._sizes: dict[bytes, _Size] = {}
        self.room = CacheRoom()  # as of the last view

    async def note(self) -> dict[tuple[str, bytes], float]:
        """Who reads what. Call it now and then. Returns who has gone, and when each was last seen. Others may be served
        between; they see who reads as it was before, or after."""
        gone, left, parts = dict[tuple[str, bytes], float](), self._left(), InParts()
        sampled, plain = set[tuple[str, bytes]](), set[tuple[str, bytes]]()
        for at, session in enumerate(self._sessions.read(), 1):
            if session.own_reader_id or session.session_key not in left:
                (sampled if session.sampled else plain).add(session.reads)
            if at % _AT_A_TIME == 0:
                await parts.rest()
        now, self.read_now = self._clock.now(), sampled | plain
        self.reading.update(dict.fromkeys(self.read_now, now))
        self.irregular = ((self.irregular - plain) | sampled) & self.reading.keys()
        for key, seen_at in list(self.reading.items()):
            if seen_at + GONE_S <= now or key[1] not in self._registry:
                del self.reading[key]
                if key[1] in self._registry:
                    gone[key] = seen_at
        return gone

    @property
    def has_keepers(self) -> bool:
        """Whether some node keeps anything: else nothing is planned."""
        return any(node.quota_bytes for node in self._membership.live())

    def facts(self) -> object:
        """Another value whenever a new plan should be made at once. The disks' room, which is another all the time, is
        looked at when one is due."""
        # As bytes: of a thousand pins their texts took 15 ms of the loop, twice a second.
        pins = {digest_id: setting.SerializeToString() for digest_id, setting in self._caching.placement.pins.items()}
        quotas = sorted(node.quota_bytes for node in self._membership.live())
        probed = {key: result.at for key, result in self._probes.results.items()}
        reading = frozenset(self.reading), frozenset(self.irregular)
        return reading, pins, dict(self._budgets.pins.bytes_per_s), quotas, probed

    async def view(self) -> ClusterView:
        """Of now. Data sets of which the digest cannot be read are left out, with the room that persons gave them."""
        pins = self._caching.placement.pins
        wanted = {digest_id for _, digest_id in self.reading} | pins.keys()
        for digest_id in wanted - self._sizes.keys():
            try:
                digest = await self._registry.digest(digest_id)
            except errors.TfquiverError as error:
                every_n_seconds(logging.ERROR, "left out of plans: %s", 10, error, extra=about(digest=digest_id))
                continue
            self._sizes[digest_id] = await asyncio.to_thread(_size, digest)
        for digest_id in self._sizes.keys() - wanted:
            del self._sizes[digest_id]
        kept_bytes = self.room.look(self._membership.live())
        even = 1 - UNEVEN_SHARE if self.room.keepers > 1 else 1.0
        known = {digest_id for digest_id in wanted & self._sizes.keys() if digest_id in self._registry}
        # Of what is kept several times a plan is shown one copy: the others are nobody else's room, either.
        unshown_bytes = sum(
            setting.allocation_bytes if key not in self._sizes
            else max(0, setting.allocation_bytes - self._sizes[key].size_bytes) * (setting.mode == UNIFORM)
            for key, setting in pins.items()
        )  # fmt: skip
        called = {key: self._registry.find(key).name for key in known}
        reading = [key for key in self.reading if key[1] in known]
        self.names = await asyncio.to_thread(names_of, called, reading)  # of ten thousand: 30 ms
        datasets, jobs, parts = list[DatasetView](), list[JobView](), InParts()
        for digest_id in sorted(known):
            datasets.append(self._dataset(digest_id, pins.get(digest_id)))
            await parts.rest()
        reads = Counter(job for job, _ in self.names.jobs)
        for job, digest_id in self.names.jobs:
            jobs.append(self._job(job, digest_id, reads[job]))
            await parts.rest()
        return ClusterView(
            # Some write more than any disk has, for all there is; of the sum nothing may come that is no view.
            cache_bytes=max(0, int(min(kept_bytes, MOST_BYTES) * even) - unshown_bytes),
            remote_bytes_per_s=_rate(self._store_bytes_per_s),
            datasets=tuple(datasets),
            jobs=tuple(jobs),
        )

    def read_whole(self, digest_id: bytes) -> tuple[int, bool]:
        """Bytes of an epoch, on the disks; and whether its chunks are loaded just ahead of who reads them."""
        size_bytes, setting = self.size_bytes(digest_id), self._caching.placement.setting(digest_id)
        if setting.mode != COOPERATIVE or not size_bytes:
            return size_bytes, False
        there_bytes = max(
            setting.allocation_bytes or size_bytes, self._caching.residency.table(digest_id).resident_bytes
        )
        return size_bytes, there_bytes <= _HARDLY_ANY * size_bytes

    def size_bytes(self, digest_id: bytes) -> int:
        """On the disks, whole; 0: not known yet."""
        size = self._sizes.get(digest_id)
        return size.size_bytes if size else 0

    def limit(self, job: str) -> float | None:
        """Bytes/s that it may read from the store, for all its data sets together; None: any."""
        return self._budgets.allocated.get(job)

    def called(self, digest_id: bytes) -> str:
        """As plans would call a data set; empty: it is not registered any more."""
        there = digest_id in self._registry
        return self.names.datasets.get(digest_id) or self.names_of([digest_id]).datasets[digest_id] if there else ""

    def with_digits(self, digits: Collection[str]) -> dict[str, str]:
        """What plans would call the data sets with these digits (`names.digits_of`), by them."""
        begins = {bytes.fromhex(one[:DIGITS]) for one in digits}
        found = [one.digest_id for one in self._registry.all() if one.digest_id[: DIGITS // 2] in begins]
        return {digits_of(name): name for name in self.names_of(found).datasets.values()}

    def names_of(self, digest_ids: Iterable[bytes], reading: Iterable[tuple[str, bytes]] = ()) -> Names:
        return names_of({key: self._registry.find(key).name for key in digest_ids}, reading)

    def _job(self, job: str, digest_id: bytes, reads: int) -> JobView:
        """`reads`: of how many data sets it is one here; its pin is for all that it reads."""
        measured, probed = self._probes.measured(job, digest_id), self._probes.result(job, digest_id)
        steps, pin_bytes_per_s = self._probes.steps(job, digest_id), self._budgets.pins.bytes_per_s.get(job)
        return JobView(
            name=self.names.jobs[job, digest_id],
            dataset=self.names.datasets[digest_id],
            ideal_bytes_per_s=_rate(could_read(measured, probed, steps) if measured else None),
            hit_bytes_per_s=_rate(probed.hit_bytes_per_s if probed else None),
            miss_bytes_per_s=_rate(probed.miss_bytes_per_s if probed else None),
            accelerators=min(steps.accelerators, MOST_ACCELERATORS) if steps else 1,
            irregular=(job, digest_id) in self.irregular,
            hit_ratio=measured.hit_share if measured else None,
            reads_bytes_per_s=_rate(measured.bytes_per_s if measured else None),
            ideal_guessed=measured is not None and is_guess(measured, probed, steps),
            remote_pin_bytes_per_s=_rate(pin_bytes_per_s and pin_bytes_per_s / reads),
        )

    def _dataset(self, digest_id: bytes, pin: types_pb2.CacheSetting | None) -> DatasetView:
        size, resident_bytes = self._sizes[digest_id], 0
        if digest_id in self._caching:
            resident_bytes = self._caching.residency.table(digest_id).resident_bytes
        return DatasetView(
            name=self.names.datasets[digest_id],
            size_bytes=size.size_bytes,
            cooperative_bytes=size.cooperative_bytes,
            now=allocation_of(self._caching.placement.setting(digest_id), size.size_bytes),
            pin=allocation_of(pin, size.size_bytes) if pin else None,
            resident_bytes=min(resident_bytes, size.size_bytes),
            computed=_computed(self._cost_of(digest_id)),
        )


def allocation_of(setting: types_pb2.CacheSetting, size_bytes: int) -> Allocation:
    """No limit means all of it."""
    mode = _NAMES.get(setting.mode, "none")
    return Allocation(mode, min(size_bytes, setting.allocation_bytes or size_bytes) if mode != "none" else 0)


def setting_of(allocation: Allocation) -> types_pb2.CacheSetting:
    return types_pb2.CacheSetting(mode=_MODES[allocation.mode], allocation_bytes=allocation.cache_bytes)


def _computed(cost: DerivedCost | None) -> Computed | None:
    if cost is None or not (cost.cpu_us and cost.busy_us and cost.input_bytes and cost.made_bytes):
        return None
    rate = _rate(1e6 * cost.made_bytes / cost.busy_us)
    assert rate is not None
    return Computed(cost.rows, cost.input_bytes, cost.made_bytes, cost.cpu_us / 1e6, cost.read_us / 1e6, rate)


def _rate(bytes_per_s: float | None) -> float | None:
    """What readers say may be anything, and a pin more than any store gives."""
    return min(max(bytes_per_s, LEAST_BYTES_PER_S), MOST_BYTES_PER_S) if bytes_per_s else None


def _size(digest: Digest) -> _Size:
    sizes_bytes, shards = most_disk_bytes(digest.lengths), digest.num_shards
    size_bytes = int(sizes_bytes.sum())
    chunks = chunk_counts.relevance_chunks(size_bytes, 1, shards)
    cut = striping.stripe(digest.lengths, chunks, 0, prefixes.of_rows(digest.hashes))
    two_bytes = int(
        np.sort(np.bincount(cut.chunk_of, sizes_bytes, cut.chunks))[-2:].sum()
    )  # one shard may be half of all
    return _Size(size_bytes, min(size_bytes, max(two_bytes, int(chunk_counts.TWO_CHUNKS * size_bytes / cut.chunks))))
