"""Joins the parts: sessions, membership, residency, registry and the commit log, on one event loop.

What a reply promises is durable before the reply: each method that decides calls `_log.writable` first (a log that
cannot be written refuses decisions), decides, and awaits `_log.synced`.
"""

from __future__ import annotations

import asyncio
import os
import random
import uuid
from collections.abc import AsyncIterable, Callable, Iterable, Sequence
from pathlib import Path

from absl import logging

from tfquiver import durable, errors
from tfquiver.clock import Clock, SystemClock
from tfquiver.content.listing_terms import ListingTerms
from tfquiver.proto.tfquiver.v1 import coordinator_pb2 as pb2
from tfquiver.proto.tfquiver.v1 import types_pb2
from tfquiver.proto.tfquiver.v1.commit_log_pb2 import CacheSet, CommitRecord, DatasetRemoved, ResumeAsked
from tfquiver.service.coordinator.cache.residency import Table
from tfquiver.service.coordinator.caching import Caching
from tfquiver.service.coordinator.datasets.ownership import Ownership
from tfquiver.service.coordinator.datasets.registry import Registry
from tfquiver.service.coordinator.durable.commit_log import CommitLog
from tfquiver.service.coordinator.nodes.holdings import prefixes
from tfquiver.service.coordinator.nodes.membership import InventoryVerdict, Membership, Sighting
from tfquiver.service.coordinator.options import CoordinatorOptions
from tfquiver.service.coordinator.sessions.bitmap import Bitmap
from tfquiver.service.coordinator.sessions.resumptions import position_of
from tfquiver.service.coordinator.sessions.session import LeaseResult, LeaseState, Reader, Session
from tfquiver.service.coordinator.sessions.sessions import ReaderRequest, SessionLimits, Sessions
from tfquiver.service.coordinator.sessions.wish import Wish
from tfquiver.trust.identity import EVERYBODY, Identity, Role

_LATE_S, _LATE_WARNING_S = 0.1, 1.0


class Coordinator:
    def __init__(self, work_dir: Path, options: CoordinatorOptions, clock: Clock | None = None) -> None:
        """Reads the commit log. Call inside the event loop that it is to live on.

        Raises AlreadyRunningError (another coordinator holds `work_dir`), InvalidArgumentError (a directory that cannot
        be used), DataLossError (a damaged log), ResourceExhaustedError (no room for the log).
        """
        self.options = options
        self.incarnation = uuid.uuid4().hex
        self._waiters: dict[str, asyncio.Event] = {}
        self._opening: dict[bytes, asyncio.Lock] = {}
        self._setting = asyncio.Lock()
        self._stopping = False
        self._caretaker: asyncio.Task[None] | None = None
        self._lock = _locked(work_dir)
        try:
            self._assemble(work_dir, options, clock or SystemClock())
        except BaseException:
            os.close(self._lock)
            raise

    def _assemble(self, work_dir: Path, options: CoordinatorOptions, clock: Clock) -> None:
        self._clock = clock
        self.membership = Membership(clock, options.node_timeout_s, random.SystemRandom().getrandbits(62) + 1)
        self.registry = Registry(work_dir, self._journal, options.max_digest_bytes)
        self.ownership = Ownership(self._journal)
        limits = SessionLimits(
            options.node_timeout_s, options.session_idle_s, options.session_ended_s, options.max_sessions
        )
        rng = random.SystemRandom()  # a session's id lets whoever knows it read along: nobody may foresee it
        self._log = CommitLog(work_dir / "commit.log", self._snapshot)
        self.caching = Caching(clock, self.membership, options.chunk_timeout_s, self._wake_readers_of)
        self.caching.placement.known = self.registry.__contains__
        self.sessions = Sessions(clock, rng, self._journal, self.caching.view, self._wake, limits)
        self.caching.sessions, self.residency = self.sessions, self.caching.residency

    async def start(self) -> None:
        """Goes on where the log ends, and begins to look after nodes and readers that stay away."""
        records = self._log.restored()
        for record in records:
            match record.WhichOneof("record"):
                case "dataset_registered":
                    self.registry.apply(record.dataset_registered)
                case "cache_set":
                    self.caching.apply(record.cache_set)
                case "dataset_removed":
                    self.registry.apply_removal(record.dataset_removed.digest_id)
                    self.caching.placement.settings.pop(record.dataset_removed.digest_id, None)
                    self.ownership.forget(record.dataset_removed.digest_id)
                case "dataset_access" | "session_claimed":
                    self.ownership.apply(record)
                case _:
                    self.sessions.apply(record)
        self.registry.restored()
        await self.registry.prune()
        self.sessions.restored()
        if records:
            self.caching.restored()
            self._log.start_compaction()
            logging.info("restored %d sessions from %d records", len(list(self.sessions)), len(records))
        self._caretaker = asyncio.get_running_loop().create_task(self._take_care())

    def release_waiters(self) -> None:
        """Calls that wait return at once, from now on."""
        self._stopping = True
        self.caching.release_waiters()
        for session_id in list(self._waiters):
            self._wake(session_id)

    async def stop(self) -> None:
        self.release_waiters()
        if self._caretaker:
            self._caretaker.cancel()
            await asyncio.gather(self._caretaker, return_exceptions=True)
        await self.registry.close()
        await self._log.close()
        os.close(self._lock)

    # Data sets.

    async def register(
        self,
        name: str,
        listing_key: bytes,
        terms: ListingTerms | None,
        parts: AsyncIterable[bytes],
        who: Identity = EVERYBODY,
    ) -> types_pb2.Dataset:
        """A job's word for what a listing is counts for itself alone: only nodes have scanned it."""
        await self._log.writable()
        listed_for = who.owner if who.role is Role.JOB else ""
        ownership = self.ownership
        dataset = await self.registry.register(
            name, listing_key, terms, parts, listed_for,
            lambda digest_id: not ownership.access(digest_id).owners or ownership.owns(who, digest_id),
        )  # fmt: skip
        ownership.acquire(who, dataset.digest_id)
        await self._log.synced()
        return dataset

    async def acquire(self, who: Identity, digest_id: bytes) -> None:
        """They have shown the listing that it was scanned from."""
        if who.owner and who.owner not in self.ownership.access(digest_id).owners:
            await self._log.writable()
            self.ownership.acquire(who, digest_id)
            await self._log.synced()

    async def share(self, digest_id: bytes, names: Sequence[str], everybody: bool) -> None:
        await self._log.writable()
        self.ownership.share(digest_id, names, everybody)
        await self._log.synced()

    async def claim(self, who: Identity, session_key: str) -> None:
        await self._log.writable()
        self.ownership.claim(who, session_key)
        await self._log.synced()

    async def delete(self, who: Identity, digest_id: bytes, force: bool) -> list[str]:
        """Who owns it still, where a job is one of several owners; else it is gone. Raises InUseError."""
        async with self._setting:
            await self._log.writable()
            if who.role is Role.JOB and set(self.ownership.access(digest_id).owners) - {who.owner}:
                left = self.ownership.give_up(who, digest_id)
                await self._log.synced()
                return left
            reading = sum(len(session.readers) for session in self.sessions if session.digest_id == digest_id)
            if reading and not force:
                raise errors.InUseError(
                    f"digest_id: {reading} readers read data set {digest_id.hex()}: --force ends them"
                )
            for session_id in self.sessions.forget_data_set(digest_id):
                self._wake(session_id)
            self._journal(CommitRecord(dataset_removed=DatasetRemoved(digest_id=digest_id)))
            self.registry.apply_removal(digest_id)
            self.ownership.forget(digest_id)
            self.caching.forget(digest_id)
            await self._log.synced()
        logging.info("data set %s was removed by %s", digest_id.hex(), who)
        await self.registry.prune()
        return []

    async def deleted(self, digest_id: bytes) -> None:
        """There is none such: returns when that is durable, which a `delete` that failed half-way has left undone."""
        if self.registry.removed([digest_id]):
            await self._log.synced()
            await self.registry.prune()

    async def unset_cache(self, digest_id: bytes) -> types_pb2.CacheSetting:
        """Also of a data set that is not registered any more."""
        async with self._setting:
            await self._log.writable()
            record = CommitRecord(cache_set=CacheSet(digest_id=digest_id, setting=types_pb2.CacheSetting()))
            self._journal(record)
            self.caching.apply(record.cache_set)
            self.caching.set(digest_id, None)
            await self._log.synced()
        return record.cache_set.setting

    async def set_cache(self, digest_id: bytes, asked: types_pb2.CacheSetting) -> types_pb2.CacheSetting:
        digest = await self.registry.digest(digest_id)
        async with self._setting:  # what is left of the quotas depends on the settings before
            await self._log.writable()
            self.registry.find(digest_id)
            quotas_bytes = [node.quota_bytes for node in self.membership.live()]
            fixed, plan = await asyncio.to_thread(self.caching.fix, digest, asked, quotas_bytes)
            record = CommitRecord(cache_set=CacheSet(digest_id=digest_id, setting=fixed))
            self._journal(record)
            self.caching.apply(record.cache_set)
            self.caching.set(digest_id, plan)
            await self._log.synced()
        logging.info("data set %s is cached so: %s", digest_id.hex(), str(fixed).replace("\n", " "))
        return fixed

    def cache(self, digest_id: bytes) -> types_pb2.CacheSetting:
        self.registry.find(digest_id)
        return self.caching.placement.setting(digest_id)

    # Nodes.

    def heartbeat(self, request: pb2.HeartbeatRequest) -> pb2.HeartbeatReply:
        node_id = request.node.node_id
        sighting = self.membership.heartbeat(request.node, request.incarnation)
        if sighting is not Sighting.KNOWN:
            logging.info("node %s %s", node_id, sighting.value)
            self.sessions.node_seen(node_id, request.incarnation)
        verdict = self.membership.inventory(node_id, request.inventory)
        if verdict is InventoryVerdict.APPLY:
            added, removed = prefixes(request.inventory.added), prefixes(request.inventory.removed)
            if request.inventory.full:
                self.caching.changed(self.residency.replaced(node_id, added))
            else:
                self.caching.changed(self.residency.added(node_id, added))
            if len(removed):
                self.caching.changed(self.residency.removed(node_id, removed))
        return pb2.HeartbeatReply(
            nodes=() if request.members_version == self.membership.version else self.membership.live(),
            members_version=self.membership.version,
            resend_inventory=verdict is InventoryVerdict.GAP,
            heartbeat_interval_ms=self.options.heartbeat_interval_ms,
            coordinator_incarnation=self.incarnation,
        )

    async def leave(self, node_id: str, incarnation: str) -> None:
        await self._log.writable()
        if self.membership.leave(node_id, incarnation):
            logging.info("node %s has left", node_id)
            self._node_gone(node_id)
        await self._log.synced()

    # Sessions.

    async def ticket(self, request: pb2.TicketRequest) -> str | None:
        await self._log.writable()
        dataset = self.registry.find(request.digest_id)
        if request.late:
            late_session_id = self.sessions.late_ticket(request.session_key, request.digest_id, request.provider_id)
            await self._log.synced()
            return late_session_id
        session_id = self.sessions.ticket(
            request.session_key,
            request.provider_id,
            request.repetition,
            request.restored,
            request.digest_id,
            dataset.shards,
            request.job,
            Wish(request.seed, request.homogeneous, request.order),
        )
        await self._log.synced()
        return session_id

    async def open_reader(self, request: pb2.OpenReaderRequest) -> tuple[Session, Sequence[int]]:
        await self._log.writable()
        await self._follow(request.digest_id)
        dataset = self.registry.find(request.digest_id)
        session_id = request.session_id or self.sessions.own_session(
            request.reader_id,
            request.session_key,
            request.digest_id,
            dataset.shards,
            request.job,
            Wish(request.seed, request.homogeneous, request.order),
            request.done_bitmap,
        )
        if self.sessions.session(session_id).digest_id != request.digest_id:
            raise errors.InvalidArgumentError(f"digest_id: not that of session {session_id}")
        who = ReaderRequest(request.reader_id, request.node_id, request.incarnation, request.label)
        live = self.membership.is_live(request.node_id, request.incarnation)
        opened = self.sessions.open_reader(session_id, who, request.held, live)
        self.caching.look(request.digest_id)
        await self._log.synced()
        return opened

    async def lease(self, request: pb2.LeaseRequest) -> tuple[LeaseResult, Table]:
        loop = asyncio.get_running_loop()
        give_up_at = loop.time() + request.wait_ms / 1000
        reader = self.sessions.reader(request.session_id, request.reader_id)
        digest_id = self.sessions.session(request.session_id).digest_id
        while True:
            await self._follow(digest_id)
            last = self._stopping or loop.time() >= give_up_at
            table = self.residency.table(digest_id)
            result = self._lease_now(request, reader, last)
            if last or result.state is not LeaseState.WAIT:
                self.caching.look(digest_id)
                break
            event = self._waiters.setdefault(request.session_id, asyncio.Event())
            self.caching.look(digest_id)  # may set the event
            try:
                async with asyncio.timeout_at(give_up_at):
                    await event.wait()
            except TimeoutError:
                pass
        if result.state is LeaseState.END:
            await self._log.synced()
        return result, table

    async def ack(self, request: pb2.AckRequest) -> None:
        await self._log.writable()
        self.sessions.ack(request.session_id, request.reader_id, request.shards, request.presumed)
        self.caching.look(self.sessions.session(request.session_id).digest_id)
        await self._log.synced()

    async def resume(self, request: pb2.ResumeRequest) -> pb2.ResumeReply:
        await self._log.writable()
        shards = self.registry.find(request.digest_id).shards
        position = request.position if request.HasField("position") else None
        asked = ResumeAsked(
            session_key=request.session_key, digest_id=request.digest_id, job=request.job, position=position
        )
        start = self.sessions.resume(asked, shards)
        await self._log.synced()
        if start is None:
            return pb2.ResumeReply(shards=shards)
        delivered = Bitmap.from_compressed(start.position.done_bitmap, shards).count
        return pb2.ResumeReply(resumed=True, epoch=start.position.epoch, shards=shards, delivered=delivered)

    def position(self, session_key: str) -> pb2.GetPositionReply:
        session = self.sessions.resumptions.newest_of_key(session_key)
        if session is None:
            raise errors.NotFoundError(f"session_key: nothing has been read of {session_key!r} yet")
        pending = not session.ended and not session.all_given
        return pb2.GetPositionReply(position=position_of(session), ended=session.ended, pending=pending)

    async def close_reader(self, session_id: str, reader_id: str, complete: bool) -> None:
        await self._log.writable()
        self.sessions.close_reader(session_id, reader_id, complete)
        await self._log.synced()

    # Inside.

    def _lease_now(self, request: pb2.LeaseRequest, reader: Reader, last: bool) -> LeaseResult:
        return self.sessions.lease(
            request.session_id,
            reader,
            request.sequence,
            request.max_shards,
            request.max_bytes,
            request.draining,
            last,
            request.wanted,
        )

    async def _follow(self, digest_id: bytes) -> None:
        """Makes sure that the residency of this data set is followed."""
        if digest_id in self.caching:
            return
        lock = self._opening.setdefault(digest_id, asyncio.Lock())
        try:
            async with lock:
                while digest_id not in self.caching:
                    digest = await self.registry.digest(digest_id)
                    opening = self.residency.opening()
                    try:
                        prepared = await asyncio.to_thread(self.caching.prepare, digest, opening)
                        if digest_id not in self.caching:
                            self.caching.open(opening, *prepared)
                    finally:
                        self.residency.finish(opening)
        finally:
            self._opening.pop(digest_id, None)

    def _node_gone(self, node_id: str) -> None:
        self.sessions.node_lost(node_id)
        self.caching.changed(self.residency.node_gone(node_id))

    async def _take_care(self) -> None:
        loop, pause_s = asyncio.get_running_loop(), min(1.0, self.options.node_timeout_s / 5)
        while True:
            due = loop.time() + pause_s
            await asyncio.sleep(pause_s)
            try:
                self._excuse(loop.time() - due)
                await self._give_up_lost()
                self._look_after_all()
                await self._log.synced()
            except errors.TfquiverError as error:
                logging.log_every_n_seconds(logging.ERROR, "%s", 10, error)
            except Exception:  # noqa: BLE001 - whatever it was: without this task nothing would ever expire again
                logging.exception("looking after nodes and sessions failed; the next attempt is in %g s", pause_s)

    def _excuse(self, late_s: float) -> None:
        """`late_s`: for so long the loop was held up, or the process stopped: what was sent meanwhile is yet unread."""
        if late_s > _LATE_S:
            if late_s > _LATE_WARNING_S:
                logging.warning("held up for %.1f s: nobody is given up for what was not heard in that time", late_s)
            self.membership.deaf(late_s)
            self.sessions.deaf(late_s)

    async def _give_up_lost(self) -> None:
        """One at a time: a thousand at once take a minute, in which nobody else would be served. Of those who are
        silent now: as long as it takes, the others are heard of late."""
        loop, now = asyncio.get_running_loop(), self._clock.now()
        began = loop.time()
        while lost := self.membership.expire(1, now):
            logging.warning("node %s is lost: not heard of for %g s", lost[0], self.options.node_timeout_s)
            self._node_gone(lost[0])
            await asyncio.sleep(0)
        self._excuse(loop.time() - began)

    def _look_after_all(self) -> None:
        self.sessions.expire()
        in_use = {session.digest_id for session in self.sessions if session.readers}
        self.caching.tick(in_use | self._opening.keys())

    def _journal(self, record: CommitRecord) -> None:
        self._log.append(record)

    def _snapshot(self) -> Iterable[Callable[[], Iterable[CommitRecord]]]:
        settings = list(self.caching.placement.snapshot())
        yield from (self.registry.still(), self.ownership.still(), lambda: settings)
        yield from self.sessions.still()

    def _wake_readers_of(self, digest_id: bytes) -> None:
        for session_id in list(self._waiters):
            if self.sessions.session(session_id).digest_id == digest_id:
                self._wake(session_id)

    def _wake(self, session_id: str) -> None:
        event = self._waiters.pop(session_id, None)
        if event:
            event.set()


def _locked(work_dir: Path) -> int:
    """A descriptor that holds the directory for this process."""
    try:
        work_dir.mkdir(parents=True, mode=0o700, exist_ok=True)
        lock = durable.lock_file(work_dir / "lock")
    except OSError as error:
        raise errors.InvalidArgumentError(f"work_dir {work_dir}: {error.strerror}") from error
    if not durable.try_lock(lock):
        os.close(lock)
        raise errors.AlreadyRunningError(f"work_dir {work_dir}: another coordinator holds it")
    return lock
