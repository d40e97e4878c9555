"""Which sessions there are: of one's own, by ticket, resumed, forgotten in their time."""

from __future__ import annotations

import zlib

import pytest

from tests.support.steps import steps
from tests.unit.session_bench import LIMITS, Bench, alone
from tfquiver import errors
from tfquiver.proto.tfquiver.v1 import commit_log_pb2 as log_pb2
from tfquiver.proto.tfquiver.v1 import types_pb2
from tfquiver.service.coordinator.samplers_and_orders_of_an_epochs_shards.wish import Wish
from tfquiver.service.coordinator.sessions.session_book import Record
from tfquiver.service.coordinator.sessions.which_session_a_reader_joins import resumptions


@pytest.fixture
def bench() -> Bench:
    return Bench()


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


# Snapshots.


def test_a_snapshot_of_sessions_that_have_settled_costs_next_to_nothing_before_it_is_written() -> None:
    """Twenty thousand that were read in the last hour kept the loop for 70 ms."""
    bench, costs = Bench(), list[int]()
    for count in (10, 210):
        for number in range(count):
            created = log_pb2.SessionCreated(session_id=f"{count} {number}", session_key="key", shards=4, epoch=number)
            ended = log_pb2.SessionEnded(session_id=created.session_id, settled=True, acked=4)
            bench.log += [Record(session_created=created), Record(session_ended=ended)]
        bench.restart(bench.log)
        costs.append(steps(lambda: list(bench.sessions.still())))
    assert costs[1] - costs[0] < 30 * 210
    bench.restart(list(bench.sessions.snapshot()))
    assert [(one.epoch, one.acked_shards) for one in bench.sessions][10:] == [(number, 4) for number in range(210)]


def test_who_comes_to_a_settled_session_while_a_snapshot_is_written_is_known_after_it(bench: Bench) -> None:
    settled, held = alone(bench)
    bench.sessions.readers.ack(settled, "a", held)
    bench.sessions.readers.close(settled, "a", True)
    bench.open(bench.begin("p:2"), "b")
    stills, known = list(bench.sessions.still()), len(bench.log)
    bench.open(settled, "late", label="worker")
    bench.restart([record for records in stills for record in records()] + bench.log[known:])
    assert [(one.epoch, list(one.readers)) for one in bench.sessions] == [(0, ["late"]), (1, ["b"])]
    assert (bench.session(settled).labels, bench.session(settled).acked_shards) == ({"worker"}, 4)


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
