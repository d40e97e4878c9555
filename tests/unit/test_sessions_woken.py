"""What one reader's coming, going and acking means to the others of its session."""

from __future__ import annotations

from tests.unit.session_bench import END, WAIT, Bench


def of_two_readers(bench: Bench) -> str:
    """A session that `a` and `b` have opened."""
    session_id = bench.begin()
    bench.open(session_id, "a")
    bench.open(session_id, "b")
    return session_id


def test_what_a_reader_brings_back_is_not_given_to_another() -> None:
    bench = Bench()
    session_id = of_two_readers(bench)
    held = bench.lease(session_id, "a", 1).shards
    bench.sessions.readers.close(session_id, "a", False)
    assert bench.open(session_id, "a", held) == []
    given = [shard for sequence in range(1, 6) for shard in bench.lease(session_id, "b", sequence).shards]
    assert sorted([*given, *held]) == [0, 1, 2, 3]


def test_what_was_acked_by_one_who_lost_it_is_not_given_again() -> None:
    bench = Bench()
    session_id = of_two_readers(bench)
    lost = bench.lease(session_id, "a", 1).shards
    bench.open(session_id, "a")
    bench.sessions.readers.ack(session_id, "a", lost)
    given = [shard for sequence in range(1, 6) for shard in bench.lease(session_id, "b", sequence).shards]
    assert sorted([*given, *lost]) == [0, 1, 2, 3]


def test_who_was_draining_and_is_given_more_holds_up_the_end() -> None:
    bench = Bench(2)
    session_id = bench.begin()
    bench.open(session_id, "a")
    first = bench.lease(session_id, "a", 1).shards
    bench.sessions.readers.ack(session_id, "a", first)
    assert bench.lease(session_id, "a", 2, draining=True).shards
    bench.open(session_id, "b")
    assert bench.lease(session_id, "b", 1, draining=True) == WAIT
    assert bench.lease(session_id, "a", 3, draining=True) == END
    assert bench.lease(session_id, "b", 2, draining=True) == END


def test_after_a_restart_the_known_have_all_of_their_grace() -> None:
    bench = Bench()
    session_id = bench.begin()
    bench.open(session_id, "a")
    held = bench.lease(session_id, "a", 1).shards
    bench.restart(bench.log)
    bench.clock.advance(9.0)
    bench.sessions.expire()
    bench.open(session_id, "b")
    assert bench.lease(session_id, "b", 1, 4) == WAIT
    assert bench.open(session_id, "a", held) == []
    assert not set(bench.lease(session_id, "b", 2, 4).shards) & set(held)


def test_who_was_draining_when_its_node_restarted_holds_up_the_end_until_it_is_heard_of() -> None:
    bench = Bench(2)
    session_id = bench.begin()
    for name in "ab":
        bench.open(session_id, name, node=name)
    held = bench.lease(session_id, "a", 1).shards
    rest = bench.lease(session_id, "b", 1).shards
    assert bench.lease(session_id, "a", 2, draining=True) == WAIT
    bench.sessions.node_seen("a", "2")
    bench.sessions.readers.ack(session_id, "b", rest)
    assert bench.lease(session_id, "b", 2, draining=True) == WAIT
    bench.clock.advance(11.0)
    bench.sessions.expire()
    assert bench.lease(session_id, "b", 3, draining=True).shards == held


def test_whoever_waits_for_the_end_is_woken_by_the_last_ack() -> None:
    bench = Bench(1)
    session_id = of_two_readers(bench)
    shards = bench.lease(session_id, "a", 1).shards
    assert bench.lease(session_id, "b", 1, draining=True, last=False) == WAIT
    bench.changed.clear()
    bench.sessions.readers.ack(session_id, "a", shards)
    assert bench.changed == [session_id]
    assert bench.lease(session_id, "b", 1, draining=True, last=False) == END


def test_whoever_waits_is_woken_when_the_last_other_drains() -> None:
    bench = Bench(1)
    session_id = of_two_readers(bench)
    assert bench.lease(session_id, "a", 1).shards
    assert bench.lease(session_id, "b", 1, draining=True, last=False) == WAIT
    bench.changed.clear()
    assert bench.lease(session_id, "a", 2, draining=True) == END
    assert session_id in bench.changed


def test_nobody_is_woken_by_those_who_open_first() -> None:
    """Of a thousand readers that wait for an order to be made each would ask again for each that comes."""
    bench = Bench()
    session_id = bench.begin()
    bench.changed.clear()
    for number in range(10):
        bench.open(session_id, f"reader-{number}")
    assert bench.changed == []


def test_who_comes_back_after_a_restart_wakes_the_others_when_nobody_else_is_awaited() -> None:
    bench = Bench()
    session_id = bench.begin()
    for name in "abc":
        bench.open(session_id, name)
    bench.restart(bench.log)
    bench.changed.clear()
    for name in "abc":
        assert bench.changed == []
        bench.open(session_id, name)
    assert bench.changed == [session_id]


def test_who_opens_again_without_what_it_held_wakes_the_others() -> None:
    bench = Bench(1)
    session_id = bench.begin()
    for name in "ab":
        bench.open(session_id, name)
    assert bench.lease(session_id, "a", 1).shards
    assert bench.lease(session_id, "b", 1, last=False) == WAIT
    bench.changed.clear()
    bench.open(session_id, "a")
    assert bench.changed == [session_id]


def test_a_snapshot_remembers_who_took_part_in_an_open_session() -> None:
    bench = Bench()
    session_id = bench.begin()
    bench.open(session_id, "a", label="worker:1")
    bench.sessions.readers.close(session_id, "a", False)
    bench.restart(list(bench.sessions.snapshot()))
    assert bench.session(session_id).labels == {"worker:1"}
