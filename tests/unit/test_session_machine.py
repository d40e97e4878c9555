"""Any order of events: no failure means every shard exactly once (I-6), failures mean at least once with duplicates
bounded by what was not acked (I-7), and every session ends once readers behave."""

from __future__ import annotations

from collections.abc import Callable

import hypothesis.strategies as st
from hypothesis import HealthCheck, settings
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from tests.unit.session_world import GRACE_S, SimReader, World

NODES = st.sampled_from(["node-a", "node-b"])
PICK = st.integers(0, 1 << 30)
FAULTS = st.sets(st.sampled_from(["reader", "node", "restart", "coordinator", "time", "reply"]))

ROTATIONS = st.sampled_from(["", "relevance", "cyclic", "deterministic", "sampled"])


def may(fault: str) -> Callable[[SessionMachine], bool]:
    """Each run draws the kinds of failure that it may have: else nearly every run would have all of them."""
    return lambda machine: fault in machine.faults and machine.has_readers()


class SessionMachine(RuleBasedStateMachine):
    world: World

    def new_world(self, shards: int, seed: int, rotation: str) -> World:
        return World(shards, seed, rotation)

    @initialize(shards=st.integers(0, 25), seed=st.integers(0, 1 << 30), faults=FAULTS, rotation=ROTATIONS)
    def begin(self, shards: int, seed: int, faults: set[str], rotation: str) -> None:
        self.faults = faults
        self.world = self.new_world(shards, seed, rotation if shards >= 8 else "")
        self.names = 0
        self.tickets: list[str] = []

    def pick(self, number: int) -> SimReader:
        readers = list(self.world.readers.values())
        return readers[number % len(readers)]

    def has_readers(self) -> bool:
        return bool(self.world.readers)

    @precondition(lambda self: len(self.tickets) < 3)
    @rule(iterations=st.booleans())
    def new_session(self, iterations: bool) -> None:
        """Of the same data set as others, or of one of its own."""
        self.names += 1
        session_id = self.world.ticket(f"p:{self.names}" if iterations else f"q{self.names}:1")
        if session_id:
            self.tickets.append(session_id)

    @precondition(lambda self: self.tickets and len(self.world.readers) < 5)
    @rule(number=PICK, node=NODES, hold_back=st.integers(0, 3), worker=st.booleans())
    def join(self, number: int, node: str, hold_back: int, worker: bool) -> None:
        self.names += 1
        session_id = self.tickets[number % len(self.tickets)]
        self.world.join(f"r{self.names}", session_id, node, hold_back, node if worker else "")

    @precondition(lambda self: self.world.providers)
    @rule(number=PICK)
    def ticket_again(self, number: int) -> None:
        providers = list(self.world.providers)
        self.world.ticket_again(providers[number % len(providers)])

    @precondition(lambda self: self.world.providers and len(self.world.readers) < 5)
    @rule(number=PICK, node=NODES, hold_back=st.integers(0, 3))
    def come_late(self, number: int, node: str, hold_back: int) -> None:
        self.names += 1
        providers = list(self.world.providers)
        if session_id := self.world.late(providers[number % len(providers)]):
            self.world.join(f"r{self.names}", session_id, node, hold_back, node)

    @precondition(has_readers)
    @rule(number=PICK, n=st.integers(1, 6), max_bytes=st.integers(0, 300))
    def lease(self, number: int, n: int, max_bytes: int) -> None:
        reader = self.pick(number)
        if not reader.told_end:
            self.world.lease(reader, n, max_bytes)

    @precondition(has_readers)
    @rule(number=PICK, n=st.integers(1, 6), acks=st.booleans())
    def emit(self, number: int, n: int, acks: bool) -> None:
        reader = self.pick(number)
        self.world.emit(reader, n)
        if acks:
            self.world.ack(reader)

    @precondition(has_readers)
    @rule(lease=st.integers(1, 6), emit=st.integers(0, 6), rounds=st.integers(1, 4))
    def all_read_on(self, lease: int, emit: int, rounds: int) -> None:
        for reader in list(self.world.readers.values()) * rounds:
            if not reader.told_end:
                self.world.lease(reader, lease)
            self.world.emit(reader, emit)
            self.world.ack(reader)

    @precondition(may("reply"))
    @rule(number=PICK, n=st.integers(1, 6))
    def replies_are_lost(self, number: int, n: int) -> None:
        """The reader asks again, or opens again."""
        reader = self.pick(number)
        self.world.ack(reader, lost=True)
        if not reader.told_end:
            self.world.lease(reader, n, lost=True)

    @precondition(has_readers)
    @rule(number=PICK)
    def leave_at_the_end(self, number: int) -> None:
        reader = self.pick(number)
        if reader.told_end and not reader.to_emit:
            self.world.leave(reader)

    @precondition(has_readers)
    @rule(number=PICK)
    def open_again(self, number: int) -> None:
        self.world.open(self.pick(number))

    @rule(shard=PICK, resident=st.booleans())
    def residency_flips(self, shard: int, resident: bool) -> None:
        if self.world.shards:
            self.world.cached.hold([shard % self.world.in_data_set], resident)

    @rule(most=st.integers(0, 8))
    def nodes_obey(self, most: int) -> None:
        self.world.cached.obey(most)

    @precondition(may("reader"))
    @rule(number=PICK, noticed=st.booleans())
    def reader_dies(self, number: int, noticed: bool) -> None:
        self.world.die(self.pick(number), noticed)

    @precondition(may("node"))
    @rule(node=NODES)
    def node_is_lost(self, node: str) -> None:
        self.world.lose_node(node)

    @rule(node=NODES)
    def node_is_heard_of(self, node: str) -> None:
        self.world.heartbeat(node)

    @precondition(may("restart"))
    @rule(node=NODES)
    def node_restarts(self, node: str) -> None:
        self.world.restart_node(node)

    @precondition(may("coordinator"))
    @rule(lose_records=st.integers(0, 5), from_snapshot=st.booleans())
    def coordinator_restarts(self, lose_records: int, from_snapshot: bool) -> None:
        self.world.restart_coordinator(lose_records, from_snapshot)

    @precondition(may("time"))
    @rule(seconds=st.sampled_from([0.5, GRACE_S - 4, GRACE_S + 1]))
    def time_passes(self, seconds: float) -> None:
        self.world.pass_time(seconds)

    @invariant()
    def nothing_is_wrong(self) -> None:
        if hasattr(self, "world"):
            self.world.check()

    def teardown(self) -> None:
        if hasattr(self, "world"):
            self.world.finish()


TestSessionMachine = SessionMachine.TestCase
TestSessionMachine.settings = settings(
    max_examples=300, stateful_step_count=50, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
