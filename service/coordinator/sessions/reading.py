"""Who reads: tickets, readers, leases that are waited for, resuming. Durable before it is said."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence, Set

from tfquiver import errors
from tfquiver.digests.digest import Digest
from tfquiver.messages_and_binary_formats import drawn_shards
from tfquiver.proto.tfquiver.v1 import coordinator_pb2 as pb2
from tfquiver.proto.tfquiver.v1.commit_log_pb2 import ResumeAsked
from tfquiver.service.coordinator.bandwidth_budgets.budgets import Budgets
from tfquiver.service.coordinator.commit_log.commit_log import CommitLog
from tfquiver.service.coordinator.dataset_caching.caching import Caching
from tfquiver.service.coordinator.long_polls.readers import Waiting
from tfquiver.service.coordinator.nodes_mounts_dispatchers.membership import Membership
from tfquiver.service.coordinator.registering_sharing_removing_datasets.registry import Registry
from tfquiver.service.coordinator.resident_shards.table import Table
from tfquiver.service.coordinator.sampled_sessions_and_uploaded_weights.samplings import Samplings
from tfquiver.service.coordinator.samplers_and_orders_of_an_epochs_shards.wish import Wish
from tfquiver.service.coordinator.sessions.bitmap import Bitmap
from tfquiver.service.coordinator.sessions.lease import LeaseResult, LeaseState
from tfquiver.service.coordinator.sessions.readers import ReaderRequest
from tfquiver.service.coordinator.sessions.session import Reader, Session
from tfquiver.service.coordinator.sessions.sessions import Sessions
from tfquiver.service.coordinator.sessions.which_session_a_reader_joins.resumptions import position_of
from tfquiver.sizes_durations_amounts.amounts import many

# Calls of all readers together that bring acknowledgements only: each takes about half a millisecond of a core.
_ACK_CALLS_PER_S = 200
_LONGEST_ACK_MS = 5000
# Of the time that readers keep them, and who brings them waits for nothing else: of a thousand readers' each had a sync
# of its own, which costs as much as they do.
_ACK_SYNC_SHARE = 0.01


class Reading:
    def __init__(
        self,
        log: CommitLog,
        registry: Registry,
        membership: Membership,
        caching: Caching,
        sessions: Sessions,
        waiting: Waiting,
        budgets: Budgets,
        samplings: Samplings,
    ) -> None:
        self._samplings = samplings
        self._log, self._registry, self._membership = log, registry, membership
        self._caching, self._sessions, self._waiting = caching, sessions, waiting
        self._residency, self._budgets = caching.residency, budgets
        self._opening: dict[bytes, asyncio.Task[None]] = {}
        self._preparing = asyncio.Lock()
        self._stopping = False

    @property
    def opening(self) -> Set[bytes]:
        """The data sets that somebody waits to read of."""
        return self._opening.keys()

    def release_waiters(self) -> None:
        """Leases that wait are answered at once, from now on."""
        self._stopping = True
        self._waiting.wake_all()

    async def stop(self) -> None:
        """Nobody waits for data sets any more that are being opened."""
        opening = list(self._opening.values())
        for task in opening:
            task.cancel()
        await asyncio.gather(*opening, return_exceptions=True)

    async def ticket(self, request: pb2.TicketRequest) -> str | None:
        await self._log.writable()
        dataset = self._registry.find(request.digest_id)
        if request.late:
            late_session_id = self._sessions.admission.late_ticket(
                request.session_key, request.digest_id, request.provider_id
            )
            await self._log.synced()
            return late_session_id
        session_id = self._sessions.admission.ticket(
            request.session_key,
            request.provider_id,
            request.repetition,
            request.restored,
            request.digest_id,
            dataset.shards,
            request.job,
            Wish(request.seed, request.homogeneous, request.order),
            request.joins,
            await self._samplings.drawn(request),
        )
        await self._log.synced()
        return session_id

    async def open_reader(self, request: pb2.OpenReaderRequest) -> tuple[Session, Sequence[int]]:
        await self._log.writable()
        await self._follow(request.digest_id)
        dataset = self._registry.find(request.digest_id)
        drawn = None if request.session_id else await self._samplings.drawn(request)
        session_id = request.session_id or self._sessions.admission.own_session(
            request.reader_id,
            request.session_key,
            request.digest_id,
            dataset.shards,
            request.job,
            Wish(request.seed, request.homogeneous, request.order),
            request.done_bitmap,
            drawn,
        )
        joined = self._sessions.session(session_id)
        if joined.digest_id != request.digest_id:
            raise errors.InvalidArgumentError(f"digest_id: not that of session {session_id}")
        if joined.sampled and not request.knows_draws:
            raise errors.InvalidArgumentError(
                f"session {session_id} is sampled ({joined.drawn.scheme}), and node {request.node_id} is too old for "
                "that: start it again with this version"
            )
        if joined.drawn.HasField("picks") and not request.knows_picks:
            raise errors.InvalidArgumentError(
                f"session {session_id} is of records by weight, and node {request.node_id} is too old for that: start "
                "it again with this version"
            )
        most_draws = request.most_draws or drawn_shards.MOST_DRAWS_EARLIER
        if joined.drawn.draws > most_draws:
            raise errors.InvalidArgumentError(
                f"session {session_id} has {many(joined.drawn.draws, 'draw')}, and node {request.node_id} is too old "
                f"for more than {most_draws}: start it again with this version"
            )
        if joined.sampled and joined.settled_acked is None:  # else it gives nothing out any more
            await self._samplings.draws_of(joined)
        who = ReaderRequest(request.reader_id, request.node_id, request.incarnation, request.label, request.in_turn)
        live = self._membership.is_live(request.node_id, request.incarnation)
        opened = self._sessions.readers.open(session_id, who, request.held, live)
        session = opened[0]
        if self._budgets.in_use and session.gives_out and session.digest_id in self._caching.loaded_ahead:
            self._budgets.opened(session.digest_id, session.pays)
        self._caching.look(request.digest_id)
        await self._log.synced()
        return opened

    async def lease(self, request: pb2.LeaseRequest) -> tuple[LeaseResult, Table]:
        loop = asyncio.get_running_loop()
        give_up_at = loop.time() + request.wait_ms / 1000
        reader = self._sessions.readers.find(request.session_id, request.reader_id)
        session = self._sessions.session(request.session_id)
        digest_id, pays = session.digest_id, session.pays
        if session.sampled and not session.draws_known and session.settled_acked is None:
            await self._samplings.draws_of(session)
        if request.acked:
            await self._log.writable()
            self._sessions.readers.ack(request.session_id, request.reader_id, request.acked)
        while True:
            await self._follow(digest_id)
            if not self._log.is_trusted():  # leases are not in the log: one who has been replaced would give them
                await self._log.trusted()
                continue
            last = self._stopping or bool(request.acked) or loop.time() >= give_up_at
            table = self._residency.table(digest_id)
            result = self._lease_now(request, reader, last)
            if last or result.state is not LeaseState.WAIT:
                self._caching.look(digest_id)
                break
            event = self._waiting.event(request.session_id, digest_id)
            self._caching.look(digest_id)  # may set the event
            pause_s = self._budgets.pause_s(pays)
            ask_again_at = give_up_at if pause_s is None else min(give_up_at, loop.time() + pause_s)
            try:
                async with asyncio.timeout_at(ask_again_at):
                    await event.wait()
            except TimeoutError:
                pass
        if request.acked or result.state is LeaseState.END:
            await self._log.synced()
        return result, table

    async def ack(self, request: pb2.AckRequest) -> None:
        await self._log.writable()
        self._sessions.readers.ack(request.session_id, request.reader_id, request.shards, request.presumed)
        self._caching.look(self._sessions.session(request.session_id).digest_id)
        await self._log.synced(_ACK_SYNC_SHARE * self.ack_within_ms() / 1000)

    def ack_within_ms(self) -> int:
        """How long a reader may keep acknowledgements that no lease takes along."""
        return min(_LONGEST_ACK_MS, 1000 * self._sessions.open_readers // _ACK_CALLS_PER_S)

    async def resume(self, request: pb2.ResumeRequest) -> pb2.ResumeReply:
        await self._log.writable()
        shards = self._registry.find(request.digest_id).shards
        position = request.position if request.HasField("position") else None
        asked = ResumeAsked(
            session_key=request.session_key, digest_id=request.digest_id, job=request.job, position=position
        )
        start = self._sessions.admission.resume(asked, shards)
        await self._log.synced()
        if start is None:
            return pb2.ResumeReply(shards=shards)
        if start.takes_over:  # which may be of draws
            shards = self._sessions.session(start.takes_over).shards
        delivered = Bitmap.from_compressed(start.position.done_bitmap, shards).count
        return pb2.ResumeReply(resumed=True, epoch=start.position.epoch, shards=shards, delivered=delivered)

    def position(self, session_key: str) -> pb2.GetPositionReply:
        session = self._sessions.resumptions.newest_of_key(session_key)
        if session is None:
            raise errors.NotFoundError(f"session_key: nothing has been read of {session_key!r} yet")
        pending = not session.ended and not session.all_given
        return pb2.GetPositionReply(position=position_of(session), ended=session.ended, pending=pending)

    async def close_reader(self, session_id: str, reader_id: str, complete: bool) -> None:
        await self._log.writable()
        if digest_id := self._sessions.readers.close(session_id, reader_id, complete):
            self._caching.look(digest_id)  # others may read something else now, and less is to be loaded
        await self._log.synced()

    # Inside.

    def _lease_now(self, request: pb2.LeaseRequest, reader: Reader, last: bool) -> LeaseResult:
        return self._sessions.readers.lease(
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
        """Makes sure that the residency of this data set is followed. Who is not waited for any more leaves the work to
        the others: to those who ask again it would never be done, were it thrown away each time."""
        while digest_id not in self._caching:
            if digest_id not in self._opening:
                self._opening[digest_id] = asyncio.create_task(self._open(digest_id))
            await asyncio.shield(self._opening[digest_id])

    async def _open(self, digest_id: bytes) -> None:
        try:
            digest = await self._registry.digest(digest_id)
            async with self._preparing:
                await self._prepare(digest)
        finally:
            del self._opening[digest_id]

    async def _prepare(self, digest: Digest) -> None:
        """One data set at a time: of threads that are in the interpreter together the loop has to wait for each."""
        for _ in self._residency.merge():
            await asyncio.sleep(0)
        opening = self._residency.opening()
        try:
            prepared = await asyncio.to_thread(self._caching.prepare, digest, opening)
            for _ in self._residency.catch_up(prepared[0], opening):
                await asyncio.sleep(0)
            if digest.digest_id not in self._caching:
                self._caching.open(opening, *prepared)
        finally:
            self._residency.finish(opening)
