"""Clients that die and are followed by others of the same job: what a training loop has consumed is known here.

A reader's pipeline is first in, first out, and holds `hold_back` shards: all that it emitted before those was consumed.
"""

from __future__ import annotations

from collections import Counter, defaultdict

import pytest

from tests.unit.session_world import SimReader, World
from tfquiver import errors
from tfquiver.proto.tfquiver.v1 import commit_log_pb2 as log_pb2
from tfquiver.proto.tfquiver.v1 import types_pb2
from tfquiver.service.coordinator.sessions.bitmap import Bitmap
from tfquiver.service.coordinator.sessions.readers import ReaderRequest
from tfquiver.service.coordinator.sessions.which_session_a_reader_joins.resumptions import position_of


class ResumeWorld(World):
    def __init__(self, shards: int, seed: int, rotation: str) -> None:
        super().__init__(shards, seed, rotation)
        self.order: defaultdict[str, list[int]] = defaultdict(list)  # reader -> what it emitted
        self.consumed: defaultdict[str, set[int]] = defaultdict(set)  # session -> by it and those it goes on with
        self.left: dict[str, SimReader] = {}  # readers of dead clients that live on
        self.saved: dict[str, tuple[types_pb2.Position, set[int]]] = {}  # session -> a position and what it covers
        self.keys = 0

    def emit(self, reader: SimReader, n: int) -> None:
        order = self.order[reader.name]
        order += reader.to_emit[:n]
        self.consumed[reader.session_id].update(order[: len(order) - reader.hold_back])
        super().emit(reader, n)

    def leave_early(self, reader: SimReader) -> None:
        """Its iterator is destroyed in good order: what it emitted counts as read, by presumption."""
        try:
            self.sessions.readers.ack(reader.session_id, reader.name, reader.not_acked, presumed=True)
        except errors.NotFoundError:
            self.open(reader)
            self.sessions.readers.ack(reader.session_id, reader.name, reader.not_acked, presumed=True)
        self.sessions.readers.close(reader.session_id, reader.name, False)
        self.replied()
        del self.readers[reader.name]

    def save(self, session_id: str) -> None:
        """A client writes down where it is."""
        session = self.sessions.session(session_id)
        if not session.taken_over:
            self.saved[session_id] = position_of(session), set(self.consumed[session_id])
            self._assert_covered(self.saved[session_id][0], self.consumed[session_id])

    def resume(self, back_to: str = "") -> str | None:
        """A new client: the session that it goes on with, or None when it begins an epoch. `back_to`: as saved then."""
        position, consumed = self.saved[back_to] if back_to else (None, set[int]())
        self.keys += 1
        key = f"client-{self.keys}"
        asked = log_pb2.ResumeAsked(session_key=key, digest_id=self.digest_id, job="job", position=position)
        newest = self.sessions.resumptions.newest("job", self.digest_id)
        self.sessions.admission.resume(asked, self.shards)
        self.replied()
        provider = f"client-{self.keys}:1"
        session_id = self.ticket(provider)
        if newest and newest.taken_over:
            self._taken_over(newest.session_id)
        if session_id is None:  # everything had been delivered before it was saved
            session = self.sessions.resumptions.newest("job", self.digest_id)
            assert session and session.acked_shards == self.shards
            self.expected[session.session_id].emitted = Counter(range(self.shards))
            return None
        session = self.sessions.session(session_id)
        if newest and newest.taken_over:
            if not back_to:
                assert session.epoch == newest.epoch
                consumed = self.consumed[newest.session_id]
        elif not back_to:
            assert newest is None or newest.acked_shards == newest.shards
            assert not session.acked_shards
        if back_to:
            assert session.epoch == self.saved[back_to][0].epoch
        self.consumed[session_id] = set(consumed)
        self._assert_covered(position_of(session), consumed)
        done = session.delivered().as_array().nonzero()[0]
        self.expected[session_id].emitted = Counter(map(int, done))
        return session_id

    def leftover_acts(self, name: str) -> None:
        """A reader of a dead client does whatever it does: it is refused, and nobody else notices."""
        reader = self.left[name]
        before = [(s.session_id, s.acked_shards, s.leased_shards, s.ended) for s in self.sessions]
        request = ReaderRequest(reader.name, reader.node, reader.incarnation, reader.label)
        with pytest.raises(errors.TakenOverError, match="another client of job 'job' goes on with epoch"):
            self.sessions.readers.find(reader.session_id, reader.name)
        with pytest.raises(errors.TakenOverError):
            self.sessions.readers.ack(reader.session_id, reader.name, reader.held)
        with pytest.raises(errors.TakenOverError):
            self.sessions.readers.open(reader.session_id, request, reader.held, True)
        self.sessions.readers.close(reader.session_id, reader.name, True)
        assert before == [(s.session_id, s.acked_shards, s.leased_shards, s.ended) for s in self.sessions]

    def check(self) -> None:
        super().check()
        for session in self.sessions:
            if session.taken_over:
                assert session.ended and not session.readers and not session.shortfall and not session.leased_shards

    def finish(self) -> None:
        super().finish()
        for name in self.left:
            self.leftover_acts(name)
        # Whatever went wrong before: a last client gets all that the newest epoch lacks, and nobody is left waiting.
        session_id = self.resume()
        if session_id:
            self.join("last client", session_id, "last node", 2)
            self.read_to_the_end()
            assert len(self.expected[session_id].emitted) == self.shards

    def _taken_over(self, session_id: str) -> None:
        for reader in [reader for reader in self.readers.values() if reader.session_id == session_id]:
            self.left[reader.name] = self.readers.pop(reader.name)

    def _assert_covered(self, position: types_pb2.Position, consumed: set[int]) -> None:
        done = Bitmap.from_compressed(position.done_bitmap, self.shards).as_array().nonzero()[0]
        assert set(map(int, done)) <= consumed, "a shard counts as delivered that nobody has consumed"
