"""All sessions: decides, journals, then performs. Pure: clock, randomness, the log and the data sets are arguments.

Every method may be repeated. What must survive the process goes to `journal` as a CommitRecord before it takes
effect; `apply` performs one record, and is all that reading the log again does. Leases are not journaled: after a
restart each reader known from the log says what it holds, and until it has, or its grace is over, its session hands
out nothing.
"""

from __future__ import annotations

import heapq
import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tfquiver import errors
from tfquiver.clock import Clock
from tfquiver.proto.tfquiver.v1 import commit_log_pb2 as log_pb2
from tfquiver.service.coordinator.sessions.resumptions import Start, check_position
from tfquiver.service.coordinator.sessions.session import DatasetView, LeaseResult, LeaseState, Reader, Session
from tfquiver.service.coordinator.sessions.session_book import SessionBook
from tfquiver.service.coordinator.sessions.wish import Wish

MAX_READERS = 10_000
_NOTICED_S = 2.0  # from a node's time being over until its readers are gone; in all less than an iterator asks for
_FORGOTTEN_AT_ONCE = 100  # a hundredth of all
Record = log_pb2.CommitRecord


@dataclass(frozen=True, slots=True)
class SessionLimits:
    grace_s: float = 10.0  # for a reader to be heard of again after its node or the coordinator restarted
    idle_s: float = 3600.0  # an incomplete session without readers is forgotten then
    ended_s: float = 3600.0  # an ended one then: until then late tickets and readers are told END
    max_sessions: int = 20_000
    max_jobs: int = 100_000  # of which epochs are counted
    stall_s: float = 5.0  # a session without progress for so long may be held up by another one (see _may_leave)


@dataclass(frozen=True, slots=True)
class ReaderRequest:
    """Who opens. `incarnation` is the node's."""

    reader_id: str
    node_id: str
    incarnation: str
    label: str = ""


class Sessions:
    def __init__(
        self,
        clock: Clock,
        rng: random.Random,
        journal: Callable[[Record], None],
        view: Callable[[bytes], DatasetView],
        changed: Callable[[str], None] = lambda _: None,
        limits: SessionLimits | None = None,
    ) -> None:
        """`view(digest_id)`: called when a session leases. `changed(session_id)`: a reader told WAIT may ask again."""
        self._clock, self._rng, self._journal, self._view, self._changed = clock, rng, journal, view, changed
        self._limits = limits or SessionLimits()
        self._book = SessionBook(clock, self._limits.max_jobs)
        self.resumptions = self._book.resumptions

    # What readers and providers ask for.

    def ticket(
        self,
        session_key: str,
        provider_id: str,
        repetition: int,
        restored: bool,
        digest_id: bytes,
        shards: int,
        job: str,
        wish: Wish | None = None,
    ) -> str | None:
        """The session id of this ticket, or None when that session has ended."""
        name = (session_key, provider_id, repetition)
        session_id = self._book.tickets.find(name)
        if session_id:
            session = self._book.session(session_id)
            self._check_digest(session, digest_id)
        else:
            # Only its first ticket places a restored provider; after a Reset it is an epoch further, like any other.
            adopts = restored and repetition == 0
            adopted = (
                self._book.tickets.adoptable(provider_id, self._book.of_key(session_key, digest_id)) if adopts else None
            )
            start = self.resumptions.start(session_key, digest_id, restored) if not repetition and not adopted else None
            session = adopted or self._create(session_key, digest_id, shards, job, wish=wish, start=start)
            self._ticket_given(session, provider_id, repetition, adopted is not None, False)
        session.last_used = self._clock.now()
        if not session.complete:
            return session.session_id
        if not session.ended:  # of one that is read again its readers see the end
            self._end(session)
        if not self._book.tickets.end_told(session.session_id):
            self._ticket_given(session, provider_id, repetition, False, True)
        return None

    def late_ticket(self, session_key: str, digest_id: bytes, asker: str) -> str | None:
        """For a reader that came late: the session that lacks what others were lost with after its end, if any.

        A key is all that such a reader knows. Only the newest session of its key can be that of its iteration, and
        where another one has ended since that was made not even that one is certain: then nothing is given, and the
        shortfall stays what it is. (Of one that has not ended nobody has been told the end.)

        Raises UnavailableError: it is not known yet; ask again.
        """
        of_key = (session for session in self._book.of_key(session_key, digest_id) if not session.own_reader_id)
        newest = max(of_key, key=lambda session: session.number, default=None)
        if newest is None or not newest.ended or newest.alongside or newest.taken_over:
            return None
        newest.last_used = self._clock.now()
        if not newest.reopened:
            if not newest.may_fall_short:
                self._await_word_of_readers(newest, asker)
                return None
            self._commit(Record(session_reopened=log_pb2.SessionReopened(session_id=newest.session_id)))
        return newest.session_id

    def open_reader(
        self, session_id: str, request: ReaderRequest, held: Sequence[int], node_is_live: bool
    ) -> tuple[Session, list[int]]:
        """Joins an existing session. Returns it and those of `held` that the reader must drop.

        Raises NotFoundError, InvalidArgumentError (`held` has a shard that the data set has not).
        """
        session = self._not_taken_over(session_id)
        _check_shards("held", session, held)
        before = session.readers.get(request.reader_id)
        if before is None and len(session.readers) >= MAX_READERS:
            raise errors.ResourceExhaustedError(f"session {session_id} has {MAX_READERS} readers already")
        if before is None or (before.node_id, before.incarnation) != (request.node_id, request.incarnation):
            opened = log_pb2.ReaderOpened(
                session_id=session_id,
                reader_id=request.reader_id,
                node_id=request.node_id,
                incarnation=request.incarnation,
                label=request.label,
            )
            self._commit(Record(reader_opened=opened))
        now = self._clock.now()
        reader = Reader(request.reader_id, request.node_id, request.incarnation, request.label)
        reader.deadline = None if node_is_live else now + self._limits.grace_s
        reader.again = before is not None
        session.reader_opened(reader)
        dropped = session.hold(reader, held)
        session.last_used = session.last_progress = now
        self._changed(session_id)
        return session, dropped

    def own_session(
        self,
        reader_id: str,
        session_key: str,
        digest_id: bytes,
        shards: int,
        job: str,
        wish: Wish | None = None,
        done_bitmap: bytes = b"",
    ) -> str:
        """The id of the session that this reader makes for itself, made on first sight."""
        own = self._book.own(reader_id)
        if own is None:
            start = self.resumptions.start(session_key, digest_id)
            if start and done_bitmap:  # the checkpoint of an iterator knows better
                start = start.at(done_bitmap)
            session = self._create(session_key, digest_id, shards, job, reader_id, wish, done_bitmap, start)
            return session.session_id
        self._check_digest(own, digest_id)
        return own.session_id

    def resume(self, asked: log_pb2.ResumeAsked, shards: int) -> Start | None:
        """Returns where the key's next iteration would begin now; None: a new epoch. Raises InvalidArgumentError."""
        check_position(asked.position, shards)
        self._commit(Record(resume_asked=asked))
        return self.resumptions.start(asked.session_key, asked.digest_id)

    def reader(self, session_id: str, reader_id: str) -> Reader:
        """Raises NotFoundError when it must open (again), TakenOverError."""
        reader = self._not_taken_over(session_id).readers.get(reader_id)
        if reader is None or reader.leases_unknown:
            raise errors.NotFoundError(f"reader {reader_id!r} of session {session_id}: call OpenReader (again)")
        return reader

    def lease(
        self,
        session_id: str,
        reader: Reader,
        sequence: int,
        max_shards: int,
        max_bytes: int,
        draining: bool,
        last: bool,
        wanted: Sequence[int] = (),
    ) -> LeaseResult:
        """Hands out shards. A WAIT is the answer to `sequence` only when `last`; until then ask again with the same.

        Raises NotFoundError (the reader has gone, or opened again since), InvalidArgumentError (an older sequence; no
        such shard).
        """
        session = self.session(session_id)
        if session.readers.get(reader.reader_id) is not reader:
            raise errors.NotFoundError(f"reader {reader.reader_id!r} of session {session_id}: call OpenReader (again)")
        if sequence == reader.sequence and reader.reply:
            return reader.reply
        if sequence < reader.sequence:
            raise errors.InvalidArgumentError(f"sequence: {sequence} is older than {reader.sequence}")
        _check_shards("wanted", session, wanted)
        session.last_used = self._clock.now()
        shards = self._take(session, reader, max_shards, max_bytes, wanted)
        if shards:
            assert session.sampler
            session.last_progress = session.last_used
            places = tuple(map(session.sampler.place, shards))
            result = LeaseResult(LeaseState.LEASED, tuple(shards), places)
            reader.draining = False
        else:
            reader.draining = draining
            if (session.ended and not session.reopened) or session.can_end:
                self._end(session)
                result = LeaseResult(LeaseState.END)
            elif draining and self._may_leave(session, reader):
                result = LeaseResult(LeaseState.END)
            else:
                result = LeaseResult(LeaseState.WAIT)
        if last or result.state is not LeaseState.WAIT:
            reader.sequence, reader.reply = sequence, result
        return result

    def ack(self, session_id: str, reader_id: str, shards: Sequence[int], presumed: bool = False) -> None:
        """`reader_id` "": from the trainer that the readers deliver to. `presumed`: as in AckRequest.

        Raises NotFoundError, TakenOverError, InvalidArgumentError (no such shard).
        """
        session = self._not_taken_over(session_id)
        if reader_id:
            self.reader(session_id, reader_id)
        else:
            session.acked_by_trainer = True
        _check_shards("shards", session, shards)
        session.last_used = self._clock.now()
        self._ack(session, shards, presumed)

    def close_reader(self, session_id: str, reader_id: str, complete: bool) -> None:
        """Raises NotFoundError when it says `complete` and has not said, since the restart, what it holds."""
        session = self._book.get(session_id)
        reader = session.readers.get(reader_id) if session else None
        if session is None or reader is None:
            return
        if complete and reader.leases_unknown:
            raise errors.NotFoundError(f"reader {reader_id!r} of session {session_id}: call OpenReader (again)")
        told_end = reader.reply.state is LeaseState.END if reader.reply else reader.again
        if complete and (told_end or (session.ended and not session.reopened)):
            self._ack(session, sorted(reader.leases), presumed=True)
        self._gone(session, reader)

    # What happens to nodes.

    def node_seen(self, node_id: str, incarnation: str) -> None:
        """A node process is heard of for the first time: readers of an earlier one may return within their grace."""
        give_up_at = self._clock.now() + self._limits.grace_s
        for _, reader in self._book.readers_of(node_id):
            if reader.leases_unknown:
                continue
            if reader.incarnation == incarnation:
                reader.deadline = None
            elif reader.deadline is None:
                reader.deadline = give_up_at
                reader.draining = False

    def node_lost(self, node_id: str) -> None:
        for session, reader in list(self._book.readers_of(node_id)):
            self._gone(session, reader)

    def residency_changed(self, digest_id: bytes, shards: Sequence[int] | npt.NDArray[np.integer]) -> None:
        """The residency table of a data set has changed for these shards; they are not changed afterwards."""
        for session in self._book.of_digest(digest_id):
            if session.sampler:
                session.sampler.residency_changed(shards)

    def samplers_anew(self, digest_id: bytes) -> None:
        """The data set is cached in another way from now on."""
        for session in self._book.of_digest(digest_id):
            if session.readers:
                session.drop_sampler()
                self._changed(session.session_id)

    def deaf(self, seconds: float) -> None:
        """For so long nobody could be heard: it counts against no reader's time to come back."""
        for session in self._book:
            for reader in session.readers.values():
                if reader.deadline is not None:
                    reader.deadline += seconds

    def expire(self) -> None:
        """Gives up on readers whose deadline is over, and forgets sessions that nobody reads. Call it now and then."""
        now = self._clock.now()
        for session in list(self._book):
            for reader in list(session.readers.values()):
                if reader.deadline is not None and reader.deadline <= now:
                    self._gone(session, reader)
            keep_s = self._limits.ended_s if session.ended else self._limits.idle_s
            if not session.readers and session.last_used + keep_s <= now:
                self._forget(session)

    # What is known.

    def __iter__(self) -> Iterator[Session]:
        """Oldest first."""
        return iter(self._book)

    def session(self, session_id: str) -> Session:
        """Raises NotFoundError."""
        return self._book.session(session_id)

    def of_key(self, session_key: str) -> list[Session]:
        """Oldest first."""
        return self._book.of_key(session_key)

    def idle_s(self, session: Session) -> float:
        """Since somebody asked for it, or left it."""
        return self._clock.now() - session.last_used

    # The log.

    def apply(self, record: Record) -> None:
        """Performs one decision."""
        self._book.apply(record)

    def restored(self) -> None:
        """The log has been read: from now on readers have their grace to come back and say what they hold."""
        now = self._clock.now()
        for session in self._book:
            session.last_used = now
            for reader in session.readers.values():
                reader.leases_unknown = True
                reader.deadline = now + self._limits.grace_s

    def still(self) -> Iterator[Callable[[], Iterable[Record]]]:
        """See SessionBook."""
        return self._book.still()

    def snapshot(self) -> Iterator[Record]:
        """Records that bring an empty object here."""
        for records in self.still():
            yield from records()

    # Inside.

    def _commit(self, record: Record) -> None:
        self._journal(record)
        self._book.apply(record)

    def _create(
        self,
        session_key: str,
        digest_id: bytes,
        shards: int,
        job: str,
        own_reader_id: str = "",
        wish: Wish | None = None,
        done_bitmap: bytes = b"",
        start: Start | None = None,
    ) -> Session:
        wish = wish or Wish()
        epoch = start.position.epoch if start else self._book.epochs(job or session_key, digest_id)
        order = wish.fixed(epoch)
        if len(self._book) >= self._limits.max_sessions:
            self._make_room()
        created = log_pb2.SessionCreated(
            session_id=f"{self._rng.getrandbits(64):016x}",
            session_key=session_key,
            digest_id=digest_id,
            job=job,
            epoch=epoch,
            shards=shards,
            seed=wish.seed or self._rng.getrandbits(63) + 1,
            own_reader_id=own_reader_id,
            done_bitmap=done_bitmap,
            homogeneous=wish.homogeneous,
            order=order,
        )
        if start:
            start.apply(created)
        Session(created, 0, 0.0)  # refuses a wrong bitmap before anything is written
        self._commit(Record(session_created=created))
        if created.takes_over:
            self._changed(created.takes_over)
        return self._book.session(created.session_id)

    def forget_data_set(self, digest_id: bytes) -> list[str]:
        """Whoever reads it will not find the session any more. Returns the ids of its sessions."""
        gone = self._book.of_digest(digest_id)
        for session in gone:
            self._forget(session)
        return [session.session_id for session in gone]

    def _make_room(self) -> None:
        """Forgets some sessions that nobody reads: ended ones first, then those left alone for the longest, as of
        scripts that only look at a first batch. Some at a time, for to find them all sessions are looked at.

        Raises ResourceExhaustedError when all are being read.
        """
        unread = [session for session in self._book if not session.readers]
        if not unread:
            raise errors.ResourceExhaustedError(f"{len(self._book)} sessions are open already")
        some = 1 + self._limits.max_sessions // _FORGOTTEN_AT_ONCE
        for session in heapq.nsmallest(some, unread, key=lambda s: (not s.ended, s.last_used, s.number)):
            self._forget(session)

    def _forget(self, session: Session) -> None:
        self._commit(Record(session_forgotten=log_pb2.SessionForgotten(session_id=session.session_id)))

    def _ticket_given(self, session: Session, provider_id: str, repetition: int, adopted: bool, end: bool) -> None:
        given = log_pb2.TicketGiven(
            session_id=session.session_id, provider_id=provider_id, repetition=repetition, adopted=adopted, end=end
        )
        self._commit(Record(ticket_given=given))

    def _await_word_of_readers(self, session: Session, asker: str) -> None:
        """While one of those that hold something now could be lost without anybody knowing it yet: each asker waits
        for itself, for a reader may have been lost since another one was told that none was.

        Raises UnavailableError.
        """
        now, known_s, asked = self._clock.now(), self._limits.grace_s + _NOTICED_S, session.asked_late
        first = asked.setdefault(asker, now)
        if session.leased_shards and now - first < known_s:
            while len(asked) > MAX_READERS or now - next(iter(asked.values())) > 2 * known_s:  # who asks no more
                del asked[next(iter(asked))]
            raise errors.UnavailableError(f"session {session.session_id}: its readers may yet be lost")
        del asked[asker]

    def _take(
        self, session: Session, reader: Reader, max_shards: int, max_bytes: int, wanted: Sequence[int]
    ) -> list[int]:
        if not session.gives_out or session.waits_for_readers:
            return []
        view = self._view(session.digest_id)
        if session.sampler is None:
            session.sampler = view.sampler(session, session.draws())
        if session.sampler is None:
            return []
        return session.lease(reader, max_shards, max_bytes, view, wanted)

    def _may_leave(self, session: Session, reader: Reader) -> bool:
        """Whether a reader that has emitted all it was given should go before the session has ended.

        Where a tf.data worker reads several data sets in one pipeline (zip, sample_from_datasets), its pipeline may
        wait here for shards that are in the pool of another worker, which in turn waits for shards of another data set
        that are in the pool of this one: for ever. Who is told END first lets its pipeline go on, or end and give back.
        """
        if not reader.label or not session.all_given or not self._stalled(session):
            return False
        held_up = [
            other
            for other in self._book
            if other is not session and (other.reopened or not other.ended) and self._stalled(other)
            if any(beside.label == reader.label and beside.leases for beside in other.readers.values())
        ]
        for stalled in (session, *held_up) if held_up else ():
            stalled.last_progress = self._clock.now()  # one at a time: the others may now go on
        session.counters.left_early += bool(held_up)
        return bool(held_up)

    def _stalled(self, session: Session) -> bool:
        return session.last_progress + self._limits.stall_s <= self._clock.now()

    def _ack(self, session: Session, shards: Iterable[int], presumed: bool) -> None:
        fresh = session.not_acked(shards, presumed)
        if fresh:
            session.last_progress = self._clock.now()
            acked = log_pb2.ShardsAcked(session_id=session.session_id, shards=fresh, counters=session.counters)
            acked.presumed = presumed
            self._commit(Record(shards_acked=acked))
            if session.can_end:
                self._changed(session.session_id)

    def _gone(self, session: Session, reader: Reader) -> None:
        gone = log_pb2.ReaderGone(session_id=session.session_id, reader_id=reader.reader_id)
        self._commit(Record(reader_gone=gone))
        session.last_used = session.last_progress = self._clock.now()
        self._changed(session.session_id)

    def _end(self, session: Session) -> None:
        if session.reopened or not session.ended:
            self._commit(Record(session_ended=log_pb2.SessionEnded(session_id=session.session_id)))
            self._changed(session.session_id)

    def _not_taken_over(self, session_id: str) -> Session:
        session = self.session(session_id)
        if session.taken_over:
            raise errors.TakenOverError(
                f"another client of job {session.job!r} goes on with epoch {session.epoch} (session {session_id}): "
                "this one has no more part in it; two runs at a time need two job names"
            )
        return session

    def _check_digest(self, session: Session, digest_id: bytes) -> None:
        if session.digest_id != digest_id:
            raise errors.InvalidArgumentError(
                f"digest_id: session {session.session_id} reads {session.digest_id.hex()}, not {digest_id.hex()}"
            )


def _check_shards(field: str, session: Session, shards: Sequence[int]) -> None:
    wrong = next((shard for shard in shards if shard >= session.shards), None)
    if wrong is not None:
        raise errors.InvalidArgumentError(f"{field}: no shard {wrong} in a data set of {session.shards}")
