"""Readers whose records are taken by turns, as a DataLoader does; and readers that join a stream."""

from __future__ import annotations

from collections.abc import Sequence

from tests.unit.session_bench import END, WAIT, Bench
from tfquiver.service.coordinator.sessions.readers import ReaderRequest


def open_in_turn(bench: Bench, session_id: str, name: str, held: Sequence[int] = ()) -> None:
    bench.sessions.readers.open(session_id, ReaderRequest(name, "n", "1", "", in_turn=True), held, True)


def test_one_that_is_read_by_turns_does_not_wait_for_what_another_holds() -> None:
    bench = Bench(3)
    session_id = bench.begin()
    open_in_turn(bench, session_id, "a")
    open_in_turn(bench, session_id, "b")
    first = bench.lease(session_id, "a", 1).shards
    bench.sessions.readers.ack(session_id, "a", first)
    held = bench.lease(session_id, "b", 1).shards
    assert bench.lease(session_id, "a", 2, n=0, draining=True) == WAIT, "a shard is pending"
    bench.changed.clear()
    held += bench.lease(session_id, "b", 2).shards
    assert bench.changed == [session_id], "who waits is told that nothing is pending"
    assert bench.lease(session_id, "a", 3, draining=True) == END
    bench.sessions.readers.close(session_id, "a", True)
    assert not bench.session(session_id).ended, "b has not emitted what it holds"
    bench.sessions.readers.ack(session_id, "b", held)
    assert bench.lease(session_id, "b", 3, draining=True) == END
    assert bench.session(session_id).ended


def test_it_waits_as_long_as_it_has_not_emitted_what_it_was_given() -> None:
    bench = Bench(2)
    session_id = bench.begin()
    for name in "ab":
        open_in_turn(bench, session_id, name)
        assert bench.lease(session_id, name, 1).shards
    assert bench.lease(session_id, "a", 2, draining=False) == WAIT


def test_what_one_had_that_died_is_read_by_one_that_is_left() -> None:
    bench = Bench(2)
    session_id = bench.begin()
    for name in "ab":
        open_in_turn(bench, session_id, name)
        bench.lease(session_id, name, 1)
    bench.sessions.readers.close(session_id, "a", False)
    assert bench.lease(session_id, "b", 2, draining=True).shards


def test_others_wait_for_the_end_as_ever() -> None:
    bench = Bench(2)
    session_id = bench.begin()
    for name in "ab":
        bench.open(session_id, name)
        bench.lease(session_id, name, 1)
    assert bench.lease(session_id, "a", 2, draining=True) == WAIT


def joined(bench: Bench, provider: str) -> str | None:
    return bench.sessions.admission.ticket(
        "key", provider, 0, False, bench.digest_id, bench.shards, "job", joins=True
    )  # fmt: skip


def test_who_joins_a_stream_is_given_the_open_epoch_or_the_next() -> None:
    bench = Bench(1)
    first = joined(bench, "one:0")
    assert first and joined(bench, "two:0") == first
    bench.open(first, "a")
    shards = bench.lease(first, "a", 1).shards
    bench.sessions.readers.ack(first, "a", shards)
    assert joined(bench, "two:0") is None, "who has this ticket is told that its epoch is over"
    second = joined(bench, "three:0")
    assert second and second != first, "nobody is told of the end of an epoch that it had no part in"
    assert joined(bench, "three:0") == second
