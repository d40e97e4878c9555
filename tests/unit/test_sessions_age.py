"""How long sessions that nobody reads are remembered, and with them what keeps a data set from being deleted, goes on
over restarts of the coordinator: whoever restarts it every half hour keeps nothing for ever."""

from __future__ import annotations

import pytest

from tests.unit.session_bench import LIMITS, Bench, alone
from tfquiver.proto.tfquiver.v1 import commit_log_pb2 as log_pb2
from tfquiver.service.coordinator.sessions.session_book import Record


class Kept(Bench):
    def __init__(self, by_snapshot: bool) -> None:
        super().__init__()
        self._by_snapshot = by_snapshot

    def again(self, away_s: float = 0.0) -> None:
        """It is stopped, and started so much later."""
        self.sessions.stopping()
        if self._by_snapshot:
            self.log[:] = list(self.sessions.snapshot())
        self.clock.advance(away_s)
        self.restart(self.log)


@pytest.fixture(params=["log", "snapshot"])
def bench(request: pytest.FixtureRequest) -> Kept:
    return Kept(request.param == "snapshot")


def read_whole(bench: Kept) -> str:
    session_id, held = alone(bench)
    bench.sessions.readers.ack(session_id, "a", held)
    bench.lease(session_id, "a", 2, draining=True)
    bench.sessions.readers.close(session_id, "a", True)
    return session_id


def passes(bench: Kept, seconds: float) -> list[str]:
    """Who is remembered then."""
    bench.clock.advance(seconds)
    bench.sessions.expire()
    return [one.session_id for one in bench.sessions]


def test_an_ended_session_is_as_old_after_restarts_as_before(bench: Kept) -> None:
    session_id = read_whole(bench)
    for _ in range(4):
        assert passes(bench, LIMITS.ended_s / 5) == [session_id]
        bench.again()
        assert bench.session(session_id).restored_at == bench.clock.now()
    assert bench.sessions.idle_s(bench.session(session_id)) == pytest.approx(LIMITS.ended_s * 4 / 5, abs=0.01)
    assert passes(bench, LIMITS.ended_s / 5 + 0.01) == []


def test_one_that_may_be_gone_on_with_too_and_who_comes_back_to_it_makes_it_young_again(bench: Kept) -> None:
    session_id, _ = alone(bench)
    bench.sessions.readers.close(session_id, "a", False)
    assert passes(bench, LIMITS.idle_s - 10) == [session_id]
    bench.again()
    bench.open(session_id, "b")
    bench.sessions.readers.close(session_id, "b", False)
    bench.again()
    assert passes(bench, LIMITS.idle_s - 10) == [session_id]
    bench.again()
    assert passes(bench, 10.01) == []


def test_time_without_a_coordinator_makes_nobody_older(bench: Kept) -> None:
    session_id = read_whole(bench)
    assert passes(bench, 20.0) == [session_id]
    bench.again(away_s=1e6)
    assert passes(bench, LIMITS.ended_s - 21.0) == [session_id]
    assert passes(bench, 1.01) == []


def test_one_that_is_killed_loses_half_a_minute_of_its_time_at_most(bench: Kept) -> None:
    session_id = read_whole(bench)
    for _ in range(40):
        assert passes(bench, 1.0) == [session_id]
    log = list(bench.log)
    bench.clock.advance(3.0)
    bench.restart(log)
    assert 9.0 < bench.sessions.idle_s(bench.session(session_id)) <= 40.0
    assert sum(record.HasField("time_passed") for record in log) == 1


def test_of_a_log_of_before_the_time_counts_from_now_and_is_kept_then(bench: Kept) -> None:
    created = log_pb2.SessionCreated(session_id="old", session_key="key", shards=4, job="run")
    ended = log_pb2.SessionEnded(session_id="old", settled=True, acked=4)
    bench.log += [Record(session_created=created), Record(session_ended=ended)]
    bench.restart(bench.log)
    bench.log[:] = list(bench.sessions.snapshot())  # as it is written at each start
    assert passes(bench, 20.0) == ["old"]
    bench.again()
    assert bench.sessions.idle_s(bench.session("old")) == pytest.approx(20.0, abs=0.01)
