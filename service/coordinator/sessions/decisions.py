"""What the parts of `Sessions` decide with: the book, the log and the clock; and the decisions that several take. Pure.

What must survive the process goes to the log as a CommitRecord before it takes effect in the book, in `commit` alone.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tfquiver import errors
from tfquiver.clock import Clock
from tfquiver.proto.tfquiver.v1 import commit_log_pb2 as log_pb2
from tfquiver.service.coordinator.sessions.given_back import GivenBack
from tfquiver.service.coordinator.sessions.session import Reader, Session
from tfquiver.service.coordinator.sessions.session_book import Record, SessionBook


@dataclass(frozen=True, slots=True)
class SessionLimits:
    grace_s: float = 10.0  # for a reader to be heard of again after its node or the coordinator restarted
    idle_s: float = 3600.0  # an incomplete session without readers is forgotten then
    ended_s: float = 3600.0  # an ended one then: until then late tickets and readers are told END
    max_sessions: int = 20_000
    max_jobs: int = 100_000  # of which epochs are counted
    stall_s: float = 5.0  # a session without progress for so long may be held up by another one (see EarlyLeaving)


class Decisions:
    """Args:
    journal: takes what has been decided; a reply must wait until that is durable.
    changed: told the id of a session whose readers, told WAIT, may ask again.
    called: gives a data set's name, for people.
    """

    def __init__(
        self,
        clock: Clock,
        journal: Callable[[Record], None],
        changed: Callable[[str], None],
        limits: SessionLimits,
        called: Callable[[bytes], str] = bytes.hex,
    ) -> None:
        self._clock, self._journal, self.changed, self.limits = clock, journal, changed, limits
        self.given_back = GivenBack(clock, called)
        self.book = SessionBook(clock, limits.max_jobs)
        # `up_ms` of the log at this time of the clock. At 0 it would not be known.
        self._up_at, self._up_ms = clock.now(), 1

    def now(self) -> float:
        return self._clock.now()

    def restored(self) -> None:
        """The log has been read."""
        self._up_at, self._up_ms = self._clock.now(), max(1, self.book.up_ms)

    def up_ms(self, at: float | None = None) -> int:
        """For how long coordinators of this log have been up at a time of the clock; None: now."""
        return max(1, self._up_ms + round(1000 * ((self._clock.now() if at is None else at) - self._up_at)))

    def time_of(self, up_ms: int) -> float:
        """On the clock."""
        return self._up_at - (self._up_ms - up_ms) / 1000

    def note_time(self, least_ms: int = 0) -> None:
        """Where none is in the log that is younger than that."""
        if (up_ms := self.up_ms()) >= self.book.up_ms + max(1, least_ms):
            self.commit(Record(time_passed=log_pb2.TimePassed(up_ms=up_ms)))

    def commit(self, record: Record) -> None:
        self._journal(record)
        self.book.apply(record)

    def reader_gone(self, session: Session, reader: Reader, why: str = "") -> None:
        """`why`: others read again what it held, who reads is told; empty: nobody need be."""
        if why:
            self.given_back.note(session, len(reader.leases), why, unknown=reader.leases_unknown)
        gone = log_pb2.ReaderGone(session_id=session.session_id, reader_id=reader.reader_id, up_ms=self.up_ms())
        self.commit(Record(reader_gone=gone))
        session.last_used = session.last_progress = self.now()
        self.changed(session.session_id)

    def end(self, session: Session) -> None:
        if session.reopened or not session.ended:
            ended = log_pb2.SessionEnded(session_id=session.session_id, up_ms=self.up_ms())
            self.commit(Record(session_ended=ended))
            self.changed(session.session_id)

    def forget(self, session: Session) -> None:
        self.commit(Record(session_forgotten=log_pb2.SessionForgotten(session_id=session.session_id)))

    def not_taken_over(self, session_id: str) -> Session:
        """Raises NotFoundError, TakenOverError."""
        session = self.book.session(session_id)
        if session.taken_over:
            raise errors.TakenOverError(
                f"another client of job {session.job!r} goes on with epoch {session.epoch} (session {session_id}): "
                "this one has no more part in it; two runs at a time need two job names"
            )
        return session
