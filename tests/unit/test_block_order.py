"""The deterministic order: a function of seed and data set, whole blocks, whoever comes and goes."""

from __future__ import annotations

import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.python_calls import python_calls
from tfquiver.service.coordinator.samplers_and_orders_of_an_epochs_shards.block_order import (
    MAX_BLOCK_SHARDS,
    BlockOrder,
    order_seed,
    units_of,
)
from tfquiver.service.coordinator.samplers_and_orders_of_an_epochs_shards.deterministic import Deterministic

shard_lists = st.lists(st.tuples(st.integers(1, 500), st.integers(1, 9)), max_size=80)


def order_of(shards: list[tuple[int, int]], seed: int | None, block_bytes: int) -> BlockOrder:
    return BlockOrder([length for length, _ in shards], [records for _, records in shards], seed, block_bytes)


def test_seeds_are_those_of_the_op_and_orders_do_not_change_from_one_version_to_the_next() -> None:
    # ops/core/shuffle_pool_and_order/random.h: Random(seed + epoch * golden).Next().
    assert [order_seed(7, 0), order_seed(7, 1)] == [7191089600892374487, 309689372594955804]
    order = order_of([(100, 10)] * 12, order_seed(7, 0), 300)
    assert list(order.shards) == [8, 5, 3, 2, 10, 9, 7, 6, 0, 11, 1, 4]
    assert list(order.first) == [0, 3, 6, 9, 12]


@given(shard_lists, st.integers(1, 2**64 - 1), st.integers(0, 2000))
def test_every_shard_has_its_place(shards: list[tuple[int, int]], seed: int, block_bytes: int) -> None:
    order = order_of(shards, seed, block_bytes)
    assert sorted(order.shards) == list(range(len(shards)))
    position = 0
    for block in range(order.blocks):
        members = order.shards[order.first[block] : order.first[block + 1]]
        records = sum(shards[shard][1] for shard in members)
        offset = 0
        for shard in members:
            place = order.place(shard)
            assert (place.position, place.offset, place.records) == (position, offset, records)
            assert order.block_of(shard) == block
            offset += shards[shard][1]
        position += records
        size_bytes = [shards[shard][0] for shard in members]
        assert sum(size_bytes[:-1]) < max(block_bytes, 1)
        assert sum(size_bytes) >= block_bytes or block == order.blocks - 1
        assert len(members) == 1 or block_bytes


@given(shard_lists)
def test_without_a_seed_shards_come_as_they_are_stored(shards: list[tuple[int, int]]) -> None:
    order = order_of(shards, None, 0)
    assert list(order.shards) == list(range(len(shards)))
    sampler = Deterministic(
        order, np.ones(len(shards), np.bool_), [length for length, _ in shards], bytearray(len(shards))
    )
    taken: list[int] = []
    while sampler.pending:
        taken += sampler.take(7, 1000)
    assert taken == list(range(len(shards)))


def test_a_block_fits_one_reply() -> None:
    order = order_of([(1, 1)] * (MAX_BLOCK_SHARDS * 2 + 5), 1, 1 << 40)
    assert list(order.first) == [0, MAX_BLOCK_SHARDS, 2 * MAX_BLOCK_SHARDS, 2 * MAX_BLOCK_SHARDS + 5]


@pytest.mark.slow
@given(shard_lists, st.randoms(use_true_random=False))
def test_readers_get_whole_blocks_and_what_comes_back_is_handed_out_again(
    shards: list[tuple[int, int]], rng: random.Random
) -> None:
    order = order_of(shards, 5, 700)
    lengths = [length for length, _ in shards]
    sampler = Deterministic(order, np.ones(len(shards), np.bool_), lengths, bytearray(len(shards)))
    held: dict[int, list[int]] = {}  # by block
    read: set[int] = set()
    while len(read) < len(shards):
        assert sampler.pending == len(shards) - len(read) - sum(map(len, held.values()))
        taken = sampler.take(rng.randrange(1, 20), rng.randrange(1, 2000))
        for shard in taken:
            held.setdefault(order.block_of(shard), []).append(shard)
        for block in {order.block_of(shard) for shard in taken}:
            members = order.shards[order.first[block] : order.first[block + 1]]
            assert held[block] == [shard for shard in members if shard not in read]
        assert taken == sorted(taken, key=list(order.shards).index)
        for block in list(held):
            members = held.pop(block)
            some = rng.sample(members, rng.randrange(len(members) + 1))
            read.update(some)
            sampler.give_back([shard for shard in members if shard not in some])


def test_a_block_of_which_something_is_missing_waits_for_its_turn_in_the_budget() -> None:
    order = order_of([(100, 2)] * 30, 5, 300)
    resident = bytearray(b"\1") * 30
    resident[order.shards[7]] = 0  # of the third block
    sampler = Deterministic(order, np.ones(30, np.bool_), [100] * 30, resident)
    assert sampler.take(30, 1 << 40, -5.0) == list(order.shards[:6]), "not out of turn"
    assert sampler.take(30, 1 << 40, 0.0) == []
    resident[order.shards[10]] = 0
    assert sampler.take(30, 1 << 40, 1.0) == list(order.shards[6:9]), "what is left pays for one block"
    assert sampler.take(30, 1 << 40, 101.0) == list(order.shards[9:])


def test_a_sampler_that_is_made_again_goes_on_with_what_is_pending() -> None:
    shards = [(100, 2)] * 30
    order = order_of(shards, 5, 500)
    pending = np.ones(30, np.bool_)
    pending[order.shards[:7]] = False
    sampler = Deterministic(order, pending, [100] * 30, bytearray(30))
    assert sampler.take(1, 1) == list(order.shards[7:10])
    sampler.remove(list(order.shards[10:15]))
    assert sampler.take(1, 1) == list(order.shards[15:20])
    assert sampler.pending == 10


@pytest.mark.parametrize("seed", [None, 5])
def test_blocks_that_have_been_read_are_not_gone_through_one_by_one(seed: int | None) -> None:
    """As behind what a lost reader had, when a coordinator was started again: of a million files a block each."""
    shards = 50_000
    order = order_of([(100, 2)] * shards, seed, 0)
    pending = np.zeros(shards, np.bool_)
    left = [order.shards[3], order.shards[shards - 2]]
    pending[left] = True
    sampler = Deterministic(order, pending, [100] * shards, bytearray(shards))
    taken: list[int] = []
    assert python_calls(lambda: taken.extend(sampler.take(8, 1000))) < 1000
    assert taken == left
    sampler.give_back(left)
    assert sampler.take(8, 1000) == left


@pytest.mark.parametrize(
    ("size_bytes", "records", "shards", "batch", "units"),
    [
        (1 << 40, 1 << 30, 1 << 19, 256, 1 << 14),  # a terabyte: as long as the pool is
        (1 << 30, 1 << 20, 512, 256, 64),  # a gigabyte: a 64th
        (1 << 30, 1 << 20, 512, 8192, 16),  # as many batches as a unit must hold
        (1 << 30, 1 << 20, 10, 256, 10),
        (1 << 20, 100, 50, 0, 1),
    ],
)
def test_units_are_as_long_as_the_pool_but_hold_batches(
    size_bytes: int, records: int, shards: int, batch: int, units: int
) -> None:
    assert units_of(size_bytes, records, shards, 64 << 20, batch) == units
