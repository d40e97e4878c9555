"""The shipping rotations and sampler under simulated time: what is loaded, and that nobody waits for it."""

from __future__ import annotations

import pytest

from tfquiver.service.sim.shard_by_shard.engine import Engine
from tfquiver.service.sim.shard_by_shard.scenario import Outcome, in_step, one_slow, out_of_step, run
from tfquiver.service.sim.shard_by_shard.store import Store

FLOOR = 0.8
# Two jobs at nearly twice the speed of the slowest, four between: 1.107 of the floor, however many epochs are counted.
HARD = 1998972013


def relevance(outcome: Outcome, bar: float) -> None:
    assert FLOOR - 1e-9 <= outcome.loads <= bar * FLOOR
    assert outcome.slowdown <= 1.05


def test_events_come_in_order() -> None:
    engine, seen = Engine(), []
    for delay_s, name in ((2.0, "c"), (1.0, "a"), (1.0, "b"), (9.0, "too late")):
        engine.after(delay_s, lambda name=name: seen.append((engine.now, name)))  # type: ignore[misc]
    assert not engine.run(lambda: False, limit_s=5.0)
    assert seen == [(1.0, "a"), (1.0, "b"), (2.0, "c")]


def test_two_events_of_one_moment_after_a_long_pause_are_at_that_moment() -> None:
    """67.3 + (206.6 - 67.3) is more than 206.6: for the second of them the clock would have had to go back."""
    engine, seen = Engine(), list[float]()
    for when in (67.3, 206.6, 206.6):
        engine.after(when, lambda: seen.append(engine.now))
    assert engine.run(lambda: len(seen) == 3, limit_s=1000.0)
    assert seen == [67.3, 206.6, 206.6]


def test_requests_for_one_shard_join_and_those_of_jobs_go_first() -> None:
    engine, came, arrived = Engine(), [], []
    store = Store(engine, [10] * 6, 10.0, arrived.append)
    store.load_ahead([0, 1, 2, 3])
    for shard in (5, 5, 2, 0):
        store.demand(shard, lambda shard=shard: came.append((engine.now, shard)))  # type: ignore[misc]
    engine.run(lambda: False, limit_s=100.0)
    assert arrived == [0, 5, 2, 1, 3], "the one under way, then what jobs wait for, then the rest"
    assert came == [(1.0, 0), (2.0, 5), (2.0, 5), (3.0, 2)]
    assert store.fetched_bytes == 50


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.parametrize("jobs", [1, 4])
def test_jobs_in_step_load_what_is_not_cached_once(jobs: int) -> None:
    relevance(run(in_step(jobs), "relevance", 1, epochs=2), 1.05)


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.parametrize(("jobs", "drawn_with", "bar"), [(4, 1, 1.10), (8, HARD, 1.115)])
def test_jobs_out_of_step_do_hardly_worse(jobs: int, drawn_with: int, bar: float) -> None:
    relevance(run(out_of_step(jobs, drawn_with), "relevance", drawn_with, epochs=3), bar)


@pytest.mark.slow
@pytest.mark.long
def test_no_draw_of_jobs_out_of_step_does_much_worse(seed: int) -> None:
    """The bar of one draw: 174 of 175 draws of eight jobs held 1.10, all held 1.105; HARD came up later."""
    relevance(run(out_of_step(8, seed), "relevance", seed, epochs=3), 1.20)


@pytest.mark.slow
@pytest.mark.long
def test_a_slow_one_does_not_cost_the_others(seed: int) -> None:
    relevance(run(one_slow(seed), "relevance", seed, epochs=3), 1.10)


@pytest.mark.slow
def test_of_cyclic_at_most_two_chunks_are_resident(seed: int) -> None:
    outcome = run(out_of_step(3, seed), "cyclic", seed, epochs=2)
    assert outcome.most_chunks == 2
    assert outcome.loads < 1.2


@pytest.mark.slow
def test_who_waits_for_a_slower_one_does_not_read_past_the_cache() -> None:
    """1.6 to 1.9 if it did after 15 s."""
    for drawn_with in (1222356005, 1577115623):
        assert run(out_of_step(3, drawn_with), "cyclic", drawn_with, epochs=2).loads < 1.05


@pytest.mark.slow
def test_a_slow_one_holds_cyclic_back_by_at_most_its_timeout_a_chunk(seed: int) -> None:
    timeout_epochs = 0.02
    outcome = run(one_slow(seed), "cyclic", seed, epochs=2, timeout_epochs=timeout_epochs)
    assert outcome.slowdown <= 1.0 + 10 * timeout_epochs + 0.05


def test_lru_collapses(seed: int) -> None:
    assert run(in_step(4), "lru", seed, epochs=2).loads > 3.0
