"""A reader's session under any order of events: every shard accounted for, every acknowledgement durable before END."""

from __future__ import annotations

import numpy as np
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from tfquiver.service.node.reader_sessions import instructions
from tfquiver.service.node.reader_sessions.instructions import Instruction, Lease, LeaseState
from tfquiver.service.node.reader_sessions.reader_session import ReaderLimits, ReaderSession

LEASED, WAIT, END = LeaseState.LEASED, LeaseState.WAIT, LeaseState.END


class AnyOrder(RuleBasedStateMachine):
    """A coordinator that hands out each shard once, a node that fetches, a reader that emits: in any order. What the
    coordinator has said to a Lease is what it says to the next of that number, too."""

    SHARDS = 30
    WANTING = False

    def __init__(self) -> None:
        super().__init__()
        lengths = np.random.default_rng(1).integers(1, 200, self.SHARDS).astype(np.uint64)
        self.lengths = lengths
        limits = ReaderLimits(ahead_bytes=200, ahead_shards=8)
        self.reader = ReaderSession(lengths, 300, limits=limits, ordered=self.WANTING, wanting=self.WANTING)
        self.to_want = list(range(0, self.SHARDS, 2)) if self.WANTING else []
        self.credit = 300
        self.pending = list(range(self.SHARDS))
        self.leased: set[int] = set()
        self.fetching: set[int] = set()
        self.pool: list[int] = []
        self.emitted: set[int] = set()
        self.durable: set[int] = set()
        self.lease: Lease | None = None
        self.said: list[int] = []  # to the Lease under way, and not yet heard
        self.acks: tuple[int, ...] = ()
        self.received = 0
        self.ended = 0
        self.free: set[int] = set()  # found bad: sent again without credit
        self.were_bad: set[int] = set()
        self.do(self.reader.opened((), ()))

    def do(self, told: list[Instruction]) -> None:
        for i in told:
            assert not self.ended, f"after END: {i}"
            match i:
                case Lease():
                    assert self.lease is None or (self.lease.sequence == i.sequence and i.draining)
                    assert i.max_shards >= 1
                    assert not (i.acked and self.acks), "what is under way is under way once"
                    assert self.lease is None or not self.lease.acked or self.lease.acked == i.acked
                    assert set(i.acked) <= self.emitted - self.durable
                    self.lease = i
                case instructions.Fetch():
                    assert i.shard not in self.fetching
                    self.fetching.add(i.shard)
                case instructions.Send():
                    assert self.credit > 0 or i.shard in self.free
                    if i.shard in self.free:
                        self.free.discard(i.shard)
                    else:
                        self.credit -= int(self.lengths[i.shard])
                    self.pool.append(i.shard)
                    self.received += 1
                case instructions.SendAcks():
                    assert not self.acks
                    assert not (self.lease and self.lease.acked)
                    self.acks = i.shards
                case instructions.SendEnd():
                    self.ended += 1
                case instructions.Tell():
                    raise AssertionError(i)

    @precondition(lambda self: self.lease is not None and not self.said and not self.ended)
    @rule(count=st.integers(1, 8))
    def the_coordinator_gives(self, count: int) -> None:
        lease = self.lease
        assert lease is not None and set(lease.wanted) <= set(self.pending)
        for shard in lease.wanted or self.pending[: -1 - min(count, lease.max_shards) : -1]:
            room_bytes = lease.max_bytes - sum(int(self.lengths[s]) for s in (*self.said, shard))
            if not lease.wanted and self.said and room_bytes < 0:
                break
            self.said.append(shard)
        self.pending = [shard for shard in self.pending if shard not in self.said]

    @precondition(lambda self: self.lease is not None and not self.ended)
    @rule()
    def the_reader_is_answered(self) -> None:
        lease, given = self.lease, self.said
        assert lease is not None
        self.lease, self.said = None, []
        self.durable.update(lease.acked)
        if given:
            self.leased.update(given)
            self.do(self.reader.leased(LEASED, [(s, "") for s in given], 0.0))
        elif not self.pending and (self.leased == self.durable or lease.draining):
            assert self.leased <= self.emitted, "END before everything was emitted"
            self.do(self.reader.leased(END, [], 0.0))
        else:
            self.do(self.reader.leased(WAIT, [], 0.0))

    @precondition(lambda self: self.reader.wanting and not self.ended)
    @rule(count=st.integers(0, 6))
    def the_reader_wants(self, count: int) -> None:
        """Every second shard, and then whatever there is."""
        wants, self.to_want = self.to_want[:count], self.to_want[count:]
        if wants or not self.to_want:
            self.do(self.reader.want(wants))

    @precondition(lambda self: self.fetching)
    @rule(data=st.data())
    def a_fetch_ends(self, data: st.DataObject) -> None:
        shard = data.draw(st.sampled_from(sorted(self.fetching)))
        self.fetching.discard(shard)
        self.do(self.reader.fetched(shard))

    @precondition(lambda self: self.pool)
    @rule(bad=st.booleans())
    def the_reader_emits(self, bad: bool) -> None:
        shard = self.pool.pop(0)
        if bad and shard not in self.were_bad:
            self.were_bad.add(shard)
            self.free.add(shard)
            self.do(self.reader.bad(shard, 0.0))
            return
        self.emitted.add(shard)
        self.credit += int(self.lengths[shard])
        self.do(self.reader.credit(int(self.lengths[shard])))
        self.do(self.reader.ack([shard]))

    @precondition(lambda self: not self.pool and not self.ended)
    @rule()
    def the_reader_drains(self) -> None:
        self.do(self.reader.draining(self.received))

    @rule()
    def the_timer_fires(self) -> None:
        self.do(self.reader.flush_acks())

    @precondition(lambda self: self.acks)
    @rule()
    def acknowledgements_arrive(self) -> None:
        self.durable.update(self.acks)
        self.acks = ()
        self.do(self.reader.acks_durable())

    @invariant()
    def every_shard_is_accounted_for(self) -> None:
        assert set(self.reader.held()) == self.leased - self.durable

    @invariant()
    def it_does_not_run_too_far_ahead(self) -> None:
        unsent = self.leased - self.emitted - set(self.pool)
        assert len(unsent) <= 8 + 2
        assert sum(int(self.lengths[s]) for s in unsent) <= max(self.credit, 0) + 200 + 3 * 200

    def teardown(self) -> None:
        for _ in range(1000):
            if self.ended:
                break
            if self.pool:
                self.the_reader_emits(bad=False)
            elif self.fetching:
                shard = min(self.fetching)
                self.fetching.discard(shard)
                self.do(self.reader.fetched(shard))
            elif self.lease:
                if not self.said:
                    self.the_coordinator_gives(count=4)
                self.the_reader_is_answered()
            elif self.reader.wanting:
                self.the_reader_wants(count=4)
            self.the_timer_fires()
            if self.acks:
                self.acknowledgements_arrive()
        assert self.ended == 1, "it hangs"
        assert self.durable == set(range(self.SHARDS))
        super().teardown()


class AnyOrderWanted(AnyOrder):
    """By a reader that wants half of them by number."""

    WANTING = True


TestAnyOrder, TestAnyOrderWanted = AnyOrder.TestCase, AnyOrderWanted.TestCase
TestAnyOrder.settings = TestAnyOrderWanted.settings = settings(max_examples=40, stateful_step_count=40, deadline=None)
