"""What a layout says of some of its shards, whichever half is counted."""

from __future__ import annotations

import random

import numpy as np
import pytest

from tfquiver.service.coordinator.chunk_rotation.chunk_cache import ChunkCache
from tfquiver.service.coordinator.chunk_rotation.relevance import Relevance
from tfquiver.service.coordinator.samplers_and_orders_of_an_epochs_shards.chunk_layout import ChunkLayout
from tfquiver.shard_owners_chunks_hash_prefixes import striping


@pytest.mark.parametrize("share", [0.0, 0.1, 0.5, 0.9, 1.0])
@pytest.mark.parametrize("homogeneous", [False, True])
def test_some_shards_are_counted_as_one_by_one(share: float, homogeneous: bool) -> None:
    rng = np.random.default_rng(7)
    lengths = rng.integers(1, 100, 300).astype(np.uint64)
    cut = striping.stripe(lengths, 9, 4)
    layout = ChunkLayout(cut, rng, homogeneous=homogeneous)
    some = rng.random(300) < share
    shards = np.flatnonzero(some).tolist()
    assert set(np.flatnonzero(layout.slots(some)).tolist()) == {layout.slot_of[shard] for shard in shards}
    segments = [layout.segment_of[shard] for shard in shards]
    assert layout.counts_of(some).tolist() == [segments.count(segment) for segment in range(layout.segments)]
    cache = ChunkCache(layout, lengths, bytearray(300), 10**6, lambda board: Relevance(board, 10.0, 0.0))
    its = cache.open("s", some, [], random.Random(1))
    assert its.pending == len(shards)
    by_chunk = [sum(int(lengths[s]) for s in shards if layout.chunk_of[s] == chunk) for chunk in range(9)]
    assert cache.board.sessions["s"].pending.tolist() == by_chunk
