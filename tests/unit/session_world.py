"""A small world around the pure sessions: readers that emit, hold back, ack, stall, die and come back."""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from dataclasses import dataclass, field

import numpy as np

from tests.unit.cached import CHUNK_TIMEOUT_S, Cached
from tfquiver import errors
from tfquiver.clock import ManualClock
from tfquiver.messages_and_binary_formats.drawn_shards import DrawnShards
from tfquiver.proto.tfquiver.v1 import types_pb2
from tfquiver.service.coordinator.samplers_and_orders_of_an_epochs_shards.block_order import BlockOrder
from tfquiver.service.coordinator.samplers_and_orders_of_an_epochs_shards.wish import Wish
from tfquiver.service.coordinator.sessions.decisions import SessionLimits
from tfquiver.service.coordinator.sessions.lease import LeaseState
from tfquiver.service.coordinator.sessions.readers import ReaderRequest
from tfquiver.service.coordinator.sessions.session import Session
from tfquiver.service.coordinator.sessions.session_book import Record
from tfquiver.service.coordinator.sessions.sessions import Sessions
from tfquiver.service.coordinator.sessions.which_session_a_reader_joins.admission import Drawn

GRACE_S = 10.0


def key_of(provider: str) -> str:
    """`<session key>:<n>`."""
    return provider.rpartition(":")[0]


@dataclass
class SimReader:
    """What an op and its node know of one iterator."""

    name: str
    session_id: str
    node: str
    hold_back: int
    label: str = ""
    incarnation: str = ""  # of its node, when it opened last
    unknown: bool = False  # it has not opened since the coordinator restarted
    away: bool = False  # the coordinator has reason to give it up unless something is heard of it
    to_emit: list[int] = field(default_factory=list)
    not_acked: list[int] = field(default_factory=list)  # emitted; acked oldest first
    sequence: int = 0
    told_end: bool = False

    @property
    def held(self) -> list[int]:
        return self.to_emit + self.not_acked


@dataclass
class Expected:
    """Of one session: what was emitted, and what losses excuse."""

    emitted: Counter[int] = field(default_factory=Counter)
    duplicates_allowed: int = 0
    shortfall_allowed: int = 0


class World:
    def __init__(self, shards: int, seed: int, rotation: str = "") -> None:
        """`rotation`: the data set is cached by chunks; or "deterministic"; or "sampled": its sessions are of draws."""
        self.rng = random.Random(seed)
        self.clock = ManualClock()
        lengths = [self.rng.randrange(16, 116) for _ in range(shards)]
        self.blocks: BlockOrder | None = None
        self.wish = Wish()
        if rotation == "deterministic":
            order = types_pb2.SessionOrder(deterministic=True, order_seed=7, block_bytes=150)
            self.blocks = BlockOrder(lengths, [1] * shards, order.order_seed, order.block_bytes)
            self.wish, rotation = Wish(order=order), ""
        self.drawn: Drawn | None = None
        if rotation == "sampled":
            drawn = np.sort(np.array([self.rng.randrange(shards) for _ in range(shards + 3)], np.uint32))
            ends = (len(drawn) // 3, len(drawn))
            self.drawn, rotation = Drawn(0, DrawnShards("test", drawn, ends, False, len(drawn)).message()), ""
        self.cached = Cached(lengths, self.clock, rotation)
        self.digest_id = self.cached.digest_id
        self.in_data_set = shards
        self.shards = self.drawn.shards.draws if self.drawn else shards  # of an epoch
        self.log: list[Record] = []
        self.durable = 0
        self.woken: set[str] = set()
        self.incarnations: Counter[str] = Counter()
        self.live: set[str] = set()  # nodes that this coordinator has heard of
        self.providers: dict[str, str] = {}  # -> session id
        self.readers: dict[str, SimReader] = {}
        self.expected: defaultdict[str, Expected] = defaultdict(Expected)
        self.sessions = self._new_sessions()
        self.cached.begin(self.sessions)

    def _new_sessions(self) -> Sessions:
        limits = SessionLimits(grace_s=GRACE_S, idle_s=1e9, ended_s=1e9)
        return Sessions(
            self.clock, self.rng, lambda record: self.log.append(record), self.cached.view, self.woken.add, limits
        )

    def replied(self) -> None:
        """A reply has gone out: all that was decided until now is durable."""
        self.durable = len(self.log)

    # Sessions and readers.

    def ticket(self, provider: str) -> str | None:
        session_id = self.sessions.admission.ticket(
            key_of(provider), provider, 0, False, self.digest_id, self.in_data_set, "job", self.wish, drawn=self.drawn
        )
        self.replied()
        if session_id is None:
            return None
        assert self.providers.setdefault(provider, session_id) == session_id, "a provider's session has changed"
        return session_id

    def ticket_again(self, provider: str) -> None:
        session = self.sessions.session(self.providers[provider])
        all_acked = session.acked_shards == session.shards
        assert (self.ticket(provider) is None) == (all_acked or session.ended)

    def late(self, provider: str) -> str | None:
        """A reader of this provider's iteration has come after its end. It is given what was lost since then."""
        newest = max((s for s in self.sessions if s.session_key == key_of(provider)), key=lambda s: s.number)
        dead = [reader for reader in newest.readers.values() if reader.reader_id not in self.readers]
        leases_of_dead = sum(len(reader.leases) for reader in dead)  # which the coordinator has not noticed
        again = newest.shards - newest.acked_shards - newest.leased_shards + leases_of_dead
        try:
            session_id = self.sessions.admission.late_ticket(key_of(provider), self.digest_id, provider)
        except errors.UnavailableError:
            assert newest.ended and newest.leased_shards and not newest.shortfall
            return None
        self.replied()
        if session_id is None:
            assert not newest.ended or newest.alongside or newest.taken_over or not newest.shortfall
        else:
            assert session_id == newest.session_id
            self.expected[session_id].duplicates_allowed += again
        return session_id

    def join(self, name: str, session_id: str, node: str, hold_back: int, label: str = "") -> SimReader:
        reader = self.readers[name] = SimReader(name, session_id, node, hold_back, label)
        self.open(reader)
        return reader

    def open(self, reader: SimReader) -> None:
        incarnation = str(self.incarnations[reader.node])
        request = ReaderRequest(reader.name, reader.node, incarnation, reader.label)
        live = reader.node in self.live
        _, dropped = self.sessions.readers.open(reader.session_id, request, reader.held, live)
        self.replied()
        gone = set(dropped)
        reader.to_emit = [shard for shard in reader.to_emit if shard not in gone]
        reader.not_acked = [shard for shard in reader.not_acked if shard not in gone]
        reader.incarnation, reader.sequence, reader.unknown, reader.away = incarnation, 0, False, not live

    def lease(self, reader: SimReader, n: int, max_bytes: int = 1 << 40, lost: bool = False) -> LeaseState | None:
        """None: it had to open again first, or the reply was lost."""
        try:
            opened = self.sessions.readers.find(reader.session_id, reader.name)
            draining = not reader.to_emit
            arguments = (reader.session_id, opened, reader.sequence + 1, n, max_bytes, draining, True)
            result = self.sessions.readers.lease(*arguments)
            assert self.sessions.readers.lease(*arguments) == result, "a repeated request has another reply"
        except errors.NotFoundError:
            self.open(reader)
            return None
        self.cached.look()
        if lost:
            return None
        reader.sequence += 1
        assert not set(result.shards) & set(reader.held), "it holds them already"
        reader.to_emit += result.shards
        if result.state is LeaseState.END:
            self.replied()
            reader.told_end = True
            # A reader may also be let go before its session ends; then others still emit.
            if self.sessions.session(reader.session_id).ended:
                emitted = self.expected[reader.session_id].emitted
                assert len(emitted) == self.shards, "END while a shard is still to be emitted"
        return result.state

    def emit(self, reader: SimReader, n: int) -> None:
        for shard in reader.to_emit[:n]:
            self.expected[reader.session_id].emitted[shard] += 1
        reader.not_acked += reader.to_emit[:n]
        reader.to_emit = reader.to_emit[n:]

    def ack(self, reader: SimReader, lost: bool = False) -> None:
        n = len(reader.not_acked) - reader.hold_back
        if n <= 0:
            return None
        try:
            self.sessions.readers.ack(reader.session_id, reader.name, reader.not_acked[:n])
        except errors.NotFoundError:
            return self.open(reader)
        self.cached.look()
        if not lost:
            self.replied()
            reader.not_acked = reader.not_acked[n:]
        return None

    def leave(self, reader: SimReader) -> None:
        """At the end."""
        assert reader.told_end
        try:
            self.sessions.readers.close(reader.session_id, reader.name, True)
        except errors.NotFoundError:
            self.open(reader)
        self.sessions.readers.close(reader.session_id, reader.name, True)
        self.replied()
        del self.readers[reader.name]

    # Failures.

    def die(self, reader: SimReader, noticed: bool) -> None:
        self._excuse(reader)
        del self.readers[reader.name]
        if not noticed and not reader.to_emit and not self.sessions.session(reader.session_id).ended:
            # It may have asked for more in vain: then the session ends without waiting for it.
            self.expected[reader.session_id].shortfall_allowed += len(reader.held)
        if noticed:
            self.sessions.readers.close(reader.session_id, reader.name, False)
            self.replied()

    def heartbeat(self, node: str) -> None:
        if node not in self.live:
            self.live.add(node)
            self.sessions.node_seen(node, str(self.incarnations[node]))
        for reader in self._on(node):
            if not reader.unknown and reader.incarnation == str(self.incarnations[node]):
                reader.away = False

    def lose_node(self, node: str) -> None:
        """The coordinator gives up on a node whose readers live on: they open again some time."""
        for reader in self._on(node):
            if self._is_known(reader):
                self._excuse(reader)
        self.live.discard(node)
        self.sessions.node_lost(node)

    def restart_node(self, node: str) -> None:
        """The node process; its readers reconnect to the new one."""
        self.incarnations[node] += 1
        self.live.discard(node)
        self.heartbeat(node)
        for reader in self._on(node):
            reader.away = True

    def restart_coordinator(self, lose_records: int, from_snapshot: bool) -> None:
        """kill -9: leases are forgotten, and the records that no reply has waited for may be."""
        del self.log[max(self.durable, len(self.log) - lose_records) :]
        old_log, self.log = self.log, []
        self.sessions = self._new_sessions()
        for record in old_log:
            self.sessions.apply(record)
        if from_snapshot:
            snapshot = list(self.sessions.snapshot())
            self.sessions = self._new_sessions()
            for record in snapshot:
                self.sessions.apply(record)
            old_log = snapshot
        self.sessions.restored()
        self.cached.begin(self.sessions)
        self.live.clear()
        for reader in self.readers.values():
            reader.unknown = reader.away = True
        assert not self.log, "reading the log writes to it"
        self.log = old_log
        self.replied()

    def pass_time(self, seconds: float) -> None:
        """Readers that the coordinator waits for and that have not come back by then are lost."""
        known = [reader for reader in self.readers.values() if self._is_known(reader)]
        self.clock.advance(seconds)
        self.sessions.expire()
        for reader in known:
            if not self._is_known(reader):
                assert reader.away, "a reader was given up that did nothing wrong"
                self._excuse(reader)
            else:
                assert not reader.away or seconds <= GRACE_S, "a reader that stays away is not given up"
        if seconds > GRACE_S:
            assert not any(session.waits_for_readers for session in self.sessions)

    def _is_known(self, reader: SimReader) -> bool:
        return reader.name in self.sessions.session(reader.session_id).readers

    def _excuse(self, reader: SimReader) -> None:
        expected, session = self.expected[reader.session_id], self.sessions.session(reader.session_id)
        if session.ended:
            expected.shortfall_allowed += len(reader.held)
        if session.reopened or not session.ended:
            expected.duplicates_allowed += len(reader.held)

    def _on(self, node: str) -> list[SimReader]:
        return [reader for reader in self.readers.values() if reader.node == node]

    # Checks.

    def check(self) -> None:
        for session in self.sessions:
            leases = [shard for reader in session.readers.values() for shard in reader.leases]
            assert len(leases) == len(set(leases)) == session.leased_shards
            assert all(shard not in session.acked for shard in leases) or session.settled_acked is not None
            pending = session.shards - session.acked_shards - len(leases)
            assert pending >= 0
            if session.sampler:
                assert session.sampler.pending == pending
            if self.blocks:
                self._check_blocks(session, self.blocks)
            expected = self.expected[session.session_id]
            assert session.shortfall <= expected.shortfall_allowed
            duplicates = sum(expected.emitted.values()) - len(expected.emitted)
            assert duplicates <= expected.duplicates_allowed
            if session.ended and not session.reopened:
                for known in session.readers.values():
                    reader = self.readers.get(known.reader_id)
                    assert not reader or known.leases.isdisjoint(reader.to_emit), "END before all was emitted"

    def _check_blocks(self, session: Session, order: BlockOrder) -> None:
        """A block that a reader has begun is not handed to another one."""
        for block in range(order.blocks):
            shards = order.shards[order.first[block] : order.first[block + 1]]
            holders = [reader for reader in session.readers.values() if reader.leases.intersection(shards)]
            assert len(holders) <= 1, f"block {block} is held by {len(holders)} readers"

    def finish(self) -> None:
        """Everybody behaves from now on: every session ends, and what its records say is checked."""
        for session in list(self.sessions):
            for known in list(session.readers.values()):
                if known.reader_id not in self.readers:  # its death is noticed at last
                    self.sessions.readers.close(session.session_id, known.reader_id, False)
            if not session.complete and not any(r.session_id == session.session_id for r in self.readers.values()):
                self.join(f"finisher of {session.session_id}", session.session_id, "last node", 2)
        self.read_to_the_end()
        for provider in self.providers:
            if session_id := self.late(provider):
                self.join(f"late in {provider}", session_id, "last node", 2)
                self.read_to_the_end()
                assert self.late(provider) is None
                assert len(self.expected[session_id].emitted) == self.shards, "not everything was emitted (I-7)"
        for provider in self.providers:
            self.ticket_again(provider)
        for session in self.sessions:
            self._check_end(session)

    def read_to_the_end(self) -> None:
        rounds = 0
        while self.readers:
            rounds += 1
            assert rounds < 20 * self.shards + 200, "a session does not end"
            if self.cached.by_chunks:
                self.clock.advance(CHUNK_TIMEOUT_S / 10)
                self.cached.time_passes()
                self.cached.obey(3)
            for reader in list(self.readers.values()):
                if reader.told_end or self.lease(reader, 3) is LeaseState.END:
                    self.emit(reader, len(reader.to_emit))
                    self.leave(reader)
                else:
                    self.emit(reader, 2)
                    self.ack(reader)
            self.check()

    def _check_end(self, session: Session) -> None:
        expected = self.expected[session.session_id]
        assert session.ended
        if session.taken_over:
            return
        missing = session.shards - len(expected.emitted)
        assert missing <= session.shortfall, "shards were not emitted, and nobody was told (I-7, I-8)"
        assert session.acked_shards + session.shortfall == session.shards
        if not expected.duplicates_allowed and not expected.shortfall_allowed:
            assert set(expected.emitted.values()) <= {1}
            assert session.acked_shards == session.shards
            assert len(expected.emitted) == session.shards, "not every shard exactly once (I-6)"
