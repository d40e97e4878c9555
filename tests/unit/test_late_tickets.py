"""Late tickets: what is given, to whom, and what a session that is read again after its end must not become."""

from __future__ import annotations

import pytest

from tests.unit.session_bench import END, LIMITS, WAIT, Bench, alone
from tfquiver import errors
from tfquiver.proto.tfquiver.v1 import commit_log_pb2 as log_pb2


@pytest.fixture
def bench() -> Bench:
    return Bench()


def late(bench: Bench, asker: str = "late") -> str | None:
    return bench.sessions.admission.late_ticket("key", bench.digest_id, asker)


def ended_short(bench: Bench) -> str:
    """A session that lacks three of its four shards: the worker that held them back was killed after END."""
    session_id, shards = alone(bench)
    bench.sessions.readers.ack(session_id, "a", shards[:1])
    assert bench.lease(session_id, "a", 2, draining=True) == END
    with pytest.raises(errors.UnavailableError):  # nobody is known to be lost yet
        late(bench)
    bench.sessions.readers.close(session_id, "a", False)
    return session_id


def test_who_comes_late_is_given_what_others_were_lost_with_after_the_end(bench: Bench) -> None:
    session_id = ended_short(bench)
    assert late(bench) == late(bench) == session_id
    for records in (bench.log, list(bench.sessions.snapshot())):
        bench.restart(records)
        assert (bench.session(session_id).shortfall, late(bench)) == (3, session_id)
    bench.open(session_id, "late")
    given = bench.lease(session_id, "late", 1, 4).shards
    assert (len(given), bench.session(session_id).counters.reread) == (3, 0), "what is leased was not journaled"
    assert bench.lease(session_id, "late", 2, draining=True) == END
    bench.sessions.readers.close(session_id, "late", True)
    assert (bench.session(session_id).ended, bench.session(session_id).shortfall, late(bench)) == (True, 0, None)
    for records in (bench.log, list(bench.sessions.snapshot())):
        bench.restart(records)
        assert (bench.session(session_id).ended, late(bench)) == (True, None)


def test_what_is_read_again_after_the_end_is_counted(bench: Bench) -> None:
    session_id = ended_short(bench)
    assert late(bench) == session_id
    bench.open(session_id, "late")
    assert len(bench.lease(session_id, "late", 1, 4).shards) == 3
    assert bench.session(session_id).counters.reread == 3


def test_a_provider_that_asks_again_does_not_end_what_is_read_again(bench: Bench) -> None:
    """As a dispatcher that was restarted does for a worker that asks it again."""
    session_id = ended_short(bench)
    assert late(bench) == session_id
    bench.open(session_id, "late")
    assert len(bench.lease(session_id, "late", 1, 1).shards) == 1
    assert bench.ticket("p:1") is None
    assert len(bench.lease(session_id, "late", 2, 4).shards) == 2, "nobody else would read them"


def test_who_comes_late_waits_for_readers_that_may_be_lost(bench: Bench) -> None:
    """The coordinator was restarted after END: it cannot know yet whether the last readers are still there."""
    session_id, shards = alone(bench)
    bench.sessions.readers.ack(session_id, "a", shards[:1])
    assert bench.lease(session_id, "a", 2, draining=True) == END
    bench.restart(bench.log)
    assert late(bench) == session_id
    bench.open(session_id, "late")
    assert bench.lease(session_id, "late", 1, draining=True) == WAIT
    bench.clock.advance(LIMITS.grace_s)
    bench.sessions.expire()
    bench.open(session_id, "late")
    assert len(bench.lease(session_id, "late", 1, 4).shards) == 3


def test_who_comes_late_is_given_nothing_of_another_iteration(bench: Bench) -> None:
    """Of the one before, which is over; nor of one of two that were read at the same time."""
    ended_short(bench)
    second = bench.begin("p:2")
    assert late(bench) is None
    third = bench.begin("p:3")
    for session_id in (second, third):
        bench.open(session_id, session_id)
        assert len(bench.lease(session_id, session_id, 1, 4).shards) == 4
        assert bench.lease(session_id, session_id, 2, draining=True) == END
        bench.sessions.readers.close(session_id, session_id, False)
        assert bench.session(session_id).shortfall == 4
    assert late(bench) is None
    bench.restart(list(bench.sessions.snapshot()))
    assert late(bench) is None


def reopened_and_left(bench: Bench) -> str:
    """The worker came back, was given a late ticket, began to read, and was lost again (or: its client left)."""
    session_id = ended_short(bench)
    assert late(bench) == session_id
    bench.open(session_id, "late")
    assert len(bench.lease(session_id, "late", 1, 4).shards) == 3
    bench.sessions.readers.close(session_id, "late", False)
    return session_id


def read_all(bench: Bench, session_id: str, name: str, complete: bool = True) -> None:
    """To its end; closed with all delivered, or not."""
    bench.open(session_id, name)
    bench.lease(session_id, name, 1, 4)
    assert bench.lease(session_id, name, 2, draining=True) == END
    bench.sessions.readers.close(session_id, name, complete)


def test_a_shortfall_stays_counted_when_who_came_late_is_lost_too(bench: Bench) -> None:
    session = bench.session(reopened_and_left(bench))
    assert session.shortfall == 3, "I-8: nobody is told"
    assert session.left_short, "the reaper waits 10 s, not 60, and the epoch ends short"


def test_a_shortfall_stays_counted_when_who_has_a_late_ticket_never_opens(bench: Bench) -> None:
    session_id = ended_short(bench)
    assert late(bench) == session_id
    assert bench.session(session_id).left_short


def test_what_was_reopened_and_left_does_not_keep_late_tickets_from_the_next_epoch(bench: Bench) -> None:
    reopened_and_left(bench)
    second = bench.begin("p:2")
    read_all(bench, second, "b", complete=False)
    assert late(bench) == second


@pytest.mark.parametrize("read", [0, 2])
def test_a_restored_provider_of_the_next_epoch_does_not_adopt_what_was_reopened(bench: Bench, read: int) -> None:
    """Dispatcher and workers of the next epoch were killed: its provider is made anew."""
    first = reopened_and_left(bench)
    second = bench.begin("p:2")
    if read:
        bench.open(second, "b")
        bench.sessions.readers.ack(second, "b", bench.lease(second, "b", 1, read).shards)
        bench.sessions.readers.close(second, "b", False)
    assert bench.ticket("q:1", restored=True) == second, f"an epoch of 4 shards is read as the 3 that {first} lacks"


def test_a_restored_provider_does_not_adopt_what_is_being_read_late(bench: Bench) -> None:
    """`repeat` before `distribute`: one worker is at repetition 1, one came late at 0; the dispatcher restarts."""
    first = ended_short(bench)
    assert late(bench) == first
    bench.open(first, "late")
    second = bench.begin("p:2")
    bench.open(second, "b")
    bench.lease(second, "b", 1, 1)
    assert bench.ticket("q:1", restored=True) == second


def test_a_session_may_be_short_while_it_is_not_known_who_is_lost(bench: Bench) -> None:
    """The worker was killed after END, and then the coordinator was restarted: the reaper asks within the grace."""
    session_id, shards = alone(bench)
    bench.sessions.readers.ack(session_id, "a", shards[:1])
    assert bench.lease(session_id, "a", 2, draining=True) == END
    bench.restart(bench.log)
    assert bench.session(session_id).left_short


def asks_until_told(bench: Bench, asker: str, step_s: float = 0.1) -> tuple[float, str | None]:
    """After how many seconds, and what."""
    began = bench.clock.now()
    while True:
        try:
            return bench.clock.now() - began, late(bench, asker)
        except errors.UnavailableError:
            bench.clock.advance(step_s)


def test_who_comes_late_waits_for_readers_that_were_lost_after_another_was_told_the_end(bench: Bench) -> None:
    """A machine goes, with worker and node, after a worker that only joined has had its answer; then another joins."""
    session_id, shards = alone(bench)
    bench.sessions.readers.ack(session_id, "a", shards[:1])
    assert bench.lease(session_id, "a", 2, draining=True) == END
    waited_s, given = asks_until_told(bench, "joined")
    assert (given, waited_s) == (None, pytest.approx(12, abs=0.2))
    bench.clock.advance(1)
    with pytest.raises(errors.UnavailableError):
        late(bench, "joined later")
    bench.sessions.node_lost("n")
    assert late(bench, "joined later") == session_id


def test_those_who_come_late_together_are_told_the_end_together(bench: Bench) -> None:
    session_id, _ = alone(bench)
    assert bench.lease(session_id, "a", 2, draining=True) == END
    for asker in "bcd":
        with pytest.raises(errors.UnavailableError):
            late(bench, asker)
    for _ in range(3):  # an error in between, which the client repeats
        bench.clock.advance(4)
    assert [late(bench, asker) for asker in "bcd"] == [None] * 3
    assert not bench.session(session_id).asked_late


def test_those_who_ask_no_more_are_forgotten(bench: Bench) -> None:
    session_id, _ = alone(bench)
    assert bench.lease(session_id, "a", 2, draining=True) == END
    for number in range(100):
        with pytest.raises(errors.UnavailableError):
            late(bench, f"asker {number}")
        bench.clock.advance(1)
    assert len(bench.session(session_id).asked_late) < 30


def test_a_session_may_be_short_until_its_node_is_known_to_be_lost(bench: Bench) -> None:
    """Machine gone: --node_timeout_ms and --worker_timeout_ms are both 10 s: the reaper may be the first to act."""
    session_id, shards = alone(bench)
    bench.sessions.readers.ack(session_id, "a", shards[:1])
    assert bench.lease(session_id, "a", 2, draining=True) == END
    assert bench.session(session_id).left_short, "the reaper finishes the worker's task: short, before anybody knows"
    bench.sessions.node_lost("n")
    assert bench.session(session_id).left_short


def test_an_epoch_that_was_broken_off_does_not_end_late_tickets(bench: Bench) -> None:
    """`for batch in data.take(1): ...`, and then a real epoch."""
    looked = bench.begin("p:1")
    bench.open(looked, "look")
    bench.lease(looked, "look", 1, 1)
    bench.sessions.readers.close(looked, "look", False)
    second = bench.begin("p:2")
    read_all(bench, second, "b", complete=False)
    assert late(bench) == second


def test_who_looks_at_a_batch_by_itself_does_not_end_late_tickets(bench: Bench) -> None:
    """`next(iter(read))` of the data set that is then distributed: same key, and no iteration of a dispatcher."""
    bench.sessions.admission.own_session("mine", "key", bench.digest_id, 4, "job")
    second = bench.begin("p:2")
    read_all(bench, second, "b", complete=False)
    assert late(bench) == second


def test_a_session_of_a_readers_own_is_not_the_newest(bench: Bench) -> None:
    """Read in the trainer between the end of the epoch's source and the return of a worker."""
    session_id = ended_short(bench)
    bench.sessions.admission.own_session("mine", "key", bench.digest_id, 4, "job")
    assert late(bench) == session_id


def test_a_session_of_a_readers_own_is_not_reopened_for_a_worker(bench: Bench) -> None:
    first = bench.begin("p:1")
    read_all(bench, first, "a")
    own = bench.sessions.admission.own_session("mine", "key", bench.digest_id, 4, "job")
    read_all(bench, own, "mine", complete=False)  # Ctrl-C in the trainer's loop
    assert late(bench) is None, (
        "the epoch of the dispatcher was whole: a worker that joins delivers other records twice"
    )


def test_nobody_is_waited_for_longer_who_would_be_given_nothing(bench: Bench) -> None:
    first = bench.begin("p:1")
    bench.open(first, "a")  # being read, too
    bench.lease(first, "a", 1, 1)
    second = bench.begin("p:2")
    read_all(bench, second, "b", complete=False)
    bench.lease(first, "a", 2, 4)
    assert bench.lease(first, "a", 3, draining=True) == END
    assert (bench.session(second).left_short, late(bench)) == (False, None)


def test_who_joins_before_the_loss_is_known_is_not_told_the_end(bench: Bench) -> None:
    """A machine is gone after END; its replacement asks sooner than --node_timeout_ms: 10 s. The iterator repeats what
    is UNAVAILABLE for 15 s."""
    session_id, shards = alone(bench)
    bench.sessions.readers.ack(session_id, "a", shards[:1])
    assert bench.lease(session_id, "a", 2, draining=True) == END
    for second in range(15):
        if second == 9:
            bench.sessions.node_lost("n")
        try:
            assert late(bench) == session_id, "it has ended by now, and nobody else comes"
            break
        except errors.UnavailableError:
            bench.clock.advance(1)
    else:
        pytest.fail("not within 15 s")


def test_a_job_that_resumed_begins_a_new_epoch_after_one_that_was_reopened_and_left(bench: Bench) -> None:
    """`resume=`: until its session has ended, further iterations go on with it. This one had."""
    old = bench.sessions.admission.ticket("older", "o:1", 0, False, bench.digest_id, 4, "job")
    assert old
    bench.open(old, "x")
    bench.sessions.readers.ack(old, "x", bench.lease(old, "x", 1, 1).shards)
    bench.sessions.readers.close(old, "x", False)
    asked = log_pb2.ResumeAsked(session_key="key", digest_id=bench.digest_id, job="job")
    assert bench.sessions.admission.resume(asked, 4)
    first = bench.begin("p:1")
    bench.open(first, "a")
    assert len(bench.lease(first, "a", 1, 4).shards) == 3
    assert bench.lease(first, "a", 2, draining=True) == END
    bench.sessions.readers.close(first, "a", False)
    assert late(bench) == first
    bench.open(first, "late")
    bench.sessions.readers.ack(first, "late", bench.lease(first, "late", 1, 4).shards[:2])
    bench.sessions.readers.close(first, "late", False)
    second = bench.session(bench.begin("p:2"))
    assert (second.epoch, second.acked_shards) == (1, 0), "the next epoch is what the last one lacked: one shard"


def test_what_is_read_again_after_its_end_is_not_waited_for_without_end(bench: Bench) -> None:
    """Two sources in one pipeline: its readers went early (0006), as they nearly always do. It ended nevertheless, and
    short. Who came late was lost, or its zip was over first. `left_early` has no time limit in the reaper, and counts
    sessions of earlier epochs, too."""
    session_id = bench.begin()
    other = bench.sessions.admission.ticket("other", "p:9", 0, False, bench.digest_id, 4, "job")
    assert other
    for each in (session_id, other):
        bench.open(each, "a" + each, label="w")
        bench.lease(each, "a" + each, 1, 4)
    bench.open(session_id, "b", label="w")
    bench.clock.advance(LIMITS.stall_s)
    assert bench.lease(session_id, "b", 1, draining=True) == END, "it goes early"
    assert bench.lease(session_id, "a" + session_id, 2, draining=True) == END
    for name in ("b", "a" + session_id):
        bench.sessions.readers.close(session_id, name, False)
    session = bench.session(session_id)
    assert session.ended
    assert not session.left_early
    assert session.shortfall == 4
    assert late(bench) == session_id
    bench.open(session_id, "late", label="w")
    bench.lease(session_id, "late", 1, 1)
    bench.sessions.readers.close(session_id, "late", False)
    assert not session.left_early, "tasks of lost workers are never finished: this epoch hangs, and those after it"
