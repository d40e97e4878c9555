"""Which session a provider or a reader has part in: found, adopted, gone on with, or made. Pure."""

from __future__ import annotations

import heapq
import random
from dataclasses import dataclass

from tfquiver import errors
from tfquiver.messages_and_binary_formats.drawn_shards import KEY_MARK
from tfquiver.proto.tfquiver.v1 import commit_log_pb2 as log_pb2
from tfquiver.proto.tfquiver.v1 import types_pb2
from tfquiver.service.coordinator.samplers_and_orders_of_an_epochs_shards.block_order import epoch_of
from tfquiver.service.coordinator.samplers_and_orders_of_an_epochs_shards.wish import Wish
from tfquiver.service.coordinator.sessions.decisions import Decisions
from tfquiver.service.coordinator.sessions.session import Session
from tfquiver.service.coordinator.sessions.session_book import Record
from tfquiver.service.coordinator.sessions.which_session_a_reader_joins.resumptions import Start, check_position
from tfquiver.sizes_durations_amounts.amounts import many

_NOTICED_S = 2.0  # from a node's time being over until its readers are gone; in all less than an iterator asks for
_FORGOTTEN_AT_ONCE = 100  # a hundredth of all
_MAX_ASKERS = 10_000


@dataclass(frozen=True, slots=True)
class Epoch:
    epoch: int
    seed: int


@dataclass(frozen=True, slots=True)
class Drawn:
    """What has been drawn for an epoch."""

    epoch: int
    shards: types_pb2.DrawnShards


class Admission:
    def __init__(self, decisions: Decisions, rng: random.Random) -> None:
        """`rng`: a session's id lets whoever knows it read along: nobody may foresee what it gives."""
        self._decisions, self._book, self._rng = decisions, decisions.book, rng

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
        joins: bool = False,
        drawn: Drawn | None = None,
    ) -> str | None:
        """The session id of this ticket, or None when that session has ended. `joins`: as in TicketRequest; `drawn`: as
        in `own_session`."""
        name = (session_key, provider_id, repetition)
        session_id = self._book.tickets.find(name)
        if session_id:
            session = self._book.session(session_id)
            _check_digest(session, digest_id)
        else:
            # Only its first ticket places a restored provider; after a Reset it is an epoch further, like any other.
            adopts = (restored or joins) and repetition == 0
            iterations = self._book.iterations(session_key, digest_id) if adopts else ()
            adopted = self._book.tickets.adoptable(provider_id, iterations, ended=not joins)
            start = None
            if not repetition and not adopted:
                start = self._book.resumptions.start(session_key, digest_id, restored)
            session = adopted or self._create(session_key, digest_id, shards, job, wish=wish, start=start, drawn=drawn)
            self._ticket_given(session, provider_id, repetition, adopted is not None, False)
        session.last_used = self._decisions.now()
        if not session.complete:
            return session.session_id
        if not session.ended:  # of one that is read again its readers see the end
            self._decisions.end(session)
        if not self._book.tickets.end_told(session.session_id):
            self._ticket_given(session, provider_id, repetition, False, True)
        return None

    def late_ticket(self, session_key: str, digest_id: bytes, asker: str) -> str | None:
        """For a reader that came late: the session that lacks what others were lost with after its end, if any.

        A key is all that such a reader knows. Only the newest iteration of it (see SessionBook) can be its own, and
        where another one has ended since that was made not even that one is certain: then nothing is given, and the
        shortfall stays what it is. (Of one that has not ended nobody has been told the end.)

        Raises UnavailableError: it is not known yet; ask again.
        """
        newest = self._book.newest(session_key, digest_id)
        if newest is None or not newest.ended or newest.alongside or newest.taken_over:
            return None
        newest.last_used = self._decisions.now()
        if not newest.reopened:
            if not newest.may_fall_short:
                self._await_word_of_readers(newest, asker)
                return None
            self._decisions.commit(Record(session_reopened=log_pb2.SessionReopened(session_id=newest.session_id)))
        return newest.session_id

    def own_session(
        self,
        reader_id: str,
        session_key: str,
        digest_id: bytes,
        shards: int,
        job: str,
        wish: Wish | None = None,
        done_bitmap: bytes = b"",
        drawn: Drawn | None = None,
    ) -> str:
        """The id of the session that this reader makes for itself, made on first sight. `drawn`: what it is to read, if
        it is made now and its key is sampled; as `to_draw` has said."""
        own = self._book.own(reader_id)
        if own is None:
            start = self._book.resumptions.start(session_key, digest_id)
            if start and done_bitmap:  # the checkpoint of an iterator knows better
                start = start.at(done_bitmap)
            session = self._create(session_key, digest_id, shards, job, reader_id, wish, done_bitmap, start, drawn)
            return session.session_id
        _check_digest(own, digest_id)
        return own.session_id

    def has_own(self, reader_id: str) -> bool:
        """Whether `own_session` would make none."""
        return self._book.own(reader_id) is not None

    def has_ticket(self, session_key: str, provider_id: str, repetition: int) -> bool:
        """Whether `ticket` would make none."""
        return bool(self._book.tickets.find((session_key, provider_id, repetition)))

    def to_draw(self, session_key: str, digest_id: bytes, job: str, seed: int, order_seed: int = 0) -> Epoch | None:
        """The epoch of the next session of a key that is sampled. None: it goes on with what another one has drawn.

        Args:
          order_seed: of the checkpoint that it is restored from: only one epoch of the seed has it. 0: it is new.

        Raises InvalidArgumentError.
        """
        if not seed:
            raise errors.InvalidArgumentError("seed: a sampled data set needs one")
        if order_seed:
            return Epoch(epoch_of(seed, order_seed), seed)
        start = self._book.resumptions.start(session_key, digest_id)
        if start is None:
            return Epoch(self._book.epochs(job or session_key, digest_id), seed)
        return None if start.takes_over else Epoch(start.position.epoch, start.position.seed or seed)

    def resume(self, asked: log_pb2.ResumeAsked, shards: int) -> Start | None:
        """Returns where the key's next iteration would begin now; None: a new epoch. Raises InvalidArgumentError."""
        check_position(asked.position, shards)
        self._decisions.commit(Record(resume_asked=asked))
        return self._book.resumptions.start(asked.session_key, asked.digest_id)

    # Making.

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
        drawn: Drawn | None = None,
    ) -> Session:
        wish = wish or Wish()
        epoch = start.position.epoch if start else self._book.epochs(job or session_key, digest_id)
        order = wish.fixed(epoch)
        if not drawn and start and start.takes_over:  # it goes on with that epoch, however the key is sampled now
            before = self._book.session(start.takes_over)
            drawn = Drawn(epoch, before.drawn) if before.sampled else None
        elif not drawn and KEY_MARK in session_key:  # what it was to go on with has gone meanwhile
            raise errors.UnavailableError(f"session_key: nothing has been drawn for {session_key} yet")
        if drawn:
            if wish.homogeneous or (order and (order.deterministic or order.files)):
                raise errors.InvalidArgumentError("order: a sampled data set has no order but its scheme's")
            epoch, shards = drawn.epoch, drawn.shards.draws
        if len(self._book) >= self._decisions.limits.max_sessions:
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
            drawn=drawn.shards if drawn else None,
            up_ms=self._decisions.up_ms(),
        )
        if start:
            start.apply(created)
            created.epoch = epoch
        Session(created, 0, 0.0)  # refuses a wrong bitmap before anything is written
        self._decisions.commit(Record(session_created=created))
        if created.takes_over:
            self._decisions.changed(created.takes_over)
        return self._book.session(created.session_id)

    def _make_room(self) -> None:
        """Forgets some sessions that nobody reads: ended ones first, then those left alone for the longest, as of
        scripts that only look at a first batch. Some at a time, for to find them all sessions are looked at.

        Raises ResourceExhaustedError when all are being read.
        """
        unread = [session for session in self._book if not session.readers]
        if not unread:
            raise errors.ResourceExhaustedError(f"{many(len(self._book), 'session is', 'sessions are')} open already")
        some = 1 + self._decisions.limits.max_sessions // _FORGOTTEN_AT_ONCE
        for session in heapq.nsmallest(some, unread, key=lambda s: (not s.ended, s.last_used, s.number)):
            self._decisions.forget(session)

    # Inside.

    def _ticket_given(self, session: Session, provider_id: str, repetition: int, adopted: bool, end: bool) -> None:
        given = log_pb2.TicketGiven(
            session_id=session.session_id, provider_id=provider_id, repetition=repetition, adopted=adopted, end=end,
            up_ms=self._decisions.up_ms(),
        )  # fmt: skip
        self._decisions.commit(Record(ticket_given=given))

    def _await_word_of_readers(self, session: Session, asker: str) -> None:
        """While one of those that hold something now could be lost without anybody knowing it yet: each asker waits
        for itself, for a reader may have been lost since another one was told that none was.

        Raises UnavailableError.
        """
        now, known_s, asked = self._decisions.now(), self._decisions.limits.grace_s + _NOTICED_S, session.asked_late
        first = asked.setdefault(asker, now)
        if session.leased_shards and now - first < known_s:
            while len(asked) > _MAX_ASKERS or now - next(iter(asked.values())) > 2 * known_s:  # who asks no more
                del asked[next(iter(asked))]
            raise errors.UnavailableError(f"session {session.session_id}: its readers may yet be lost")
        del asked[asker]


def _check_digest(session: Session, digest_id: bytes) -> None:
    if session.digest_id != digest_id:
        raise errors.InvalidArgumentError(
            f"digest_id: session {session.session_id} reads {session.digest_id.hex()}, not {digest_id.hex()}"
        )
