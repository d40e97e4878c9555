"""What nodes are told that the jobs of a data set may read together, and what they load beyond that."""

from __future__ import annotations

import pytest

from tests.unit.budgeted import DATA, OTHER, World


def test_nodes_are_told_what_the_jobs_of_a_data_set_may_read_together() -> None:
    world = World(a=1000.0, b=3000.0)
    budgets = world.budgets
    budgets.tick({DATA: frozenset("ab"), OTHER: frozenset("b")}, [DATA, OTHER])
    assert (budgets.told(DATA), budgets.told(OTHER)) == pytest.approx((1000 + 1500, 1500))
    orders = budgets.orders
    budgets.tick({DATA: frozenset("ab"), OTHER: frozenset("b")}, [DATA, OTHER])
    assert budgets.orders == orders, "nothing new"
    world.clock.advance(1)
    budgets.tick({DATA: frozenset({"a", "b", "free"}), OTHER: frozenset("b")}, [DATA, OTHER])
    assert budgets.told(DATA) == 0, "one of them reads as it can"
    assert budgets.orders > orders


def test_what_nodes_load_beyond_the_rate_shuts_nobody_out_for_long() -> None:
    world = World(a=1000.0)
    world.budgets.tick(world.jobs_of, [DATA])
    world.budgets.resident(DATA, range(1000), [1000] * 1000)
    assert world.budgets.left_bytes("a") == pytest.approx(-5000)
    assert world.budgets.pause_s("a") == 1.0, "a reader asks again: it may have another rate by then"
    world.clock.advance(5.03)
    assert world.budgets.pause_s("a") == 0.05, "what has come in since it was refused must not let it wait for ever"
    world.clock.advance(0.1)
    assert world.budgets.pause_s("a") is None
    assert world.budgets.pause_s("free") is None


def test_between_two_epochs_nodes_keep_to_what_they_were_told() -> None:
    """When nobody reads for a moment, nobody reads as fast as he can either."""
    world = World(a=1000.0, b=500.0)
    budgets = world.budgets
    budgets.tick({DATA: frozenset("ab")}, [DATA])
    orders = budgets.orders
    world.clock.advance(1)
    budgets.tick({}, [DATA])
    assert (budgets.told(DATA), budgets.orders) == (1500, orders)
    budgets.opened(DATA, "b")
    assert budgets.told(DATA) == 500
    budgets.opened(DATA, "a")
    assert budgets.told(DATA) == 1500
    budgets.opened(DATA, "free")
    assert budgets.told(DATA) == 0


def test_a_second_data_set_of_a_job_takes_its_part_of_the_first_ones_rate() -> None:
    world = World(a=1000.0)
    world.budgets.opened(DATA, "a")
    world.budgets.opened(OTHER, "a")
    assert (world.budgets.told(DATA), world.budgets.told(OTHER)) == (500, 500)


def test_the_first_reader_is_loaded_for_at_its_rate_from_the_beginning() -> None:
    world = World(a=1000.0)
    orders = world.budgets.orders
    world.budgets.opened(DATA, "a")
    assert (world.budgets.told(DATA), world.budgets.orders) == (1000, orders + 1)
    world.budgets.opened(DATA, "a")
    assert world.budgets.orders == orders + 1


def test_nodes_load_as_fast_as_they_can_when_the_last_allocation_is_taken_back() -> None:
    """Nobody ticks budgets that are not in use."""
    world = World(a=1000.0)
    digest_id = b"d" * 32
    world.budgets.tick({digest_id: frozenset({"a"})}, [digest_id])
    assert world.budgets.told(digest_id) == 1000.0
    orders = world.budgets.orders
    world.budgets.pins.allocate("a", 0)
    assert not world.budgets.in_use
    assert (world.budgets.told(digest_id), world.budgets.orders) == (0.0, orders + 1)
