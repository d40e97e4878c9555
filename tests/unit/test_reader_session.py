"""One reader's state machine: exact sequences, and its invariants under any order of events."""

from __future__ import annotations

import numpy as np
import pytest

from tfquiver import errors
from tfquiver.service.node.reader_sessions.instructions import (
    AcksWaiting,
    Discard,
    Fetch,
    Instruction,
    Lease,
    LeaseState,
    Send,
    SendAcks,
    SendDropped,
    SendEnd,
    Tell,
)
from tfquiver.service.node.reader_sessions.reader_session import (
    BAD_LIMIT,
    MAX_CREDIT_BYTES,
    ReaderLimits,
    ReaderSession,
)
from tfquiver.service.node.reader_sessions.wanted_shard import NOBODY_S

LEASED, WAIT, END = LeaseState.LEASED, LeaseState.WAIT, LeaseState.END


def session(shards: int = 10, length: int = 100, credit: int = 400, **limits: float) -> ReaderSession:
    return ReaderSession(np.full(shards, length, np.uint64), credit, limits=ReaderLimits(**limits))  # type: ignore[arg-type]


def opened(**arguments: int) -> ReaderSession:
    made = session(**arguments)
    made.opened((), ())
    return made


def lease_of(instructions: list[Instruction]) -> Lease:
    (lease,) = [i for i in instructions if isinstance(i, Lease)]
    return lease


def kinds(instructions: list[Instruction]) -> list[type]:
    return [type(i) for i in instructions]


def test_it_leases_as_much_as_credit_and_half_of_it_more() -> None:
    assert session(credit=400).opened((), ()) == [Lease(1, 64, 600, True, 1000)]


def test_shards_are_sent_in_the_order_in_which_they_become_ready_until_credit_is_used() -> None:
    reader = opened(credit=150)
    assert reader.leased(LEASED, [(3, "a"), (5, "b"), (7, "a")], 0.0) == [Fetch(3, "a"), Fetch(5, "b"), Fetch(7, "a")]
    assert reader.fetched(7) == [Send(7)]
    assert Send(3) in reader.fetched(3)  # 50 of credit left: the shard that overdraws it still goes
    assert Send(5) not in reader.fetched(5)
    assert Send(5) not in reader.credit(50)
    assert Send(5) in reader.credit(1)


def test_what_was_never_sent_is_known_when_it_leaves() -> None:
    reader = opened(credit=150)
    reader.leased(LEASED, [(3, "a"), (5, "b"), (7, "a"), (8, "a")], 0.0)
    for shard in (7, 3, 5):
        reader.fetched(shard)  # two are sent, one waits for credit, one is being fetched
    assert (sorted(reader.held()), sorted(reader.given())) == ([3, 5, 7, 8], [3, 7])
    reader.bad(7, 1.0)
    assert sorted(reader.given()) == [3, 7], "it had some of that one"


def test_a_socket_that_is_full_holds_shards_back() -> None:
    reader = opened()
    reader.leased(LEASED, [(0, "")], 0.0)
    reader.blocked(True)
    assert Send(0) not in reader.fetched(0)
    assert Send(0) in reader.blocked(False)


def test_acknowledgements_go_in_batches_one_at_a_time() -> None:
    reader = opened()
    reader.leased(LEASED, [(i, "") for i in range(4)], 0.0)
    for shard in range(4):
        reader.fetched(shard)
    assert AcksWaiting() in reader.ack([0])
    assert AcksWaiting() in reader.ack([1])
    assert reader.flush_acks() == [SendAcks((0, 1))]
    assert AcksWaiting() not in reader.ack([2, 2, 0])
    assert reader.flush_acks() == []
    assert SendAcks((2,)) in reader.acks_durable()
    assert set(reader.held()) == {2, 3}


def test_only_what_was_sent_can_be_acknowledged() -> None:
    reader = opened(credit=1)
    reader.leased(LEASED, [(0, ""), (1, "")], 0.0)
    reader.fetched(0)
    reader.fetched(1)
    reader.ack([0, 1, 9])
    assert reader.flush_acks() == [SendAcks((0,))]
    with pytest.raises(errors.ProtocolError, match="shard 10"):
        reader.ack([10])


def test_end_waits_for_acknowledgements_to_be_durable() -> None:
    reader = opened()
    reader.leased(LEASED, [(0, "")], 0.0)
    reader.fetched(0)
    reader.leased(LEASED, [(1, "")], 0.0)
    reader.ack([0])
    assert reader.flush_acks() == [SendAcks((0,))]
    assert SendEnd() not in reader.leased(END, [], 0.0)
    assert reader.acks_durable() == [SendEnd()]


def waits_for_credit() -> ReaderSession:
    """Six shards are its own, four of them sent; nothing more is asked for before it has credit."""
    reader = opened(credit=400)
    reader.leased(LEASED, [(shard, "") for shard in range(6)], 0.0)
    for shard in range(6):
        reader.fetched(shard)
    return reader


def test_acknowledgements_that_wait_go_with_the_next_lease() -> None:
    reader = waits_for_credit()
    assert AcksWaiting() in reader.ack([0])
    assert lease_of(reader.credit(200)).acked == (0,)
    assert 0 in reader.held(), "until the reply has come"
    assert AcksWaiting() not in reader.ack([1]), "one call at a time"
    assert reader.flush_acks() == []
    assert AcksWaiting() in reader.leased(LEASED, [(6, ""), (7, "")], 0.0)
    assert 0 not in reader.held()
    assert reader.flush_acks() == [SendAcks((1,))]


def test_what_a_lease_was_to_acknowledge_is_not_lost_with_it() -> None:
    reader = waits_for_credit()
    reader.ack([0])
    assert lease_of(reader.credit(200)).acked == (0,)
    reader.ack([1])
    reader.lease_given_up()
    assert reader.flush_acks() == [SendAcks((0, 1))]
    assert reader.acks_unsettled()


def test_who_leaves_presumes_and_a_lease_acknowledges_for_good() -> None:
    reader = waits_for_credit()
    reader.leaving = True
    reader.ack([0])
    assert lease_of(reader.credit(200)).acked == ()
    assert reader.flush_acks() == [SendAcks((0,))]


def test_a_lease_that_is_asked_anew_takes_the_same_acknowledgements() -> None:
    """The first one may have arrived."""
    reader = opened(credit=100)
    reader.leased(LEASED, [(0, ""), (1, "")], 0.0)
    reader.fetched(0)
    reader.fetched(1)
    reader.ack([0])
    first = lease_of(reader.credit(100))
    assert first.acked == (0,)
    again = lease_of(reader.ack([1]))
    assert (again.sequence, again.draining, again.acked) == (first.sequence, True, (0,))


def test_draining_is_passed_on_under_the_same_sequence_and_void_when_more_was_sent() -> None:
    reader = opened()
    under_way = lease_of(reader.leased(LEASED, [(0, "")], 0.0))
    assert (under_way.sequence, under_way.draining) == (2, False)
    reader.fetched(0)
    assert not any(isinstance(i, Lease) and i.draining for i in reader.draining(0))
    asked = lease_of(reader.draining(1))
    assert (asked.sequence, asked.draining) == (2, True)
    with pytest.raises(errors.ProtocolError, match="after 2 shards of 1 that were sent"):
        reader.draining(2)


def test_a_bad_shard_is_dropped_fetched_and_sent_again_without_credit() -> None:
    reader = opened(credit=100)
    reader.leased(LEASED, [(0, "x"), (1, "x")], 0.0)
    reader.fetched(0)
    reader.fetched(1)
    assert reader.credit_bytes == 0
    assert reader.bad(0, 0.0) == [Fetch(0, "x", drop_first=True)]
    assert reader.fetched(0) == [Send(0)]
    assert reader.credit_bytes == 0
    assert 0 in reader.held()


def test_a_shard_that_is_always_bad_is_given_up_by_name() -> None:
    reader = ReaderSession(np.full(3, 10, np.uint64), 100, name_of="file-a at {}".format)
    reader.opened((), ())
    reader.leased(LEASED, [(2, "")], 0.0)
    for _ in range(BAD_LIMIT - 1):
        reader.fetched(2)
        reader.bad(2, 0.0)
    reader.fetched(2)
    (told,) = [i for i in reader.bad(2, 0.0) if isinstance(i, Tell)]
    assert "file-a at 2" in str(told.error)
    assert not told.fatal


def test_of_a_file_that_has_changed_a_reader_is_told_once() -> None:
    """It was told for each of its shards."""
    reader = opened()
    reader.leased(LEASED, [(shard, "") for shard in range(3)], 0.0)
    told = []
    for shard, file in enumerate(("b/f", "b/f", "b/g")):
        out = reader.fetch_failed(shard, errors.StaleDigestError(f"gs://{file}: the object has changed"), 0.0)
        told += [str(one.error) for one in out if isinstance(one, Tell) and not one.fatal]
    assert told == ["gs://b/f: the object has changed", "gs://b/g: the object has changed"]


def test_a_failed_shard_leaves_the_others_going_and_ends_the_reader_when_only_it_is_left() -> None:
    reader = opened()
    stale = errors.StaleDigestError("gs://b/f: it changed")
    reader.leased(LEASED, [(0, ""), (1, "")], 0.0)
    out = reader.fetch_failed(0, stale, 0.0)
    assert Tell(stale, fatal=False) in out
    reader.fetched(1)
    assert Tell(stale, fatal=True) not in reader.leased(WAIT, [], 0.0)  # shard 1 is not emitted yet
    out = reader.ack([1])
    assert Tell(stale, fatal=True) in out
    assert not any(isinstance(i, Lease) and i.draining for i in out), "the session must not end without shard 0"
    assert 0 in reader.held()


def test_a_store_that_is_away_is_tried_again_until_the_deadline() -> None:
    reader = opened(fetch_deadline_s=10)
    away = errors.UnavailableError("gs://b/f: 503")
    reader = session(fetch_deadline_s=10)
    reader.opened((), ())
    reader.leased(LEASED, [(0, "")], 100.0)
    first = reader.fetch_failed(0, away, 101.0)
    assert first == [Tell(away, fatal=False), Fetch(0, "", after_s=0.1)]
    assert reader.fetch_failed(0, away, 102.0) == [Fetch(0, "", after_s=0.2)]
    assert Tell(away, fatal=False) in reader.fetch_failed(0, away, 111.0)
    assert reader.fetched(0) == [Discard(0)]


def test_of_a_store_that_is_away_a_reader_is_told_now_and_then_not_for_each_shard() -> None:
    reader = session(fetch_deadline_s=300)
    reader.opened((), ())
    reader.leased(LEASED, [(shard, "") for shard in range(4)], 0.0)

    def told(now_s: float, *words: str) -> list[str]:
        out = [reader.fetch_failed(shard, errors.UnavailableError(said), now_s) for shard, said in enumerate(words)]
        assert all(isinstance(one[-1], Fetch) for one in out), "each is tried again"
        return [str(one.error) for each in out for one in each if isinstance(one, Tell)]

    assert told(1.0, *["store: 503"] * 4) == ["store: 503"]
    assert told(60.0, *["store: 503"] * 4) == []
    assert told(61.0, *["store: 503"] * 4) == ["store: 503"], "it still is"
    assert told(200.0, "a: 503", "b: 503", "c: 503", "d: 503") == ["a: 503", "b: 503", "c: 503"]


def test_that_nobody_can_compute_a_shard_is_soon_believed_where_all_were_asked() -> None:
    here, everywhere = errors.NobodyComputesError("derived"), errors.NobodyComputesError("derived")
    everywhere.everywhere = True
    for error, given_up in ((errors.UnavailableError("derived"), False), (here, False), (everywhere, True)):
        reader = session(fetch_deadline_s=120)
        reader.opened((), ())
        reader.leased(LEASED, [(0, "")], 100.0)
        assert Fetch(0, "", after_s=0.1) in reader.fetch_failed(0, error, 101.0)
        out = reader.fetch_failed(0, error, 101.0 + NOBODY_S)
        assert (Tell(error, fatal=False) in out) == given_up
        assert any(isinstance(one, Fetch) for one in out) != given_up


def test_that_nobody_can_compute_a_shard_has_to_be_so_for_a_while_after_whatever_else_was_wrong() -> None:
    """A trainer that was busy, then gone, has as long to come back as one that was gone from the beginning."""
    away, then = errors.UnavailableError("node b: silent"), errors.NobodyComputesError("derived: a while ago")
    nobody = errors.NobodyComputesError("derived")
    nobody.everywhere = True
    reader = session(fetch_deadline_s=120)
    reader.opened((), ())
    reader.leased(LEASED, [(0, "")], 100.0)

    def goes_on(error: errors.TfquiverError, now_s: float) -> bool:
        return any(isinstance(one, Fetch) for one in reader.fetch_failed(0, error, now_s))

    assert goes_on(away, 100.0 + 2 * NOBODY_S)
    assert goes_on(nobody, 121.0)
    assert goes_on(away, 122.0)
    assert goes_on(nobody, 121.0 + NOBODY_S), "it was something else meanwhile"
    assert goes_on(then, 121.0 + 2 * NOBODY_S), "what is old decides nothing"
    assert not goes_on(nobody, 121.5 + 2 * NOBODY_S), "nor does it deny anything"


def test_reopening_tells_all_that_is_held_and_repeats_the_lease() -> None:
    reader = opened()
    lease = lease_of(reader.leased(LEASED, [(i, "") for i in range(4)], 0.0) + reader.credit(1000))
    reader.fetched(0)
    reader.fetched(1)
    reader.ack([0])
    reader.flush_acks()
    assert sorted(reader.reopening()) == [0, 1, 2, 3]
    assert not any(isinstance(i, Lease) for i in reader.credit(10_000)), "no lease while it opens again"
    out = reader.reopened([1, 2])
    assert SendDropped((1,)) in out  # it was sent
    assert Discard(2) in out  # it was not
    assert [i.sequence for i in out if isinstance(i, Lease)] == [lease.sequence]


def test_who_waits_for_a_damaged_shard_to_come_again_is_told_that_it_is_anothers() -> None:
    """It was not told, and never said that it had emitted all that came."""
    reader = opened()
    reader.leased(LEASED, [(0, ""), (1, ""), (2, "")], 0.0)
    reader.fetched(0)
    reader.fetched(1)
    reader.bad(0, 0.0)
    reader.bad(1, 0.0)
    reader.fetch_failed(1, errors.StaleDigestError("gs://b/f: it changed"), 0.0)
    reader.reopening()
    out = reader.reopened([0, 1, 2])
    assert SendDropped((0, 1)) in out, "of 2 it has never heard"
    assert Discard(0) in out


def test_a_reader_that_reconnects_has_its_shards_and_loses_those_that_were_given_away() -> None:
    reader = session()
    assert SendDropped((5,)) in reader.opened([4, 5], [5])
    assert reader.held() == [4]
    assert AcksWaiting() in reader.ack([4])


def test_credit_is_bounded_by_what_a_lease_can_ask_for() -> None:
    """Nobody means so much; it ended in an error of the node's own, with a traceback in its log."""
    reader = opened(credit=MAX_CREDIT_BYTES)
    with pytest.raises(errors.ProtocolError, match="CREDIT"):
        reader.credit(1)
    assert lease_of(session(credit=MAX_CREDIT_BYTES).opened((), ())).max_bytes < 1 << 64
