"""What readers do in their session: open, lease, ack, close. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence, Set
from dataclasses import dataclass, replace

from tfquiver import errors
from tfquiver.proto.tfquiver.v1 import commit_log_pb2 as log_pb2
from tfquiver.service.coordinator.bandwidth_budgets.budgets import Budgets
from tfquiver.service.coordinator.sessions.decisions import Decisions
from tfquiver.service.coordinator.sessions.lease import LeaseResult, LeaseState
from tfquiver.service.coordinator.sessions.session import DatasetView, Reader, Session
from tfquiver.service.coordinator.sessions.session_book import Record
from tfquiver.service.coordinator.sessions.which_session_a_reader_joins.early_leaving import EarlyLeaving

MAX_READERS = 10_000


@dataclass(frozen=True, slots=True)
class ReaderRequest:
    """Who opens. `incarnation` is the node's."""

    reader_id: str
    node_id: str
    incarnation: str
    label: str = ""
    in_turn: bool = False


class Readers:
    def __init__(
        self,
        decisions: Decisions,
        view: Callable[[bytes], DatasetView],
        budgets: Budgets,
        probed: Set[tuple[str, bytes]],
    ) -> None:
        """As Sessions."""
        self._decisions, self._book, self._view = decisions, decisions.book, view
        self._budgets, self._probed = budgets, probed
        self._early_leaving = EarlyLeaving(decisions)

    def open(
        self, session_id: str, request: ReaderRequest, held: Sequence[int], node_is_live: bool
    ) -> tuple[Session, list[int]]:
        """Joins an existing session. Returns it and those of `held` that the reader must drop.

        Raises NotFoundError, InvalidArgumentError (`held` has a shard that the data set has not).
        """
        session = self._decisions.not_taken_over(session_id)
        _check_shards("held", session, held)
        before = session.readers.get(request.reader_id)
        if before is None and len(session.readers) >= MAX_READERS:
            raise errors.ResourceExhaustedError(f"session {session_id} has {MAX_READERS} readers already")
        same = before is not None and (before.node_id, before.incarnation) == (request.node_id, request.incarnation)
        if not same:
            opened = log_pb2.ReaderOpened(
                session_id=session_id,
                reader_id=request.reader_id,
                node_id=request.node_id,
                incarnation=request.incarnation,
                label=request.label,
            )
            self._decisions.commit(Record(reader_opened=opened))
        now = self._decisions.now()
        reader = Reader(request.reader_id, request.node_id, request.incarnation, request.label, in_turn=request.in_turn)
        reader.deadline = None if node_is_live else now + self._decisions.limits.grace_s
        reader.again = before is not None or bool(held)  # it may have been given up, and forgotten, in between
        session.reader_opened(reader)
        lost = 0 if same or before is None else len(reader.leases.difference(held))
        dropped = session.hold(reader, held, by_same_node=same)
        self._decisions.given_back.note(session, lost, f"a reader at node {reader.node_id} is back without them")
        session.last_used = session.last_progress = now
        # Who opens first brings nothing: if each of a thousand woke all that wait, they would ask half a million times.
        if before and not (before.leases_unknown and session.waits_for_readers):
            self._decisions.changed(session_id)
        return session, dropped

    def find(self, session_id: str, reader_id: str) -> Reader:
        """Raises NotFoundError when it must open (again), TakenOverError."""
        reader = self._decisions.not_taken_over(session_id).readers.get(reader_id)
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
        session = self._book.session(session_id)
        if session.readers.get(reader.reader_id) is not reader:
            raise errors.NotFoundError(f"reader {reader.reader_id!r} of session {session_id}: call OpenReader (again)")
        if sequence == reader.sequence and reader.reply:
            return replace(reader.reply, repeated=True)
        if sequence < reader.sequence:
            raise errors.InvalidArgumentError(f"sequence: {sequence} is older than {reader.sequence}")
        _check_shards("wanted", session, wanted)
        session.last_used = self._decisions.now()
        reader.window_bytes = max(reader.window_bytes, max_bytes)
        shards = self._take(session, reader, max_shards, max_bytes, wanted)
        if shards:
            assert session.sampler
            session.last_progress = session.last_used
            places = tuple(map(session.sampler.place, shards))
            result = LeaseResult(LeaseState.LEASED, tuple(shards), places, session.reads in self._probed)
            reader.draining = False
            if session.all_given and any(other.in_turn and other.draining for other in session.readers.values()):
                self._decisions.changed(session_id)  # they need wait no longer
        else:
            reader.draining = draining
            if (session.ended and not session.reopened) or session.can_end:
                self._decisions.end(session)
                result = LeaseResult(LeaseState.END)
            elif draining and ((reader.in_turn and session.all_given) or self._early_leaving.may(session, reader)):
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
        session = self._decisions.not_taken_over(session_id)
        if reader_id:
            self.find(session_id, reader_id)
        else:
            session.acked_by_trainer = True
        _check_shards("shards", session, shards)
        session.last_used = self._decisions.now()
        self._ack(session, shards, presumed)

    def close(self, session_id: str, reader_id: str, complete: bool) -> bytes:
        """The data set that it has left; empty: it was not there any more.

        Raises NotFoundError when it says `complete` and has not said, since the restart, what it holds.
        """
        session = self._book.get(session_id)
        reader = session.readers.get(reader_id) if session else None
        if session is None or reader is None:
            return b""
        if complete and reader.leases_unknown:
            raise errors.NotFoundError(f"reader {reader_id!r} of session {session_id}: call OpenReader (again)")
        told_end = reader.reply.state is LeaseState.END if reader.reply else reader.again
        if complete and (told_end or (session.ended and not session.reopened)):
            self._ack(session, sorted(reader.leases), presumed=True)
        # Who reads for itself and leaves in the middle has seen enough.
        why = "" if session.own_reader_id else f"a reader at node {reader.node_id} has gone"
        self._decisions.reader_gone(session, reader, why)
        return session.digest_id

    # Inside.

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
        bypass, budgets = session.reads in self._probed, self._budgets
        if not budgets.in_use:
            return session.lease(reader, max_shards, max_bytes, view, wanted, bypass=bypass)
        left = budgets.left_bytes(session.pays)
        shards = session.lease(reader, max_shards, max_bytes, view, wanted, left, bypass)
        if not shards and left is not None and left <= 0 and session.sampler.pending:
            budgets.held_back(session.pays)
        read = session.shards_of(shards, len(view.lengths))
        self._charge(session, view, [shard for shard in read if bypass or not view.resident[shard]], bypass)
        return shards

    def _charge(self, session: Session, view: DatasetView, missing: list[int], bypass: bool) -> None:
        shared = [] if bypass else [shard for shard in missing if view.shared(shard)]
        alone_bytes = sum(int(view.lengths[shard]) for shard in set(missing).difference(shared))
        self._budgets.leased(session.pays, alone_bytes)
        lengths = [int(view.lengths[shard]) for shard in shared]
        self._budgets.leased_for_all(session.pays, session.digest_id, shared, lengths)

    def _ack(self, session: Session, shards: Iterable[int], presumed: bool) -> None:
        fresh = session.not_acked(shards, presumed)
        if fresh:
            session.last_progress = self._decisions.now()
            acked = log_pb2.ShardsAcked(session_id=session.session_id, shards=fresh, counters=session.counters)
            acked.presumed = presumed
            self._decisions.commit(Record(shards_acked=acked))
            if session.can_end:
                self._decisions.changed(session.session_id)


def _check_shards(field: str, session: Session, shards: Sequence[int]) -> None:
    if shards and max(shards) >= session.shards:
        wrong = next(shard for shard in shards if shard >= session.shards)
        raise errors.InvalidArgumentError(f"{field}: no shard {wrong} in a data set of {session.shards}")
