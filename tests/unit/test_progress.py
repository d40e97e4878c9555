"""How far an epoch is said to be: what was read, not what was confirmed; and never more than was handed out."""

from __future__ import annotations

import hypothesis.strategies as st
import pytest
from hypothesis import given

from tests.unit.session_bench import Bench, alone
from tfquiver.service.coordinator.sessions.progress import read_shards

SHARD_BYTES = 16


def said(shards: float) -> int:
    return int(shards * SHARD_BYTES)


def progress(bench: Bench, session_id: str, **delivered: float) -> int:
    size_bytes = bench.shards * SHARD_BYTES
    return read_shards(bench.session(session_id), size_bytes, lambda name: said(delivered.get(name, 0)))


def test_what_is_held_back_counts_as_it_is_delivered() -> None:
    """All is leased at once, and nothing acked before the end: that is no progress from 0 % to 100 % at a stroke."""
    bench = Bench(10)
    session_id, shards = alone(bench, 10)
    assert [progress(bench, session_id, a=at) for at in (0, 2.5, 6, 10)] == [0, 2, 6, 10]
    bench.sessions.readers.ack(session_id, "a", shards[:4])
    assert [progress(bench, session_id, a=at) for at in (4, 6, 10)] == [4, 6, 10]
    bench.sessions.readers.ack(session_id, "a", shards)
    assert progress(bench, session_id, a=10) == 10


def test_who_has_given_on_all_that_it_has_need_not_say_so() -> None:
    bench = Bench(4)
    session_id, _ = alone(bench)
    bench.lease(session_id, "a", 2, draining=True)
    assert progress(bench, session_id) == 4


def test_a_reader_that_is_lost_takes_back_what_it_had_not_confirmed() -> None:
    bench = Bench(10)
    session_id, shards = alone(bench, 6)
    bench.sessions.readers.ack(session_id, "a", shards[:2])
    assert progress(bench, session_id, a=5) == 5
    bench.sessions.readers.close(session_id, "a", False)
    assert progress(bench, session_id, a=5) == 2
    bench.open(session_id, "b")
    bench.lease(session_id, "b", 1, 8)
    assert progress(bench, session_id, a=5, b=3) == 5, "from where the first one had confirmed"


def test_a_reader_whose_node_came_back_goes_on() -> None:
    bench = Bench(10)
    session_id, shards = alone(bench, 8)
    bench.sessions.readers.ack(session_id, "a", shards[:4])
    bench.open(session_id, "a", held=shards[4:])
    assert progress(bench, session_id, a=6) == 6
    bench.restart(bench.log)
    bench.open(session_id, "a", held=shards[4:])
    assert progress(bench, session_id, a=6) == 6, "and one that outlived the coordinator"


@pytest.mark.parametrize("lie", [-1.0, 0.0, 1e15])
def test_whatever_a_reader_says(lie: float) -> None:
    bench = Bench(10)
    session_id, shards = alone(bench, 6)
    bench.sessions.readers.ack(session_id, "a", shards[:2])
    assert 2 <= progress(bench, session_id, a=lie) <= 6


@given(st.lists(st.tuples(st.sampled_from("ab"), st.integers(1, 5), st.integers(0, 5)), max_size=8), st.floats(0, 40))
def test_it_lies_between_what_is_confirmed_and_what_is_handed_out(
    steps: list[tuple[str, int, int]], lie: float
) -> None:
    bench, sequence = Bench(20), {"a": 0, "b": 0}
    session_id = bench.begin()
    for name in "ab":
        bench.open(session_id, name)
    for name, take, ack in steps:
        sequence[name] += 1
        given_out = bench.lease(session_id, name, sequence[name], take).shards
        bench.sessions.readers.ack(session_id, name, list(given_out[:ack]))
        session = bench.session(session_id)
        shown = progress(bench, session_id, a=lie, b=40 - lie)
        assert session.acked_shards <= shown <= session.acked_shards + session.leased_shards
