"""The log says why shards are handed out again, of which job and data set, and how many: once, not for each reader."""

from __future__ import annotations

from tests.support.log_lines import capture_log
from tests.unit.session_bench import Bench, alone
from tfquiver.service.coordinator.sessions.readers import ReaderRequest


def told(lines: list[str]) -> list[str]:
    return [line for line in lines if "handed out again" in line]


def test_of_a_node_that_is_lost_a_line_for_all_of_its_readers() -> None:
    bench = Bench(40)
    session_id = bench.begin()
    for name, node in (("a", "n"), ("b", "n"), ("c", "other")):
        bench.open(session_id, name, node=node)
        assert len(bench.lease(session_id, name, 1, 2).shards) == 2
    with capture_log() as lines:
        bench.sessions.node_lost("n")
        bench.sessions.expire()
        bench.sessions.expire()
    assert told(lines) == [
        f"handed out again of data set {bench.digest_id.hex()} to readers of job job: 4 shards, since node n is lost; "
        "some of those records may come twice"
    ]
    with capture_log() as lines:
        bench.sessions.node_lost("other")
        bench.sessions.expire()
        assert not told(lines), "of that job only just now"
        bench.clock.advance(10.0)
        bench.sessions.expire()
    assert len(told(lines)) == 1 and "job job: 2 shards, since" in told(lines)[0]


def test_of_readers_that_are_back_without_them_not_back_or_gone() -> None:
    bench = Bench()
    with capture_log() as lines:
        session_id, held = alone(bench)
        bench.sessions.readers.open(session_id, ReaderRequest("a", "n", "2"), held[:1], True)
        bench.sessions.expire()
        assert "job job: 3 shards, since a reader at node n is back without them;" in told(lines)[0]
        bench.clock.advance(10.0)
        bench.sessions.expire()
        bench.sessions.node_seen("n", "3")
        bench.clock.advance(10.0)
        bench.sessions.expire()
        assert "job job: 1 shard, since a reader at node n is not back in time;" in told(lines)[1]
        bench.clock.advance(10.0)
        bench.open(session_id, "b")
        bench.lease(session_id, "b", 1, 4)
        bench.sessions.readers.close(session_id, "b", False)
        bench.sessions.expire()
    assert "job job: 4 shards, since a reader at node n has gone;" in told(lines)[2]
    assert len(told(lines)) == 3


def test_of_a_reader_from_before_a_restart_that_does_not_come_back_nobody_knows_how_many() -> None:
    bench = Bench()
    alone(bench)
    bench.restart(bench.log)
    with capture_log() as lines:
        bench.clock.advance(11.0)
        bench.sessions.expire()
    (line,) = told(lines)
    assert "job job: what 1 reader held before the coordinator was started again, since" in line


def test_nothing_is_said_of_what_nobody_reads_again() -> None:
    bench = Bench()
    with capture_log() as lines:
        session_id, held = alone(bench)
        bench.open(session_id, "a", held)  # its node's connection was cut
        bench.sessions.readers.ack(session_id, "a", held)
        bench.sessions.node_lost("n")
        own = bench.sessions.admission.own_session("r", "own", bench.digest_id, bench.shards, "job")
        bench.open(own, "r")
        bench.lease(own, "r", 1, 2)
        bench.sessions.readers.close(own, "r", False)  # take(2)
        bench.sessions.expire()
    assert told(lines) == []


def test_of_many_jobs_some_have_a_line_and_the_others_one_together() -> None:
    bench = Bench()
    with capture_log() as lines:
        for number in range(4):
            session = bench.session(bench.begin(f"p:{number}"))
            for job in range(5):
                session.job = session.pays = f"job {number} {job}"
                bench.sessions._decisions.given_back.note(session, 1, "node n is lost")
        bench.sessions.expire()
    assert len(told(lines)) == 11
    assert told(lines)[-1] == "handed out again to readers of 10 jobs more: 10 shards"
