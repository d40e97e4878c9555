"""What a decision of a rotation takes, however many sessions and chunks there are."""

from __future__ import annotations

import random
import tracemalloc

import numpy as np
import pytest

from tests.support.steps import steps
from tests.unit.rotation_world import TIMEOUT_S
from tfquiver.service.coordinator.chunk_rotation.board import Board
from tfquiver.service.coordinator.chunk_rotation.chunk_cache import ChunkCache
from tfquiver.service.coordinator.chunk_rotation.relevance import Relevance
from tfquiver.service.coordinator.samplers_and_orders_of_an_epochs_shards.chunk_layout import ChunkLayout
from tfquiver.shard_owners_chunks_hash_prefixes import striping


@pytest.mark.slow
def test_a_decision_does_not_go_through_what_each_session_needs_of_each_chunk() -> None:
    """Of a thousand sessions and thousands of chunks that took 10 ms, several times for each epoch of each session."""
    chunks, sessions = 2000, 300
    board = Board([10] * chunks, 10 * chunks // 2)
    for chunk in range(chunks // 2):
        board.shard_resident(chunk, 10)
    rotation = Relevance(board, TIMEOUT_S, 0.0)
    for number in range(sessions):
        board.session_opened(f"s{number}", [10] * chunks)
    rotation.decide(0.0)
    for number in range(sessions):
        for chunk in range(chunks // 2):
            if number % 2 or chunk % 50:
                board.took(f"s{number}", chunk, 10)  # half of them have nothing left here, the others little
    tracemalloc.start()
    decision = rotation.decide(1.0)
    _, most_bytes = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert decision.evict or decision.load
    assert most_bytes < sessions * chunks / 2, "a byte for each of them would be as many"


def test_of_chunks_that_are_whole_only_their_first_finish_is_looked_for() -> None:
    """Of a thousand that stay each was noted at each decision, most of a millisecond."""
    costs = []
    for chunks in (20, 1000):
        board = Board([10] * chunks, 10 * chunks)
        for chunk in range(chunks):
            board.shard_resident(chunk, 10)
        board.session_opened("a", [10] * chunks)
        rotation = Relevance(board, TIMEOUT_S, 0.0)
        rotation.decide(0.0)
        costs.append(steps(lambda rotation=rotation: rotation.decide(1.0)))  # type: ignore[misc]
        for event in (board.use_started, board.use_ended):
            board.took("a", 3, 10) if event == board.use_started else None
            event("a", 3)
        rotation.decide(2.0)
        assert rotation._room.stays[3].finished and not rotation._room.stays[4].finished
    assert costs[1] - costs[0] < 2 * (1000 - 20), "where nothing has changed nothing is looked for among them"


def test_what_a_lease_takes_of_one_chunk_is_told_to_the_rotation_at_once() -> None:
    """To ask and to tell it for each of 32 shards took a quarter of a millisecond."""
    lengths, resident = np.full(4000, 10, np.uint64), bytearray(b"\1") * 4000
    layout = ChunkLayout(striping.stripe(lengths, 10), np.random.default_rng(1))
    cache = ChunkCache(layout, lengths, resident, 40_000, lambda board: Relevance(board, TIMEOUT_S))
    sampler = cache.open("a", np.ones(4000, np.bool_), [], random.Random(1))
    taken = sampler.take(1, 1 << 40)

    def takes(shards: int) -> None:
        taken.extend(sampler.take(shards, 1 << 40))

    costs = [steps(lambda: takes(1)), steps(lambda: takes(65))]
    assert costs[1] - costs[0] < 64 * 130
    costs = [steps(lambda: sampler.remove(taken[:1])), steps(lambda: sampler.remove(taken[1:66]))]
    assert costs[1] - costs[0] < 64 * 60
    assert len(set(taken)) == 67 and cache.board.sessions["a"].pending_bytes == 40_000 - 670
