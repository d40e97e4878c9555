"""The sessions there are, by all that they are found by. Performs records; others decide on them. Pure."""

from __future__ import annotations

import functools
from collections.abc import Callable, Hashable, Iterable, Iterator
from typing import TypeVar

from tfquiver import errors
from tfquiver.clock import Clock
from tfquiver.proto.tfquiver.v1 import commit_log_pb2 as log_pb2
from tfquiver.service.coordinator.sessions.session import Reader, Session
from tfquiver.service.coordinator.sessions.session_records import settled_records, still
from tfquiver.service.coordinator.sessions.which_session_a_reader_joins.resumptions import Resumptions
from tfquiver.service.coordinator.sessions.which_session_a_reader_joins.tickets import Tickets

Record = log_pb2.CommitRecord
K = TypeVar("K", bound=Hashable)


class SessionBook:
    def __init__(self, clock: Clock, max_jobs: int) -> None:
        """`max_jobs`: of so many the epochs are counted, of those that were heard of last."""
        self._clock, self._max_jobs = clock, max_jobs
        self._sessions: dict[str, Session] = {}
        self._by_key: dict[str, dict[str, Session]] = {}
        self._iterations: dict[tuple[str, bytes], dict[str, Session]] = {}
        self._by_digest: dict[bytes, dict[str, Session]] = {}
        self._read: dict[str, Session] = {}  # all that have readers, and some that had
        # The same by node, and the nodes of each: a thousand were looked through for each of a thousand nodes that came
        # back together.
        self._by_node: dict[str, dict[str, Session]] = {}
        self._nodes_of: dict[str, set[str]] = {}
        self._own: dict[str, str] = {}  # reader id -> the session it made for itself
        self._epochs: dict[tuple[str, bytes], int] = {}
        self.up_ms = 0  # the highest in the log: so long coordinators of it have been up, as far as is known
        self.tickets = Tickets()
        self.resumptions = Resumptions(self._sessions)
        self._count = 0

    def __iter__(self) -> Iterator[Session]:
        """Oldest first."""
        return iter(self._sessions.values())

    def session(self, session_id: str) -> Session:
        try:
            return self._sessions[session_id]
        except KeyError:
            raise errors.NotFoundError(f"no session {session_id!r}: it may have expired") from None

    def __len__(self) -> int:
        return len(self._sessions)

    def get(self, session_id: str) -> Session | None:
        return self._sessions.get(session_id)

    def own(self, reader_id: str) -> Session | None:
        """The session that this reader has made for itself."""
        session_id = self._own.get(reader_id)
        return self._sessions[session_id] if session_id else None

    def epochs(self, job: str, digest_id: bytes) -> int:
        """How many there have been."""
        return self._epochs.get((job, digest_id), 0)

    def of_digest(self, digest_id: bytes) -> list[Session]:
        """Oldest first."""
        return list(self._by_digest.get(digest_id, {}).values())

    def read(self) -> list[Session]:
        """Those that have readers: of twenty thousand that are remembered a thousand."""
        for session_id in [session_id for session_id, session in self._read.items() if not session.readers]:
            del self._read[session_id]
        return list(self._read.values())

    def readers_of(self, node_id: str) -> Iterator[tuple[Session, Reader]]:
        for session in list(self._by_node.get(node_id, {}).values()):
            its = [reader for reader in session.readers.values() if reader.node_id == node_id]
            if not its:
                self._left(session.session_id, node_id)
            for reader in its:
                yield session, reader

    def of_key(self, session_key: str) -> list[Session]:
        """Oldest first."""
        return list(self._by_key.get(session_key, {}).values())

    def iterations(self, session_key: str, digest_id: bytes) -> list[Session]:
        """The sessions of a key that readers join with a ticket, oldest first: those that no reader made for itself."""
        return list(self._iterations.get((session_key, digest_id), {}).values())

    def newest(self, session_key: str, digest_id: bytes) -> Session | None:
        """Of those iterations: the only one that a reader who comes late may belong to."""
        iterations = self._iterations.get((session_key, digest_id))
        return next(reversed(iterations.values())) if iterations else None

    # The log.

    def apply(self, record: Record) -> None:
        """Performs one decision."""
        kind = record.WhichOneof("record")
        if kind == "session_created":
            self._session_created(record.session_created)
            self._used(record.session_created.session_id, record.session_created.up_ms)
        elif kind == "ticket_given":
            given = record.ticket_given
            key = self._sessions[given.session_id].session_key
            name = (key, given.provider_id, given.repetition)
            self.tickets.given(name, given.session_id, given.adopted, given.end)
            self._used(given.session_id, given.up_ms)
        elif kind == "reader_opened":
            opened = record.reader_opened
            reader = Reader(opened.reader_id, opened.node_id, opened.incarnation, opened.label)
            session = self._read[opened.session_id] = self._sessions[opened.session_id]
            session.reader_opened(reader)
            self._by_node.setdefault(opened.node_id, {})[opened.session_id] = session
            self._nodes_of.setdefault(opened.session_id, set()).add(opened.node_id)
        elif kind == "shards_acked":
            session = self._sessions[record.shards_acked.session_id]
            session.shards_acked(record.shards_acked.shards, record.shards_acked.presumed)
            session.counters.CopyFrom(record.shards_acked.counters)
        elif kind == "reader_gone":
            self._sessions[record.reader_gone.session_id].reader_gone(record.reader_gone.reader_id)
            self._used(record.reader_gone.session_id, record.reader_gone.up_ms)
        elif kind == "session_ended":
            ended = record.session_ended
            session = self._sessions[ended.session_id]
            session.settle(ended.acked, ended.labels, ended.undelivered) if ended.settled else session.session_ended()
            session.taken_over |= ended.taken_over
            self._used(ended.session_id, ended.up_ms)
            if not session.own_reader_id:
                for other in self.iterations(session.session_key, session.digest_id):
                    other.alongside |= other.number > session.number
        elif kind == "session_reopened":
            self._sessions[record.session_reopened.session_id].session_reopened()
        elif kind == "resume_asked":
            asked = log_pb2.ResumeAsked()
            asked.CopyFrom(record.resume_asked)
            self.resumptions.ask(asked)
        elif kind == "session_forgotten":
            self._session_forgotten(record.session_forgotten.session_id)
        elif kind == "epochs_counted":
            counted = record.epochs_counted
            self._epochs[counted.job, counted.digest_id] = counted.sessions
        elif kind == "time_passed":
            self.up_ms = max(self.up_ms, record.time_passed.up_ms)

    def still(self, up_ms: Callable[[float], int], has_dates: bool) -> Iterator[Callable[[], Iterable[Record]]]:
        """Give the records that bring an empty object where this one is when they are asked for: each in any thread,
        also while this object goes on.

        Of twenty thousand sessions nearly all have settled: of those only records are made, and not here.

        Args:
          up_ms: at a time of the clock.
          has_dates: whether other records go by it, too.
        """
        settled: list[Session] = []
        for session in self._sessions.values():  # whose order is that of their epochs
            if session.settled_acked is not None and not session.readers:
                settled.append(session)
                continue
            if settled:
                yield functools.partial(settled_records, settled, self.tickets, up_ms)
                settled = []
            yield still(session, self.tickets, up_ms(session.last_used))
        yield functools.partial(settled_records, settled, self.tickets, up_ms)
        yield self.resumptions.still()
        if self._sessions or has_dates:
            passed = log_pb2.TimePassed(up_ms=up_ms(self._clock.now()))
            yield lambda: [Record(time_passed=passed)]
        epochs = dict(self._epochs)
        yield lambda: (
            Record(epochs_counted=log_pb2.EpochsCounted(job=job, digest_id=digest_id, sessions=sessions))
            for (job, digest_id), sessions in epochs.items()
        )

    def _session_created(self, created: log_pb2.SessionCreated) -> None:
        self._count += 1
        session = Session(created, self._count, self._clock.now())
        self._sessions[session.session_id] = session
        self._by_key.setdefault(session.session_key, {})[session.session_id] = session
        self._by_digest.setdefault(session.digest_id, {})[session.session_id] = session
        if session.own_reader_id:
            self._own[session.own_reader_id] = session.session_id
        else:
            of_key = self._iterations.setdefault((session.session_key, session.digest_id), {})
            of_key[session.session_id] = session
        job = (session.job or session.session_key, session.digest_id)
        counted = self._epochs.pop(job, 0)
        self._epochs[job] = session.epoch + 1 if created.resumed else max(session.epoch + 1, counted)  # newest last
        if created.takes_over in self._sessions:
            self._sessions[created.takes_over].take_over()
        if created.resumed:
            self.resumptions.begun(created)
        while len(self._epochs) > self._max_jobs:
            del self._epochs[next(iter(self._epochs))]

    def _session_forgotten(self, session_id: str) -> None:
        session = self._sessions.pop(session_id)
        self._read.pop(session_id, None)
        for node_id in list(self._nodes_of.get(session_id, ())):
            self._left(session_id, node_id)
        self.tickets.forget(session_id)
        self._own.pop(session.own_reader_id, None)
        _remove(self._by_key, session.session_key, session_id)
        _remove(self._by_digest, session.digest_id, session_id)
        if not session.own_reader_id:
            _remove(self._iterations, (session.session_key, session.digest_id), session_id)

    def _used(self, session_id: str, up_ms: int) -> None:
        if up_ms:
            self._sessions[session_id].used_up_ms = up_ms
            self.up_ms = max(self.up_ms, up_ms)

    def _left(self, session_id: str, node_id: str) -> None:
        """Nobody reads it there any more."""
        _remove(self._by_node, node_id, session_id)
        self._nodes_of[session_id].discard(node_id)
        if not self._nodes_of[session_id]:
            del self._nodes_of[session_id]


def _remove(table: dict[K, dict[str, Session]], key: K, session_id: str) -> None:
    del table[key][session_id]
    if not table[key]:
        del table[key]
