"""A session as records: what a snapshot of the log keeps of it. Pure."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence

from tfquiver.proto.tfquiver.v1 import commit_log_pb2 as log_pb2
from tfquiver.service.coordinator.sessions.session import Session
from tfquiver.service.coordinator.sessions.which_session_a_reader_joins.tickets import TicketName, Tickets

Record = log_pb2.CommitRecord


def still(session: Session, tickets: Tickets, up_ms: int) -> Callable[[], Iterator[Record]]:
    """What gives the records of a session as it is now, in an order in which they can be applied; in any thread.
    `up_ms`: when somebody used it last."""
    given, end_told = tickets.of(session.session_id), tickets.end_told(session.session_id)
    return functools.partial(_records_of, session.still(), given, end_told, up_ms)


def settled_records(settled: Sequence[Session], tickets: Tickets, up_ms: Callable[[float], int]) -> Iterator[Record]:
    """Of sessions that had settled, and that nobody read, when a snapshot was begun; in any thread. What has come to
    one of them since is in the log behind the snapshot, and may be here, too."""
    for session in settled:
        given, end_told = tickets.of(session.session_id), tickets.end_told(session.session_id)
        yield from _records_of(session, given, end_told, up_ms(session.last_used))


def _records_of(
    session: Session, tickets: list[tuple[TicketName, bool]], end_told: bool, up_ms: int
) -> Iterator[Record]:
    session_id = session.session_id
    yield Record(session_created=_created(session, up_ms))
    for (_, provider_id, repetition), adopted in tickets:
        given = log_pb2.TicketGiven(
            session_id=session_id, provider_id=provider_id, repetition=repetition, adopted=adopted, end=end_told
        )
        yield Record(ticket_given=given)
    for reader in list(session.readers.values()):  # who comes late to a settled one comes meanwhile
        opened = log_pb2.ReaderOpened(
            session_id=session_id,
            reader_id=reader.reader_id,
            node_id=reader.node_id,
            incarnation=reader.incarnation,
            label=reader.label,
        )
        yield Record(reader_opened=opened)
    if session.ended:
        ended = log_pb2.SessionEnded(session_id=session_id)
        if session.settled_acked is not None:
            ended.settled, ended.acked = True, session.settled_acked
            ended.undelivered.extend(sorted(session.undelivered))
            ended.taken_over = session.taken_over
        yield Record(session_ended=ended)
    if session.reopened:
        yield Record(session_reopened=log_pb2.SessionReopened(session_id=session_id))


def _created(session: Session, up_ms: int) -> log_pb2.SessionCreated:
    return log_pb2.SessionCreated(
        session_id=session.session_id,
        session_key=session.session_key,
        digest_id=session.digest_id,
        job=session.job,
        epoch=session.epoch,
        shards=session.shards,
        seed=session.seed,
        own_reader_id=session.own_reader_id,
        done_bitmap=session.acked.compressed(),
        counters=session.counters,
        labels=sorted(session.labels),
        homogeneous=session.homogeneous,
        order=session.order,
        presumed=sorted(session.presumed),
        alongside=session.alongside,
        drawn=session.drawn if session.sampled else None,
        up_ms=up_ms,
    )
