"""What sessions promise, one sentence a test; any order of events is driven in test_session_machine.py."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import pytest

from tests.support.steps import steps
from tests.unit.session_bench import END, LIMITS, WAIT, Bench, alone
from tfquiver import errors
from tfquiver.proto.tfquiver.v1.commit_log_pb2 import CommitRecord, SessionCreated
from tfquiver.service.coordinator.sessions import sessions
from tfquiver.service.coordinator.sessions.lease import LeaseState
from tfquiver.service.coordinator.sessions.session import Session
from tfquiver.service.coordinator.sessions.session_book import SessionBook


@pytest.fixture
def bench() -> Bench:
    return Bench()


def test_a_repeated_request_has_the_same_reply_and_an_older_one_none(bench: Bench) -> None:
    session_id, shards = alone(bench, 2)
    assert bench.lease(session_id, "a", 1, 3).shards == tuple(shards)
    second = bench.lease(session_id, "a", 2, 1)
    assert not second.repeated
    assert bench.lease(session_id, "a", 2, 1).repeated, "nothing of it counts again"
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


def test_acknowledgements_may_be_on_their_way_through_the_node_before(bench: Bench) -> None:
    session_id = bench.begin()
    bench.open(session_id, "a", node="n")
    bench.lease(session_id, "a", 1, 4)
    bench.open(session_id, "a", held=[], node="of another incarnation")
    assert len(bench.lease(session_id, "a", 1, 4).shards) == 4
    assert bench.session(session_id).counters.reread == 4


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


def test_readers_that_wait_for_one_do_not_have_all_sessions_looked_at_each_time(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    session_id, _ = alone(bench)
    looked = [0]

    def counted(self: SessionBook) -> Iterator[Session]:
        looked[0] += 1
        return iter([self.session(session_id)])

    monkeypatch.setattr(SessionBook, "__iter__", counted)
    for number in range(10):
        bench.open(session_id, f"reader-{number}", label=f"worker-{number}")
    bench.clock.advance(LIMITS.stall_s)
    for sequence in (1, 2, 3):
        for number in range(10):
            assert bench.lease(session_id, f"reader-{number}", sequence, draining=True) == WAIT
    assert looked[0] == 1


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


@pytest.mark.parametrize("rotation", ["", "relevance"])
def test_who_comes_back_to_a_session_that_others_have_finished_is_given_nothing(rotation: str) -> None:
    """Of a session that lacked something at its end, got it from one who came late, and then lost all its readers."""
    bench = Bench(13, rotation)
    session_id, shards = alone(bench, 1)
    sequence = 1
    while len(shards) < 13:
        bench.sessions.readers.ack(session_id, "a", shards[:12])
        sequence += 1
        shards += bench.lease(session_id, "a", sequence, 1).shards
        bench.cached.look()
        assert sequence < 100
    bench.sessions.readers.ack(session_id, "a", shards[:12])
    assert bench.lease(session_id, "a", sequence + 1, draining=True) == END
    bench.sessions.node_lost("n")
    assert bench.sessions.admission.late_ticket("key", bench.digest_id, "late") == session_id
    bench.open(session_id, "b", node="other")
    bench.open(session_id, "c", node="other")
    assert bench.lease(session_id, "b", 1, 4).shards == (shards[12],)
    bench.sessions.readers.ack(session_id, "b", shards[12:])
    bench.sessions.node_lost("other")
    bench.open(session_id, "c", node="other")
    assert bench.lease(session_id, "c", 1, 4, draining=True) == END


def test_who_was_told_the_end_and_given_up_keeps_what_it_comes_back_with(bench: Bench) -> None:
    """Though the session was reopened meanwhile: when it closes, nobody else may be given what it has emitted."""
    session_id, shards = alone(bench)
    bench.sessions.readers.ack(session_id, "a", shards[:3])
    assert bench.lease(session_id, "a", 2, draining=True) == END
    bench.sessions.node_lost("n")
    assert bench.sessions.admission.late_ticket("key", bench.digest_id, "late") == session_id
    assert bench.open(session_id, "a", shards[3:]) == []
    bench.open(session_id, "b", node="other")
    bench.sessions.readers.close(session_id, "a", complete=True)
    assert bench.lease(session_id, "b", 1, 4, draining=True) == END


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


def test_a_session_that_is_over_keeps_no_room_for_what_was_leased() -> None:
    """It is kept for an hour, and with a thousand readers tens of thousands of shards are leased at one time."""
    bench = Bench(2000)
    session_id = bench.begin()
    bench.open(session_id, "a")
    shards = bench.lease(session_id, "a", 1, 2000).shards
    bench.sessions.readers.ack(session_id, "a", shards)
    bench.lease(session_id, "a", 2, draining=True)
    bench.sessions.readers.close(session_id, "a", True)
    session = bench.session(session_id)
    assert session.ended
    kept = (session._holders, session._maybe_delivered, session.presumed, session.undelivered)
    assert sum(map(sys.getsizeof, kept)) < 1000


def test_sessions_expire_in_parts_between_which_one_may_go(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sessions, "_EXPIRED_AT_ONCE", 2)
    bench = Bench()
    for number in range(4):
        bench.open(bench.begin(f"p:{number}"), f"r{number}")
    assert len(list(bench.sessions)) == 4
    expiring = bench.sessions.expiring()
    next(expiring)
    bench.sessions.forget_data_set(bench.digest_id)
    assert sum(1 for _ in expiring) == 1


def test_what_befalls_readers_costs_the_same_with_a_thousand_sessions_that_nobody_reads() -> None:
    costs = []
    for count in (10, 1000):
        bench = Bench()
        for number in range(count):
            made = SessionCreated(
                session_id=f"s{number}", session_key=f"k{number}", digest_id=bench.digest_id, shards=4
            )
            bench.sessions.apply(CommitRecord(session_created=made))
        bench.open("s3", "a")
        costs.append([
            steps(lambda bench=bench: bench.sessions.node_seen("n", "2")),  # type: ignore[misc]
            steps(lambda bench=bench: bench.sessions.deaf(1.0)),  # type: ignore[misc]
            steps(bench.sessions.jobs_of),
            steps(lambda bench=bench: bench.sessions.node_lost("n")),  # type: ignore[misc]
        ])  # fmt: skip
        assert bench.sessions.read() == [] == list(bench.session("s3").readers)
        bench.open("s3", "b")
        assert bench.sessions.read() == [bench.session("s3")]
        assert bench.sessions.jobs_of() == {bench.digest_id: frozenset({"k3"})}, "its key, where it has no name"
    assert costs[0] == costs[1]
