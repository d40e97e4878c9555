"""Carries out the coordinator's orders: settings to the disk, chunks evicted, and loaded (`chunk_loads`).

The newest orders replace all before them, so that nothing has to be remembered over a restart, and what went wrong is
tried again.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from absl import logging

from tfquiver import errors
from tfquiver.clock import Clock, SystemClock
from tfquiver.digests.digest import Digest
from tfquiver.log_files_and_lines.logs import about
from tfquiver.log_files_and_lines.rare_lines import every_n_seconds
from tfquiver.proto.tfquiver.v1 import coordinator_pb2 as pb
from tfquiver.proto.tfquiver.v1 import types_pb2
from tfquiver.service.node.coordinator_orders import dataset_rules
from tfquiver.service.node.coordinator_orders.chunk_loads import ChunkLoads
from tfquiver.service.node.coordinator_orders.chunk_map import ChunkMap
from tfquiver.service.node.coordinator_orders.dataset_rules import CacheRules, DatasetRule
from tfquiver.service.node.coordinator_orders.load_plan import ChunkLoad
from tfquiver.service.node.coordinator_orders.named_list import called
from tfquiver.service.node.disk.disk_cache import DiskCache
from tfquiver.service.node.placing_at_owners_and_writing.known_places import KnownPlaces
from tfquiver.service.node.shards_from_disk_other_nodes_or_store.shard_source import ShardSource

_AT_ONCE_SHARDS = 1024
_ASKED_SHARDS = 65536
LOOK_AGAIN_S = 5.0
_LONGEST_LOOK_OVER_S = 300.0
_TRY_AGAIN_S = 2.0  # orders that could not be carried out, for want of a digest or because the disk refuses


_Striped = tuple[bytes, int, int]  # digest id, chunks, partitions


def _striped(orders: pb.DatasetOrders) -> _Striped:
    setting = orders.setting
    if setting.mode != types_pb2.CACHE_MODE_COOPERATIVE:
        return orders.digest_id, 0, 0
    return orders.digest_id, setting.chunks, setting.partitions


@dataclass(slots=True)
class _Known:
    """What stays of a data set from one set of orders to the next."""

    map: ChunkMap
    striping: tuple[int, int]


@dataclass(frozen=True, slots=True)
class OtherNodes:
    """What may be asked about them.

    Args:
      missing: of a data set's shards, those that no node, or another one, holds; raises TfquiverError.
      has_room: whether others have room for an entry of so many bytes, after so many more on all of them.
    """

    missing: Callable[[bytes, Sequence[int]], Awaitable[pb.MissingReply]]
    has_room: Callable[[int, int], bool]


class ChunkOrders:
    """Lives on one loop. `start` it, `close` it.

    Args:
      digests: raises TfquiverError when a digest cannot be had.
      members: every live node, as the coordinator last said.
      others: asked where there are several nodes that store; None: there never are.
      refill_bytes_per_s: of loads that nobody waits for; 0: no limit.
      known_places: which nodes keep data sets that have a placement.
    """

    def __init__(
        self,
        node: types_pb2.NodeInfo,
        disk: DiskCache,
        source: ShardSource,
        digests: Callable[[bytes], Awaitable[Digest]],
        members: Callable[[], Sequence[types_pb2.NodeInfo]],
        others: OtherNodes | None = None,
        refill_bytes_per_s: float = 0,
        clock: Clock | None = None,
        known_places: KnownPlaces | None = None,
    ) -> None:
        self._places = known_places or KnownPlaces()
        # That people gave to data sets of that digest.
        self.names: Callable[[bytes], Sequence[str]] = lambda digest_id: ()
        self._node_id, self._quota_bytes = node.node_id, node.quota_bytes
        self._disk, self._source, self._digests, self._members = disk, source, digests, members
        self._others, self._clock = others, clock or SystemClock()
        self._newest: Sequence[pb.DatasetOrders] | None = None
        self._gone: dict[_Striped, frozenset[int]] = {}  # chunks that were ordered away, and not ordered in since
        self._known: dict[bytes, _Known] = {}
        self._own: dict[tuple[bytes, int, tuple[int, int], tuple[str, ...]], list[int]] = {}
        self._quotas: dict[str, int] = {}
        self._looked_over: set[bytes] = set()  # data sets of which other nodes hold nothing that this one does
        self._look_again = False  # something is to be loaded, of which other nodes may get hold, or lose it
        self._looked_s = self._look_over_from_s = self._clock.now()
        self._look_over_pause_s = LOOK_AGAIN_S
        self._settled: object = None  # the settings and quotas that the disk was last settled for
        self._changed = asyncio.Event()
        self._loads = ChunkLoads(disk, source, self._others_have_room, refill_bytes_per_s, self._clock)
        self._tasks: list[asyncio.Task[None]] = []

    def start(self) -> None:
        loop = asyncio.get_running_loop()
        self._tasks = [loop.create_task(self._carry_out_on()), loop.create_task(self._loads.run())]

    async def close(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._loads.close()

    def receive(self, orders: Sequence[pb.DatasetOrders]) -> None:
        """They replace all earlier ones."""
        self._newest = tuple(orders)
        before, self._gone = self._gone, {}
        for its in orders:
            self._gone[_striped(its)] = (before.get(_striped(its), frozenset()) | set(its.evict)) - set(its.load)
        self._admit_at_once()
        self._changed.set()

    def _admit_at_once(self) -> None:
        """Readers fetch of what is to be loaded as soon as they are told: by then it must not count as ordered away."""
        rules = []
        for its in self._newest or ():
            known = self._known.get(its.digest_id)
            if known is None or known.striping != _striped(its)[1:]:
                return
            rules.append(self._rule(its, known, self._quotas))
        self._disk.use(CacheRules(rules))

    def members_changed(self) -> None:
        """Nodes have come or gone: shards may have other owners, this node another share."""
        if self._storing() != self._quotas:
            self._changed.set()

    def places_changed(self) -> None:
        """Data sets are kept on other nodes now."""
        self._changed.set()

    def was_away(self) -> None:
        """Meanwhile other nodes may have got what this one holds."""
        self._looked_over.clear()
        self._changed.set()

    async def _carry_out_on(self) -> None:
        done = True
        while True:
            pause_s = (LOOK_AGAIN_S if self._look_again else None) if done else _TRY_AGAIN_S
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(pause_s):
                    await self._changed.wait()
            self._changed.clear()
            self._look_around(self._clock.now())
            if self._newest is None:
                continue
            try:
                done = await self._carry_out(self._newest)
            except Exception:  # noqa: BLE001 - one bad order must not end the loading for ever
                logging.exception("orders")
                done = False

    def _look_around(self, now: float) -> None:
        """Where something is still to be loaded. There may be no room for it because of what several nodes hold."""
        if not self._look_again:
            self._looked_s = now
        elif now >= self._looked_s + LOOK_AGAIN_S:
            self._own, self._looked_s = {}, now
            if now >= self._look_over_from_s:
                self._looked_over.clear()

    async def _carry_out(self, newest: Sequence[pb.DatasetOrders]) -> bool:
        """Whether all of them could be; evictions come first: they make room."""
        self._quotas = quotas = self._storing()
        rules, maps = [], {}
        for orders in newest:
            try:
                known = await self._know(orders)
            except errors.TfquiverError as error:
                every_n_seconds(
                    logging.WARNING,
                    "orders for %s: %s",
                    10,
                    called(self.names(orders.digest_id), orders.digest_id.hex()),
                    error,
                    extra=about(digest=orders.digest_id),
                )
                continue
            rules.append(self._rule(orders, known, quotas))
            maps[orders.digest_id] = known.map
        together = CacheRules(rules)
        self._disk.use(together)
        settings = [(rule.digest_id, rule.mode, rule.terms, self._known[rule.digest_id].striping) for rule in rules]
        went = True
        if self._settled != settings:
            went = await self._source.settle()
            self._settled = settings if went else None
        for orders in newest:
            for chunk in orders.evict if orders.digest_id in maps else ():
                went = await self._source.evict(maps[orders.digest_id].hashes(chunk)) and went
        if len(quotas) > 1:
            went = await self._drop_duplicates(together) and went
        loads, whole = await self._own_loads([its for its in newest if its.digest_id in maps], quotas)
        self._known = {digest_id: self._known[digest_id] for digest_id in maps}
        rates = {
            its.digest_id: its.load_bytes_per_s / max(1, len(self._places.quotas(its.digest_id, quotas)))
            for its in newest
            if its.load_bytes_per_s > 0
        }
        self._loads.replace(loads, maps, rates)
        self._look_again = bool(loads) and len(quotas) > 1
        return went and whole and len(maps) == len(newest)

    async def _know(self, orders: pb.DatasetOrders) -> _Known:
        known = self._known.get(orders.digest_id)
        _, *striping = _striped(orders)
        if known is None or known.striping != tuple(striping):
            digest = await self._digests(orders.digest_id)
            known = _Known(await asyncio.to_thread(ChunkMap, digest, *striping), (striping[0], striping[1]))
            self._known[orders.digest_id] = known
        return known

    def _rule(self, orders: pb.DatasetOrders, known: _Known, quotas: Mapping[str, int]) -> DatasetRule:
        name = called(self.names(orders.digest_id), known.map.digest.name)
        its_quotas = self._places.quotas(orders.digest_id, quotas)
        moving = self._places.is_moving(orders.digest_id)
        terms = dataset_rules.terms(name, orders.setting, known.map, self._node_id, its_quotas, moving)
        return DatasetRule(
            orders.digest_id, orders.setting.mode, terms, known.map,
            frozenset(orders.load), frozenset(orders.evict), self._gone.get(_striped(orders), frozenset()),
        )  # fmt: skip

    def _storing(self) -> dict[str, int]:
        quotas = {node.node_id: node.quota_bytes for node in self._members() if node.quota_bytes > 0}
        if self._quota_bytes:  # a coordinator that has just been restarted may not have heard of this node yet
            quotas[self._node_id] = self._quota_bytes
        return quotas

    async def _own_loads(
        self, newest: Sequence[pb.DatasetOrders], quotas: Mapping[str, int]
    ) -> tuple[list[ChunkLoad], bool]:
        """Also whether these are all."""
        loads, own, whole = [], {}, True
        for orders in newest:
            known = self._known[orders.digest_id]
            storing = tuple(sorted(self._places.quotas(orders.digest_id, quotas)))
            if orders.setting.mode != types_pb2.CACHE_MODE_COOPERATIVE:
                continue
            for rank, chunk in enumerate(orders.load):
                key = (orders.digest_id, chunk, known.striping, storing)
                shards = self._own.get(key)
                if shards is None:
                    shards = (await self._own_shards(known.map, chunk, storing)).tolist()
                    try:
                        shards = await self._missing(orders.digest_id, known.map, shards) if len(quotas) > 1 else shards
                    except errors.TfquiverError as error:
                        every_n_seconds(logging.WARNING, "orders: %s", 10, error, extra=about(digest=orders.digest_id))
                        whole = False
                        continue
                own[key] = shards
                loads.append(ChunkLoad(orders.digest_id, chunk, shards, urgent=rank < orders.urgent))
        self._own = own
        return loads, whole

    async def _own_shards(self, map: ChunkMap, chunk: int, storing: tuple[str, ...]) -> npt.NDArray[np.uint32]:
        if len(map.shards(chunk)) <= _AT_ONCE_SHARDS:  # sooner done than handed to a thread
            return map.own_shards(chunk, self._node_id, storing)
        return await asyncio.to_thread(map.own_shards, chunk, self._node_id, storing)

    async def _drop_duplicates(self, together: CacheRules) -> bool:
        """Gives up what other nodes hold as well, as after an absence: allocations have room for each shard once.

        Whether the coordinator could be asked.
        """
        self._looked_over &= {rule.digest_id for rule in together.datasets}
        looked, found = False, 0
        for rule in together.datasets:
            if rule.mode != types_pb2.CACHE_MODE_COOPERATIVE or rule.digest_id in self._looked_over or not self._others:
                continue
            try:
                await self._others.missing(rule.digest_id, [])
                shards = await asyncio.to_thread(rule.map.where, self._disk.__contains__)
                for at in range(0, len(shards), _ASKED_SHARDS):
                    reply = await self._others.missing(rule.digest_id, shards[at : at + _ASKED_SHARDS])
                    found += await self._source.on_disk(self._give_up, rule, reply.elsewhere, together)
            except errors.NotFoundError:
                continue  # nobody reads it now
            except errors.TfquiverError as error:
                every_n_seconds(logging.WARNING, "orders: %s", 10, error, extra=about(digest=rule.digest_id))
                return False
            self._looked_over.add(rule.digest_id)
            looked = True
        if looked:
            self._look_over_pause_s = LOOK_AGAIN_S if found else min(2 * self._look_over_pause_s, _LONGEST_LOOK_OVER_S)
            self._look_over_from_s = self._clock.now() + self._look_over_pause_s
        return True

    def _give_up(self, rule: DatasetRule, shards: Sequence[int], together: CacheRules) -> int:
        """Those that no other data set keeps; how many went."""
        hashes = [rule.map.digest.hashes[shard].tobytes() for shard in shards]
        kept_by = together.accounts_of(hashes)
        alone = [hash for hash, by in zip(hashes, kept_by, strict=True) if set(by) <= {rule.digest_id}]
        return self._disk.give_up(alone).entries

    async def _missing(self, digest_id: bytes, map: ChunkMap, shards: list[int]) -> list[int]:
        """Without those that another node holds, as after owners have changed. Raises TfquiverError."""
        if not shards or self._others is None:
            return shards
        missing = list((await self._others.missing(digest_id, shards)).shards)
        for shard in missing:
            self._source.is_missing(map.digest.hashes[shard].tobytes())
        return missing

    def _others_have_room(self, disk_bytes: int, besides_bytes: int) -> bool:
        return self._others is not None and self._others.has_room(disk_bytes, besides_bytes)
