"""What sessions promise, one sentence a test; any order of events is driven in test_session_machine.py."""

from __future__ import annotations

import random
import zlib
from collections.abc import Sequence

import pytest

from tests.unit.cached import Cached
from tfquiver import errors
from tfquiver.clock import ManualClock
from tfquiver.proto.tfquiver.v1 import commit_log_pb2 as log_pb2
from tfquiver.proto.tfquiver.v1 import types_pb2
from tfquiver.service.coordinator.sessions import resumptions
from tfquiver.service.coordinator.sessions.decisions import SessionLimits
from tfquiver.service.coordinator.sessions.readers import ReaderRequest
from tfquiver.service.coordinator.sessions.session import LeaseResult, LeaseState, Session
from tfquiver.service.coordinator.sessions.session_book import Record
from tfquiver.service.coordinator.sessions.sessions import Sessions
from tfquiver.service.coordinator.sessions.wish import Wish

LIMITS = SessionLimits(grace_s=10.0, idle_s=100.0, ended_s=50.0, max_sessions=4, stall_s=5.0)
WAIT, END = LeaseResult(LeaseState.WAIT), LeaseResult(LeaseState.END)


class Bench:
    """Sessions over one data set, and short ways to call them."""

    def __init__(self, shards: int = 4) -> None:
        self.clock, self.rng = ManualClock(), random.Random(1)
        self.shards = shards
        self.cached = Cached([16] * shards, self.clock)
        self.digest_id = self.cached.digest_id
        self.log: list[Record] = []
        self.changed: list[str] = []
        self.sessions = self.new()

    def new(self) -> Sessions:
        sessions = Sessions(self.clock, self.rng, self.log.append, self.cached.view, self.changed.append, LIMITS)
        self.cached.begin(sessions)
        return sessions

    def restart(self, records: Sequence[Record]) -> None:
        self.sessions = self.new()
        for record in list(records):
            self.sessions.apply(record)
        self.sessions.restored()

    def ticket(self, provider: str = "p:1", repetition: int = 0, restored: bool = False) -> str | None:
        return self.sessions.admission.ticket("key", provider, repetition, restored, self.digest_id, self.shards, "job")

    def begin(self, provider: str = "p:1") -> str:
        session_id = self.ticket(provider)
        assert session_id
        return session_id

    def open(
        self, session_id: str, name: str, held: Sequence[int] = (), node: str = "n", label: str = "", live: bool = True
    ) -> list[int]:
        return self.sessions.readers.open(session_id, ReaderRequest(name, node, "1", label), held, live)[1]

    def lease(
        self, session_id: str, name: str, sequence: int, n: int = 1, draining: bool = False, last: bool = True
    ) -> LeaseResult:
        reader = self.sessions.readers.find(session_id, name)
        return self.sessions.readers.lease(session_id, reader, sequence, n, 1 << 40, draining, last)

    def session(self, session_id: str) -> Session:
        return self.sessions.session(session_id)


@pytest.fixture
def bench() -> Bench:
    return Bench()


def alone(bench: Bench, n: int = 4) -> tuple[str, list[int]]:
    """A session with one reader that holds `n` shards."""
    session_id = bench.begin()
    bench.open(session_id, "a")
    return session_id, list(bench.lease(session_id, "a", 1, n).shards)


# Leases.


def test_a_repeated_request_has_the_same_reply_and_an_older_one_none(bench: Bench) -> None:
    session_id, shards = alone(bench, 2)
    assert bench.lease(session_id, "a", 1, 3).shards == tuple(shards)
    second = bench.lease(session_id, "a", 2, 1)
    assert not set(second.shards) & set(shards)
    with pytest.raises(errors.InvalidArgumentError, match="sequence: 1 is older than 2"):
        bench.lease(session_id, "a", 1)
    assert bench.session(session_id).leased_shards == 3


def test_a_wait_is_an_answer_only_when_it_is_the_last(bench: Bench) -> None:
    session_id, _ = alone(bench)
    bench.open(session_id, "b")
    assert bench.lease(session_id, "b", 1, last=False) == WAIT
    bench.sessions.readers.close(session_id, "a", False)
    assert bench.lease(session_id, "b", 1, last=False).state is LeaseState.LEASED


def test_near_the_end_readers_get_fewer_at_a_time() -> None:
    bench = Bench(100)
    session_id = bench.begin()
    for name in "ab":
        bench.open(session_id, name)
    assert len(bench.lease(session_id, "a", 1, 1000).shards) == 25
    assert len(bench.lease(session_id, "b", 1, 1000).shards) == 19


def test_hits_misses_and_shards_read_again_are_counted(bench: Bench) -> None:
    session_id = bench.begin()
    bench.cached.hold([1])
    bench.open(session_id, "a")
    assert bench.lease(session_id, "a", 1, 2).shards[0] == 1
    bench.sessions.readers.close(session_id, "a", False)
    bench.open(session_id, "b")
    bench.lease(session_id, "b", 1, 4)
    counters = bench.session(session_id).counters
    assert (counters.resident_leases, counters.missing_leases, counters.reread) == (2, 4, 2)


def test_a_lease_that_never_reached_its_reader_is_not_read_again(bench: Bench) -> None:
    """Its node heard of the new coordinator while the answer was under way: it opens again with what it has."""
    session_id = bench.begin()
    bench.open(session_id, "a")
    assert len(bench.lease(session_id, "a", 1, 4).shards) == 4
    bench.open(session_id, "a", held=[])
    assert len(bench.lease(session_id, "a", 1, 4).shards) == 4
    assert bench.session(session_id).counters.reread == 0


def test_who_opened_again_does_not_use_the_earlier_opening(bench: Bench) -> None:
    session_id, _ = alone(bench)
    before = bench.sessions.readers.find(session_id, "a")
    bench.open(session_id, "a")
    with pytest.raises(errors.NotFoundError, match="call OpenReader"):
        bench.sessions.readers.lease(session_id, before, 2, 1, 1, False, True)


# The end.


def test_end_waits_for_those_who_have_not_drained(bench: Bench) -> None:
    session_id, shards = alone(bench)
    bench.open(session_id, "b")
    assert bench.lease(session_id, "b", 1, draining=True) == WAIT
    bench.sessions.readers.ack(session_id, "a", shards[:2])
    assert bench.lease(session_id, "b", 2, draining=True) == WAIT
    bench.changed.clear()
    assert bench.lease(session_id, "a", 2, draining=True) == END, "all it has not acked is held back"
    assert session_id in bench.changed, "who waits must hear of it"
    assert bench.lease(session_id, "b", 3, draining=True) == END
    bench.sessions.readers.close(session_id, "a", True)
    bench.sessions.readers.close(session_id, "b", True)
    assert (bench.session(session_id).acked_shards, bench.session(session_id).shortfall) == (4, 0)


def test_who_leaves_without_having_been_told_end_gives_back(bench: Bench) -> None:
    session_id, _ = alone(bench)
    bench.sessions.readers.close(session_id, "a", True)
    assert (bench.session(session_id).acked_shards, bench.session(session_id).leased_shards) == (0, 0)
    bench.sessions.readers.close(session_id, "a", True)
    bench.sessions.readers.close("none", "a", True)


def test_what_is_lost_after_end_is_the_shortfall(bench: Bench) -> None:
    session_id, shards = alone(bench)
    bench.sessions.readers.ack(session_id, "a", shards[:1])
    assert bench.lease(session_id, "a", 2, draining=True) == END
    assert bench.session(session_id).shortfall == 0
    bench.sessions.node_lost("n")
    assert bench.session(session_id).shortfall == 3
    assert bench.ticket() is None
    for records in (bench.log, list(bench.sessions.snapshot())):
        bench.restart(records)
        assert bench.session(session_id).shortfall == 3


def test_an_empty_data_set_ends_at_once() -> None:
    bench = Bench(0)
    assert bench.ticket() is None


def test_a_pipeline_held_up_by_another_data_set_is_let_go(bench: Bench) -> None:
    """Two workers read two sessions in step; each waits in one for what lies in the other's pool of the other."""
    one, two = bench.begin("p:1"), bench.begin("p:2")
    for session_id, holder, waiting in ((one, "a", "b"), (two, "b", "a")):
        bench.open(session_id, f"{holder}{session_id}", label=holder)
        assert len(bench.lease(session_id, f"{holder}{session_id}", 1, 4).shards) == 4
        bench.open(session_id, f"{waiting}{session_id}", label=waiting)
        assert bench.lease(session_id, f"{waiting}{session_id}", 1, draining=True) == WAIT
    bench.clock.advance(LIMITS.stall_s)
    assert bench.lease(one, f"b{one}", 2, draining=True) == END
    assert bench.lease(two, f"a{two}", 2, draining=True) == WAIT, "one at a time: the others may go on now"
    assert not bench.session(one).ended
    assert [bench.session(session_id).counters.left_early for session_id in (one, two)] == [1, 0]


def test_who_was_draining_and_is_given_more_has_not_drained(bench: Bench) -> None:
    session_id, shards = alone(bench)
    for name in "bc":
        bench.open(session_id, name)
    bench.sessions.readers.ack(session_id, "a", shards[:3])
    assert bench.lease(session_id, "b", 1, draining=True) == WAIT
    bench.sessions.readers.close(session_id, "a", False)
    assert bench.lease(session_id, "b", 2, draining=True).shards == (shards[3],)
    assert bench.lease(session_id, "c", 1, draining=True) == WAIT


# Failures.


def test_a_reader_of_a_node_that_is_not_heard_of_has_its_grace(bench: Bench) -> None:
    session_id = bench.begin()
    bench.open(session_id, "a", live=False)
    bench.open(session_id, "b", node="other", live=False)
    bench.clock.advance(LIMITS.grace_s - 1)
    bench.sessions.node_seen("other", "1")
    bench.sessions.expire()
    assert set(bench.session(session_id).readers) == {"a", "b"}
    bench.clock.advance(1)
    bench.sessions.expire()
    assert set(bench.session(session_id).readers) == {"b"}


def test_after_a_restart_nothing_is_given_before_the_known_have_said_what_they_hold(bench: Bench) -> None:
    session_id, shards = alone(bench, 2)
    bench.restart(bench.log)
    bench.open(session_id, "stranger")
    assert bench.lease(session_id, "stranger", 1, 4) == WAIT
    with pytest.raises(errors.NotFoundError, match="call OpenReader"):
        bench.lease(session_id, "a", 2)
    assert bench.open(session_id, "a", shards) == []
    given = [*bench.lease(session_id, "stranger", 2, 4).shards, *bench.lease(session_id, "stranger", 3, 4).shards]
    assert sorted([*given, *shards]) == [0, 1, 2, 3]


def test_who_does_not_come_back_in_its_grace_gives_back(bench: Bench) -> None:
    session_id, _ = alone(bench)
    bench.restart(bench.log)
    bench.open(session_id, "stranger")
    bench.clock.advance(LIMITS.grace_s)
    bench.changed.clear()
    bench.sessions.expire()
    assert session_id in bench.changed
    assert len(bench.lease(session_id, "stranger", 1, 4).shards) == 4


def test_a_farewell_to_a_restarted_coordinator_waits_for_what_was_held(bench: Bench) -> None:
    session_id, shards = alone(bench)
    assert bench.lease(session_id, "a", 2, draining=True) == END
    bench.restart(bench.log)
    with pytest.raises(errors.NotFoundError, match="call OpenReader"):
        bench.sessions.readers.close(session_id, "a", True)
    bench.open(session_id, "a", shards)
    bench.sessions.readers.close(session_id, "a", True)
    assert (bench.session(session_id).acked_shards, bench.session(session_id).shortfall) == (4, 0)


def test_who_was_let_go_before_the_end_and_says_farewell_after_a_restart_is_believed(bench: Bench) -> None:
    """That it was told END is known to it alone."""
    session_id, shards = alone(bench)
    bench.restart(bench.log)
    bench.open(session_id, "a", shards)
    bench.sessions.readers.close(session_id, "a", True)
    assert (bench.session(session_id).acked_shards, bench.session(session_id).leased_shards) == (4, 0)


def test_who_comes_back_late_drops_what_others_have(bench: Bench) -> None:
    session_id, shards = alone(bench)
    bench.sessions.node_lost("n")
    bench.open(session_id, "b", node="other")
    taken = bench.lease(session_id, "b", 1, 2).shards
    bench.sessions.readers.ack(session_id, "b", taken[:1])
    assert bench.open(session_id, "a", shards) == sorted(taken)
    assert bench.session(session_id).leased_shards == 3


def test_what_came_in_a_lost_reply_goes_back_when_it_opens_again(bench: Bench) -> None:
    session_id, shards = alone(bench, 2)
    bench.open(session_id, "a", shards[:1])
    assert bench.session(session_id).leased_shards == 1
    assert len(bench.lease(session_id, "a", 1, 4).shards) == 3


def test_acks_are_counted_once_and_believed_from_anybody(bench: Bench) -> None:
    session_id, shards = alone(bench)
    bench.open(session_id, "b")
    before = len(bench.log)
    bench.sessions.readers.ack(session_id, "b", shards[:1])
    bench.sessions.readers.ack(session_id, "a", [shards[0], shards[1], shards[1]])
    bench.sessions.readers.ack(session_id, "a", shards[:2])
    assert len(bench.log) == before + 2
    session = bench.session(session_id)
    assert (session.acked_shards, session.leased_shards) == (2, 2)


@pytest.mark.parametrize("shard", [4, 2**32 - 1])
def test_a_shard_that_there_is_not_is_named(bench: Bench, shard: int) -> None:
    session_id, _ = alone(bench)
    with pytest.raises(errors.InvalidArgumentError, match=f"shards: no shard {shard} in a data set of 4"):
        bench.sessions.readers.ack(session_id, "a", [shard])
    with pytest.raises(errors.InvalidArgumentError, match=f"held: no shard {shard}"):
        bench.open(session_id, "a", [shard])


def test_what_is_not_there_is_named(bench: Bench) -> None:
    session_id = bench.begin()
    with pytest.raises(errors.NotFoundError, match="no session 'none'"):
        bench.open("none", "a")
    with pytest.raises(errors.NotFoundError, match=f"reader 'a' of session {session_id}"):
        bench.sessions.readers.ack(session_id, "a", [0])


# A trainer's own session.


def own(bench: Bench, reader: str = "a", digest: bytes = b"", done: bytes = b"", seed: int = 5) -> str:
    digest = digest or bench.digest_id
    return bench.sessions.admission.own_session(reader, "key", digest, bench.shards, "job", Wish(seed), done)


def test_a_session_of_ones_own_is_made_once_and_goes_on_where_the_checkpoint_was(bench: Bench) -> None:
    session_id = own(bench, done=zlib.compress(b"\x05"))
    assert own(bench) == session_id
    bench.restart(bench.log)
    assert own(bench) == session_id
    bench.open(session_id, "a")
    assert sorted(bench.lease(session_id, "a", 1, 4).shards) == [1, 3]
    with pytest.raises(errors.InvalidArgumentError, match="digest_id"):
        own(bench, digest=b"x" * 32)
    before = len(bench.log)
    with pytest.raises(errors.InvalidArgumentError, match="done_bitmap"):
        own(bench, "b", done=b"no bitmap")
    assert len(bench.log) == before


def test_epochs_of_a_job_are_numbered_also_after_sessions_are_forgotten(bench: Bench) -> None:
    assert [bench.session(own(bench, name)).epoch for name in "abc"] == [0, 1, 2]
    bench.clock.advance(LIMITS.idle_s)
    bench.sessions.expire()
    assert list(bench.sessions) == []
    bench.restart(list(bench.sessions.snapshot()))
    assert bench.session(own(bench, "d")).epoch == 3


# Room.


def test_positions_to_go_on_from_are_kept_within_bounds(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resumptions, "MAX_ASKED_BYTES", 300)
    position = types_pb2.Position(epoch=1, done_bitmap=zlib.compress(b"\x01"), seed=5)

    def resume(key: str) -> None:
        asked = log_pb2.ResumeAsked(session_key=key, digest_id=bench.digest_id, job="job", position=position)
        assert bench.sessions.admission.resume(asked, bench.shards)

    resume("begun")
    session_id = bench.sessions.admission.own_session("r", "begun", bench.digest_id, bench.shards, "job")
    for number in range(10):
        resume(f"key {number}")
        resume(f"key {number}")
    kept = [record.resume_asked for record in bench.sessions.snapshot() if record.HasField("resume_asked")]
    assert 2 <= len(kept) < 10 and kept[-1].session_key == "key 9"
    assert sum(asked.ByteSize() for asked in kept) <= 300
    start = bench.sessions.resumptions.start("key 9", bench.digest_id)
    assert start and (start.position.epoch, start.takes_over) == (1, session_id)
    bench.restart(list(bench.sessions.snapshot()))
    assert bench.sessions.resumptions.start("key 9", bench.digest_id) == start


def test_sessions_that_nobody_reads_are_forgotten_in_their_time(bench: Bench) -> None:
    ended, open_ = alone(bench)[0], bench.begin("p:2")
    bench.lease(ended, "a", 2, draining=True)
    bench.sessions.readers.close(ended, "a", True)
    bench.open(bench.begin("p:3"), "stays")
    bench.clock.advance(LIMITS.ended_s)
    bench.sessions.expire()
    assert next(iter(bench.sessions)).session_id == open_
    bench.clock.advance(LIMITS.idle_s)
    bench.sessions.expire()
    [kept] = bench.sessions
    assert "stays" in kept.readers
    bench.restart(bench.log)
    assert len(list(bench.sessions)) == 1


def test_ended_sessions_make_room_then_those_left_alone_and_those_that_are_read_never(bench: Bench) -> None:
    ended = bench.begin("ended:1")
    looked_at = [bench.begin(f"look:{number}") for number in range(2)]
    for session_id in (*looked_at, ended):
        bench.clock.advance(1)
        bench.open(session_id, "a")
        bench.lease(session_id, "a", 1)
        bench.sessions.readers.close(session_id, "a", False)
    bench.open(ended, "f")
    bench.sessions.readers.ack(ended, "f", range(bench.shards))
    bench.lease(ended, "f", 1, draining=True)
    bench.sessions.readers.close(ended, "f", True)
    read = []
    for victim in (None, ended, *looked_at, None):
        assert not victim or bench.session(victim)
        read.append(bench.begin(f"read:{len(read)}"))
        bench.open(read[-1], "a")
        if victim:
            with pytest.raises(errors.NotFoundError):
                bench.session(victim)
        if len(read) == 4:
            break
    assert [session.session_id for session in bench.sessions] == read
    with pytest.raises(errors.ResourceExhaustedError, match="4 sessions are open already"):
        bench.begin("p:6")


def test_neither_epochs_nor_jobs_with_one_seed_read_in_one_order() -> None:
    """With one order, jobs in step fetch the same shards one after the other instead of each another part."""
    bench = Bench(60)
    orders = []
    for job, epoch in (("a", 0), ("a", 1), ("b", 0), ("b", 1)):
        reader = f"{job}{epoch}"
        admission = bench.sessions.admission
        session_id = admission.own_session(reader, "key", bench.digest_id, bench.shards, job, Wish(seed=7))
        assert bench.session(session_id).epoch == epoch
        bench.open(session_id, reader)
        orders.append(bench.lease(session_id, reader, 1, 60).shards)
    assert len({*orders}) == 4
    again = Bench(60)
    session_id = again.sessions.admission.own_session("a0", "other", again.digest_id, bench.shards, "a", Wish(seed=7))
    again.open(session_id, "a0")
    assert again.lease(session_id, "a0", 1, 60).shards == orders[0], "a seed makes it repeatable"


# Tickets.


def finish(bench: Bench, session_id: str) -> None:
    bench.open(session_id, "f", node="f")
    bench.sessions.readers.ack(session_id, "f", range(bench.shards))
    bench.sessions.readers.close(session_id, "f", True)


def test_a_ticket_is_found_again_and_each_epoch_has_its_own(bench: Bench) -> None:
    session_id = bench.begin()
    assert bench.ticket() == session_id
    assert len({session_id, bench.ticket(repetition=1), bench.ticket("p:2")}) == 3
    finish(bench, session_id)
    assert bench.ticket() is None
    bench.restart(list(bench.sessions.snapshot()))
    assert bench.ticket() is None
    with pytest.raises(errors.InvalidArgumentError, match="digest_id"):
        bench.sessions.admission.ticket("key", "p:1", 1, False, b"x" * 32, 4, "job")


@pytest.mark.parametrize("from_snapshot", [False, True])
def test_restored_providers_of_one_process_adopt_different_sessions(bench: Bench, from_snapshot: bool) -> None:
    first, second = bench.begin("old:1"), bench.begin("old:2")
    assert bench.ticket("new:1", restored=True) == first
    bench.restart(list(bench.sessions.snapshot()) if from_snapshot else bench.log)
    assert bench.ticket("new:2", restored=True) == second
    third = bench.ticket("new:3", restored=True)
    assert third not in (first, second, None)
    assert bench.ticket("newer:1", restored=True) == first, "of another process: the dispatcher restarted again"
    assert bench.ticket("new:1", restored=True) == first
    assert bench.ticket("new:1", repetition=1, restored=True) not in (first, second, third)


def test_sessions_that_are_read_are_adopted_first_and_ended_ones_only_untold(bench: Bench) -> None:
    bench.begin("old:1")
    read = bench.begin("old:2")
    bench.open(read, "a")
    assert bench.ticket("new:1", restored=True) == read
    told = Bench()
    finish(told, told.begin("old:1"))
    assert told.ticket("new:1", restored=True) is None, "the dispatcher went down before it wrote the end down"
    assert told.ticket("newer:1", restored=True) is not None, "that one was told: it wants the next epoch"


def test_what_a_log_does_not_say_is_not_there(bench: Bench) -> None:
    session_id, shards = alone(bench)
    bench.sessions.readers.ack(session_id, "a", shards[:2])
    snapshot = list(bench.sessions.snapshot())
    bench.restart(snapshot)
    assert list(bench.sessions.snapshot()) == snapshot
    bench.sessions.apply(Record(session_forgotten=log_pb2.SessionForgotten(session_id=session_id)))
    assert [record.WhichOneof("record") for record in bench.sessions.snapshot()] == ["epochs_counted"]
