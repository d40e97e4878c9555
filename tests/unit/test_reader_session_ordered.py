"""The state machine of a reader whose order is settled: it gets shards as they were leased, or those that it wants."""

from __future__ import annotations

import numpy as np
import pytest

from tests.unit.test_reader_session import LEASED, WAIT, lease_of, opened
from tfquiver import errors
from tfquiver.service.node.reader_sessions.instructions import Fetch, Send, Tell
from tfquiver.service.node.reader_sessions.reader_session import ReaderSession


def ordered(credit: int = 400, wanting: bool = False) -> ReaderSession:
    made = ReaderSession(np.full(10, 100, np.uint64), credit, ordered=True, wanting=wanting)
    made.opened((), ())
    return made


def test_an_ordered_reader_gets_shards_in_the_order_in_which_they_were_leased() -> None:
    reader = ordered()
    reader.leased(LEASED, [(3, ""), (5, ""), (7, "")], 0.0)
    assert Send(7) not in reader.fetched(7)
    assert Send(5) not in reader.fetched(5)
    assert [i for i in reader.fetched(3) if isinstance(i, Send)] == [Send(3), Send(5), Send(7)]


def test_an_ordered_reader_gets_a_damaged_shard_again_at_once_and_does_not_wait_for_dropped_ones() -> None:
    reader = ordered()
    reader.leased(LEASED, [(3, ""), (5, ""), (7, "")], 0.0)
    reader.fetched(3)
    assert Fetch(3, "", drop_first=True) in reader.bad(3, 0.0)
    reader.fetched(7)
    assert Send(3) in reader.fetched(3)
    reader.reopening()
    assert Send(7) in reader.reopened([5])


def test_an_ordered_reader_is_told_at_once_that_a_shard_cannot_be_had() -> None:
    reader = ordered()
    reader.leased(LEASED, [(3, ""), (5, "")], 0.0)
    error = errors.NotFoundError("gone")
    assert reader.fetch_failed(3, error, 0.0) == [Tell(error, fatal=True)]
    assert reader.fetched(5) == []


def test_a_reader_that_wants_is_leased_what_it_wants_and_then_the_rest() -> None:
    reader = ReaderSession(np.full(10, 100, np.uint64), 200, ordered=True, wanting=True)
    assert reader.opened((), ()) == []
    asked = lease_of(reader.want([4, 2, 9, 1]))
    assert asked.wanted == (4, 2, 9)  # what there is credit for, and room ahead
    assert lease_of(reader.leased(WAIT, [], 0.0)).wanted == (4, 2, 9)  # the coordinator has just been restarted, say
    reader.leased(LEASED, [(4, ""), (2, ""), (9, "")], 0.0)
    reader.want([8])
    assert lease_of(reader.credit(500)).wanted == (1, 8)
    reader.want([])
    assert lease_of(reader.leased(LEASED, [(1, ""), (8, "")], 0.0) + reader.credit(500)).wanted == ()
    with pytest.raises(errors.ProtocolError, match="WANT"):
        reader.want([3])


def test_a_wanted_shard_that_does_not_come_is_an_error_not_a_wait() -> None:
    reader = ReaderSession(np.full(10, 100, np.uint64), 200, ordered=True, wanting=True)
    reader.opened((), ())
    reader.want([4, 2])
    (told,) = reader.leased(LEASED, [(4, "")], 0.0)
    assert isinstance(told, Tell) and told.fatal and "shard 2 is wanted" in str(told.error)


def test_a_lease_that_is_asked_again_wants_what_it_wanted() -> None:
    """The answer to it, lost on its way, is repeated: what was wanted since is not in it, and was called lost."""
    reader = ReaderSession(np.full(10, 100, np.uint64), 100, ordered=True, wanting=True)
    reader.opened((), ())
    reader.want([4])
    reader.leased(LEASED, [(4, "")], 0.0)
    asked = lease_of(reader.want([2]) + reader.fetched(4) + reader.credit(100))
    assert asked.wanted == (2,) and not asked.draining
    reader.want([9, 1])
    reader.credit(300)
    again = lease_of(reader.ack([4]))
    assert (again.sequence, again.draining, again.wanted) == (asked.sequence, True, (2,))
    after = reader.leased(LEASED, [(2, "")], 0.0)
    assert not [i for i in after if isinstance(i, Tell)] and lease_of(after).wanted == (9, 1)


def test_a_reader_cannot_want_without_end() -> None:
    """What is wanted waits in the node's memory: in a minute of such frames all of it was used up."""
    reader = ReaderSession(np.full(10, 100, np.uint64), 200, ordered=True, wanting=True)
    reader.opened((), ())
    reader.want(range(10))
    with pytest.raises(errors.ProtocolError, match="more shards than the data set's 10"):
        reader.want([3])


def test_a_reader_that_does_not_want_says_so() -> None:
    with pytest.raises(errors.ProtocolError, match="WANT"):
        opened().want([3])
