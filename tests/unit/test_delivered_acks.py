"""What the trainer says it was delivered (`exactly_once`), at the coordinator and on its way through the node."""

from __future__ import annotations

import pytest

from tests.unit.session_bench import END, Bench
from tfquiver import errors
from tfquiver.service.coordinator.sessions.session_records import still
from tfquiver.service.coordinator.sessions.which_session_a_reader_joins.tickets import Tickets


@pytest.fixture
def bench() -> Bench:
    return Bench()


def test_a_trainer_acks_what_its_readers_hold(bench: Bench) -> None:
    session_id = bench.begin()
    bench.open(session_id, "a")
    leased = bench.lease(session_id, "a", 1, n=4).shards
    bench.sessions.readers.ack(session_id, "", leased[:3])
    bench.sessions.readers.ack(session_id, "", leased[:3])
    assert (bench.session(session_id).acked_shards, bench.session(session_id).leased_shards) == (3, 1)
    bench.open(session_id, "b")
    bench.sessions.readers.close(session_id, "a", complete=False)
    assert bench.lease(session_id, "b", 1, n=4).shards == leased[3:], "what was delivered is not read again"


def test_readers_that_ack_nothing_end_by_draining_and_what_they_took_along_is_the_shortfall(bench: Bench) -> None:
    session_id = bench.begin()
    bench.open(session_id, "a")
    leased = bench.lease(session_id, "a", 1, n=4).shards
    assert bench.lease(session_id, "a", 2, draining=True) == END
    bench.sessions.readers.ack(session_id, "", leased[:1])
    bench.sessions.readers.close(session_id, "a", complete=False)
    assert bench.session(session_id).shortfall == 3
    bench.sessions.readers.ack(session_id, "", leased[:2])
    assert bench.session(session_id).shortfall == 2
    bench.restart(list(bench.log))
    assert bench.session(session_id).shortfall == 2
    bench.restart(list(still(bench.session(session_id), Tickets(), 0)()))
    assert bench.session(session_id).shortfall == 2
    bench.sessions.readers.ack(session_id, "", leased)
    session = bench.session(session_id)
    assert (session.acked_shards, session.shortfall, session.settled_acked) == (4, 0, 4)
    bench.sessions.readers.ack(session_id, "", leased)  # it may be said again


def test_wrong_acks_are_refused(bench: Bench) -> None:
    session_id = bench.begin()
    with pytest.raises(errors.InvalidArgumentError, match="no shard 4"):
        bench.sessions.readers.ack(session_id, "", [4])
    with pytest.raises(errors.NotFoundError, match="no session"):
        bench.sessions.readers.ack("gone", "", [0])
