"""Joins the parts: sessions, membership, residency, registry and the commit log, on one event loop.

What a reply promises is durable before the reply: each method that decides (here, in `catalogue` and `reading`) calls
`CommitLog.writable` first (a log that cannot be written refuses decisions), decides, and awaits `CommitLog.synced`.
"""

from __future__ import annotations

import asyncio
import itertools
import random
import time
import uuid
from collections import deque
from collections.abc import Callable, Hashable, Iterable, Sequence
from pathlib import Path

from absl import logging

from tfquiver import errors
from tfquiver.clock import Clock, SystemClock
from tfquiver.log_files_and_lines.logs import about
from tfquiver.log_files_and_lines.rare_lines import SAID_AT_ONCE, SAID_S, every_n_seconds
from tfquiver.proto.tfquiver.v1.commit_log_pb2 import CommitRecord
from tfquiver.service.coordinator.bandwidth_budgets.budgets import Budgets
from tfquiver.service.coordinator.caretaker import Caretaker
from tfquiver.service.coordinator.choosing_the_policy.ends import Ends
from tfquiver.service.coordinator.choosing_the_policy.making import OFF, in_the_meantime
from tfquiver.service.coordinator.commit_log.commit_log import CommitLog
from tfquiver.service.coordinator.commit_log.latest_notes import LatestNotes
from tfquiver.service.coordinator.commit_log.work_dir import WorkDir
from tfquiver.service.coordinator.dataset_caching.caching import Caching
from tfquiver.service.coordinator.derived_datasets.deriving import Deriving
from tfquiver.service.coordinator.history_of_the_last_day.keeping_past import KeepingPast
from tfquiver.service.coordinator.long_polls.changes import Changes
from tfquiver.service.coordinator.long_polls.node_orders import NodeOrders
from tfquiver.service.coordinator.long_polls.readers import Waiting
from tfquiver.service.coordinator.long_work.in_thread import InThread
from tfquiver.service.coordinator.long_work.stepwise import Stepwise
from tfquiver.service.coordinator.measuring_jobs_and_stores.meters import GONE_S, JobMeters
from tfquiver.service.coordinator.measuring_jobs_and_stores.step_meters import StepMeters
from tfquiver.service.coordinator.measuring_jobs_and_stores.store_meter import StoreMeter
from tfquiver.service.coordinator.measuring_jobs_and_stores.waiting_trainers import WaitingTrainers
from tfquiver.service.coordinator.named_dataset_lifecycle.named_requests import NamedRequests
from tfquiver.service.coordinator.named_dataset_lifecycle.table import NamedTable
from tfquiver.service.coordinator.nodes_mounts_dispatchers.dispatchers import Dispatchers
from tfquiver.service.coordinator.nodes_mounts_dispatchers.heartbeats import Heartbeats
from tfquiver.service.coordinator.nodes_mounts_dispatchers.lost_nodes import LostNodes
from tfquiver.service.coordinator.nodes_mounts_dispatchers.membership import Membership
from tfquiver.service.coordinator.options import CoordinatorOptions
from tfquiver.service.coordinator.plan_rounds_and_moves.cluster_view import ClusterViews, allocation_of
from tfquiver.service.coordinator.plan_rounds_and_moves.planner import Planner
from tfquiver.service.coordinator.plan_rounds_and_moves.replanning import Replanning
from tfquiver.service.coordinator.probing.probes import Probes
from tfquiver.service.coordinator.registering_sharing_removing_datasets.catalogue import Catalogue
from tfquiver.service.coordinator.registering_sharing_removing_datasets.claims import Claims
from tfquiver.service.coordinator.registering_sharing_removing_datasets.ownership import Ownership
from tfquiver.service.coordinator.registering_sharing_removing_datasets.registry import Registry
from tfquiver.service.coordinator.resident_shards.table import Table
from tfquiver.service.coordinator.sampled_sessions_and_uploaded_weights.picking import Picking, weights_in_use
from tfquiver.service.coordinator.sampled_sessions_and_uploaded_weights.samplings import Samplings
from tfquiver.service.coordinator.sampled_sessions_and_uploaded_weights.weight_files import WeightFiles
from tfquiver.service.coordinator.sessions.decisions import SessionLimits
from tfquiver.service.coordinator.sessions.reading import Reading
from tfquiver.service.coordinator.sessions.sessions import Sessions
from tfquiver.sizes_durations_amounts.amounts import many

_GONE_AT_ONCE = 4  # times two thousand shards at most that a node held: a few ms


class Coordinator:
    """`catalogue`: what is done to data sets; `reading`: to sessions. Here: nodes, and what time brings."""

    def __init__(self, work_dir: Path, options: CoordinatorOptions, clock: Clock | None = None) -> None:
        """Reads the commit log. Call inside the event loop that it is to live on.

        Raises AlreadyRunningError (another coordinator holds `work_dir`), InvalidArgumentError (a directory that cannot
        be used), DataLossError (a damaged log), ResourceExhaustedError (no room for the log).
        """
        in_the_meantime(options.policy)  # it is there: before anything is opened
        self.options, self.incarnation = options, uuid.uuid4().hex
        self._tasks: list[asyncio.Task[None]] = []
        self._held = WorkDir(work_dir, self.incarnation)
        try:
            self._assemble(work_dir, options, clock or SystemClock())
        except BaseException:
            self._held.release()
            raise

    def _assemble(self, work_dir: Path, options: CoordinatorOptions, clock: Clock) -> None:
        self._clock = clock
        self._notes = LatestNotes(self._journal_now, lambda: bool(self._log.trouble))
        first_version, lost = random.SystemRandom().getrandbits(62) + 1, LostNodes(clock, time.time, self._notes.add)
        self.membership = Membership(clock, options.node_timeout_s, first_version, lost)
        self.dispatchers = Dispatchers(clock, time.time, self._notes.add)
        self.registry = Registry(work_dir, self._journal, options.max_digest_bytes)
        self.ownership = Ownership(self._journal)
        limits = SessionLimits(
            options.node_timeout_s, options.session_idle_s, options.session_ended_s, options.max_sessions
        )
        self.budgets = Budgets(clock, self._journal)
        # Jobs (or keys, of sessions that have none) and data sets: they are measured without the cache, read past it.
        self.probed: set[tuple[str, bytes]] = set()
        rng = random.SystemRandom()  # a session's id lets whoever knows it read along: nobody may foresee it
        held = self._held
        self._log = CommitLog(work_dir / "commit.log", self._snapshot, check=held.check, is_trusted=held.is_trusted)
        self._waiting, self._in_thread, self._stepwise = Waiting(), InThread(), Stepwise()
        self.sessions = Sessions(
            clock,
            rng,
            self._journal,
            lambda digest_id: self.caching.view(digest_id),
            self._waiting.wake,
            limits,
            self.budgets,
            self.probed,
            self.registry.called,
        )
        self.caching = Caching(
            clock, self.membership, self.sessions, options.chunk_timeout_s, self._wake_readers_of, self._in_thread.run,
            self.budgets,
        )  # fmt: skip
        self.caching.placement.known = self.registry.__contains__
        self.residency = self.caching.residency
        self.caching.stepwise = self.caching.placed.stepwise = self._stepwise.run
        self.meters = JobMeters(clock, self.sessions.session)
        self.store = StoreMeter(clock, options.store_bytes_per_s)
        self.step_meters, self.waiting_trainers = StepMeters(clock, self.meters), WaitingTrainers(clock)
        self.heartbeats = Heartbeats(
            self.membership,
            self.residency,
            self.sessions.node_seen,
            self.caching.changed,
            options.heartbeat_interval_ms,
            self.incarnation,
            self.meters.take,
            self.store.take,
            self.caching.take_moves,
            self.caching.settled,
            asyncio.get_running_loop().call_later,
            self._stepwise.run,
        )
        parts = self.membership, self.caching, self.sessions, self._waiting
        self.catalogue = Catalogue(self._log, self.registry, self.ownership, *parts)
        self.deriving = Deriving(
            clock, self._log, self.registry, self.catalogue, self._journal,
            lambda: {session.digest_id for session in self.sessions}, self.sessions.up_ms,
        )  # fmt: skip
        self.named_table = NamedTable(self._journal)
        self.sessions.has_dates = lambda: bool(self.named_table.with_old) or self.deriving.recipes.has_old
        self.named = NamedRequests(
            clock, self._log, self.named_table, self.registry, self.ownership, self.membership, self.caching,
            self.sessions, self.catalogue, options.when_full, options.session_ended_s,
        )  # fmt: skip
        self.claims = Claims(self.registry, self.named_table, self.membership, self.caching, self.deriving.is_building)
        self.node_orders = NodeOrders(self.caching, self.budgets, self.named.to_nodes, lambda: self.registry.removals)
        self.caching.announce = self.named.to_nodes.announce = self.node_orders.announce
        self.changes = Changes(self._shown, random.SystemRandom().getrandbits(62) + 1)
        self.weights = WeightFiles(
            work_dir / "weights", lambda: weights_in_use(self.sessions) | self.samplings.awaited_weights()
        )
        self.samplings = Samplings(self._log, self.registry, self.sessions, self._journal, self.weights)
        self.picking = Picking(self.registry, self.sessions, self.samplings, self.weights)
        self.reading = Reading(self._log, self.registry, *parts, self.budgets, self.samplings)
        self.caretaker = Caretaker(
            clock, options.node_timeout_s, self._held, self.membership, self.sessions, self.caching, self.budgets,
            lambda: self.reading.opening, self._node_gone, self._looked_after,
        )  # fmt: skip
        self.probes = Probes(clock, self.meters, self.probed, self.step_meters)
        self.keeping_past = KeepingPast(self.sessions, self.caching, self.registry, self.meters, self.store)
        self.replanning = None if options.policy == OFF else self._replanning(clock, options, Ends(work_dir))

    def _replanning(self, clock: Clock, options: CoordinatorOptions, ends: Ends) -> Replanning:
        sessions, caching, budgets = self.sessions, self.caching, self.budgets
        views = ClusterViews(
            clock, self.registry, self.membership, sessions, caching, budgets, self.probes, options.store_bytes_per_s,
            self.dispatchers.left, self.deriving.recipes.cost_of,
        )  # fmt: skip
        planner = Planner(in_the_meantime(options.policy), passes=())
        return Replanning(
            clock, sessions, caching, self.catalogue, budgets, self.probes, self.store, views, planner, options.policy,
            self._journal, options.replan_s, ends,
        )  # fmt: skip

    async def start(self) -> None:
        """Goes on where the log ends, and begins to look after nodes and readers that stay away."""
        records = self._log.restored()
        for record in records:
            match record.WhichOneof("record"):
                case "dataset_registered":
                    self.registry.apply(record.dataset_registered)
                case "remote_io_allocated":
                    self.budgets.pins.apply(record.remote_io_allocated)
                case "plan_decided":
                    if self.replanning:
                        self.replanning.decided(record.plan_decided)
                case "policy_chosen":
                    if self.replanning:
                        self.replanning.chosen.apply(record.policy_chosen)
                case "placement_set":
                    self.caching.placed.rules.apply(record.placement_set)
                case "cache_set":
                    self.caching.apply(record.cache_set)
                case "dataset_removed":
                    self.registry.apply_removal(record.dataset_removed.digest_id)
                    self.caching.placement.settings.pop(record.dataset_removed.digest_id, None)
                    self.caching.placed.rules.forget(record.dataset_removed.digest_id)
                    self.ownership.forget(record.dataset_removed.digest_id)
                case "named_dataset_set" | "named_dataset_gone":
                    self.named_table.apply(record)
                case "derived_begun" | "derived_rows" | "derived_made" | "derived_used" | "derived_forgotten":
                    self.deriving.recipes.apply(record)
                case "sampling_asked":
                    self.samplings.asked.apply(record)
                case "dispatcher_known":
                    self.dispatchers.apply(record.dispatcher_known)
                case "node_known":
                    self.membership.lost.apply(record.node_known)
                case "dataset_access" | "session_claimed":
                    self.ownership.apply(record)
                case _:
                    self.sessions.apply(record)
        self.budgets.restored()
        if not self.replanning:
            self.catalogue.take_back_decided()
        self.registry.restored()
        self.catalogue.take_back_chunks_of_bytes()
        self.deriving.restored()
        await self.registry.prune()
        self.sessions.restored()
        self.dispatchers.restored()
        self.membership.lost.restored()
        if records:
            await self.registry.drop_left_overs()
            self.caching.restored()
            self._log.start_compaction()
            logging.info("restored %s from %s", many(len(list(self.sessions)), "session"), many(len(records), "record"))
        self.named.to_nodes.look()  # who asks at once is told the names, too
        loop = asyncio.get_running_loop()
        self._tasks.append(loop.create_task(self.caretaker.run()))
        self._tasks.append(loop.create_task(self.named.run()))
        self._tasks.append(loop.create_task(self.keeping_past.run()))
        if self.replanning:
            await self.replanning.restored()
            self._tasks.append(loop.create_task(self.replanning.run()))

    def release_waiters(self) -> None:
        """Calls that wait return at once, from now on."""
        self._in_thread.stop()
        self.heartbeats.stop()
        self._stepwise.stop()
        self.node_orders.release_waiters()
        self.changes.release_waiters()
        self.catalogue.release_waiters()
        self.named.release_waiters()
        self.deriving.release_waiters()
        self.reading.release_waiters()
        if self.replanning:
            self.replanning.stop()

    async def stop(self) -> None:
        self.release_waiters()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self.reading.stop()
        await asyncio.to_thread(self.picking.close)
        await self.claims.close()
        await self.registry.close()
        self._notes.flush()
        self.sessions.stopping()
        await self._log.close()
        self._held.release()

    # Nodes.

    def missing(self, digest_id: bytes, shards: Sequence[int], node_id: str) -> tuple[list[int], list[int]]:
        """As Caching.missing, by all that nodes have told until now: whoever asks reads from the store what nobody is
        said to hold, and gives up what another one is. Raises as that."""
        self.heartbeats.settle()
        return self.caching.missing(digest_id, shards, node_id)

    async def leave(self, node_id: str, incarnation: str) -> None:
        await self._log.writable()
        if self.membership.leave(node_id, incarnation):
            logging.info("node %s has left", node_id, extra=about(node=node_id))
            self._node_gone(node_id)
        await self._noted()

    async def forget(
        self, node_ids: Iterable[str], dispatchers: Iterable[str], all_lost: bool
    ) -> tuple[list[str], list[str]]:
        """Nobody is to miss these nodes and dispatchers (addresses); those that were missed. Raises InUseError, with
        none forgotten."""
        await self._log.writable()
        self.dispatchers.check_lost(dispatchers)
        forgotten = self.membership.forget(node_ids, all_lost), self.dispatchers.forget(dispatchers, all_lost)
        await self._noted()
        for kind, names in zip(("node", "dispatcher"), forgotten, strict=True):
            for name in names:
                logging.info("%s %s is not missed any more: somebody has said so", kind, name)
        return forgotten

    async def dispatcher_leaves(self, address: str, id: str) -> None:
        """It stops, and is not missed here. Raises UnavailableError where that is not durable (yet)."""
        self.dispatchers.leave(address, id)
        await self._noted()

    # Jobs.

    async def allocate_remote_io(self, job: str, bytes_per_s: float) -> None:
        await self._log.writable()
        is_other = self.budgets.pins.allocate(job, bytes_per_s)
        await self._log.synced()  # also where an earlier call, of the same, has not been answered
        if is_other:
            said = "job %s may read %.0f bytes/s from the store (0: any)"
            every_n_seconds(logging.INFO, said, SAID_S, job, bytes_per_s, extra=about(job=job), at_once=SAID_AT_ONCE)

    @property
    def log_trouble(self) -> str:
        """Why nothing is decided; empty: the log is written."""
        return self._log.trouble

    # Who decides.

    @property
    def policy_trouble(self) -> str:
        """Why nothing is decided, or not by whom it should be."""
        return self.replanning.trouble if self.replanning else ""

    async def choose_policy(self, policy: str) -> None:
        """Raises InvalidArgumentError, and where --policy=off."""
        if self.replanning is None:
            raise errors.InvalidArgumentError("policy: --policy=off, nothing is decided here but by persons")
        await self._log.writable()
        try:
            await self.replanning.switch(policy)
        finally:  # one that is waited for no longer comes, also after a restart
            await self._log.synced()

    def read_past_cache(self, session_id: str, table: Table, shards: Sequence[int]) -> None:
        """What a job that is probed was leased; of that, what was cached would not have cost the store anything, nor
        would, as far as there is room, what it has read before and was not kept then."""
        session = self.sessions.session(session_id)
        cached_bytes = sum(int(table.lengths[shard]) for shard in shards if table.resident[shard])
        again = self.probes.again(*session.reads, shards, len(table.lengths))
        setting = self.caching.placement.setting(session.digest_id)
        room = allocation_of(setting, table.disk_bytes).cache_bytes / max(1, table.disk_bytes)
        not_kept_bytes = room * sum(int(table.lengths[shard]) for shard in again if not table.resident[shard])
        self.probes.leased(*session.reads, cached_bytes + int(not_kept_bytes))

    # Inside.

    def _shown(self) -> Hashable:
        """What those who watch are shown, as far as it is not the time that changes it: equal while nothing does. While
        somebody reads, or has until just now, figures change all the time."""
        now = self._clock.now()
        if self.sessions.read() or self.meters.heard_at > now - GONE_S:
            return now
        log = self._log.appended, self._log.trouble
        return log, self.node_orders.version, self.membership.told(), self.dispatchers.told()

    def _node_gone(self, node_id: str) -> None:
        self.sessions.node_lost(node_id)
        parts = self.heartbeats.gone(node_id)
        deque(itertools.islice(parts, _GONE_AT_ONCE), maxlen=0)
        self._stepwise.run(parts)
        self.caching.placed.reports.gone(node_id)

    async def _looked_after(self) -> None:
        self.changes.look()
        await self._log.writable()  # tried again where the last write failed: nobody may have anything to write
        self._notes.flush()
        await self._log.synced()

    async def _noted(self) -> None:
        """What is there of nodes and dispatchers is durable, also what was held while the log could not be written."""
        self._notes.flush()
        await self._log.synced()

    def _journal(self, record: CommitRecord) -> None:
        self._log.append(record)

    def _journal_now(self, record: CommitRecord) -> None:
        """Of what nobody waits for."""
        self._log.append(record)
        self._log.flush()

    def _snapshot(self) -> Iterable[Callable[[], Iterable[CommitRecord]]]:
        settings = [*self.caching.placement.snapshot(), *self.caching.placed.rules.snapshot()]
        yield from (self.registry.still(), self.ownership.still(), self.budgets.pins.still(), lambda: settings)
        yield from (self.named_table.still(), self.samplings.asked.still(), self.deriving.recipes.still())
        yield self.dispatchers.still()
        yield self.membership.lost.still()
        if self.replanning:
            yield self.replanning.still()
        yield from self.sessions.still()

    def _wake_readers_of(self, digest_id: bytes) -> None:
        self._waiting.wake_soon(self._waiting.session_ids(digest_id))
