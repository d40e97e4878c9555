"""Chunks: every shard in exactly one, of nearly one size, each a fair sample of a sorted data set."""

from __future__ import annotations

import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tfquiver import errors
from tfquiver.service.coordinator.dataset_caching import chunk_counts
from tfquiver.shard_owners_chunks_hash_prefixes import striping

lengths_of_shards = st.lists(st.integers(0, 8 << 20), min_size=0, max_size=300)


@settings(max_examples=200, deadline=None)
@given(lengths_of_shards, st.integers(1, 60), st.integers(0, 40))
def test_every_shard_is_in_one_chunk_and_chunks_differ_by_at_most_one_unit(
    lengths: list[int], chunks: int, partitions: int
) -> None:
    columns = np.array(lengths, np.uint64)
    cut = striping.stripe(columns, chunks, partitions)
    assert len(cut.chunk_of) == len(cut.unit_of) == len(lengths)
    assert 1 <= cut.chunks <= max(1, min(chunks, len(lengths)))
    assert cut.chunk_of.tolist() == cut.chunk_of_unit[cut.unit_of].tolist()
    assert np.all(np.diff(cut.unit_of.astype(np.int64)) >= 0), "a unit is a run of shards"
    # A chunk is one unit of every partition.
    assert np.all(np.sort(cut.chunk_of_unit.reshape(cut.partitions, cut.chunks), axis=1) == np.arange(cut.chunks))
    sizes = np.bincount(cut.chunk_of, columns, cut.chunks).astype(np.int64)
    assert sizes.tolist() == cut.sizes_bytes.tolist()
    units = np.bincount(cut.unit_of, columns, cut.chunks * cut.partitions)
    assert sizes.max(initial=0) - sizes.min(initial=1 << 62) <= units.max(initial=0) or not lengths


@pytest.mark.parametrize("chunks", [10, 40, 160])
@pytest.mark.parametrize("shape", ["uniform", "skewed"])
def test_each_chunk_is_a_fair_sample_of_a_data_set_sorted_by_length(chunks: int, shape: str, seed: int) -> None:
    rng = np.random.default_rng(seed)
    drawn = rng.uniform(1e5, 8e6, 40_000) if shape == "uniform" else rng.lognormal(12, 1.0, 40_000)
    lengths = np.sort(drawn).astype(np.uint64)
    cut = striping.stripe(lengths, chunks)
    for chunk in range(chunks):
        inside = np.flatnonzero(cut.chunk_of == chunk)
        # Kolmogorov-Smirnov against the whole, by rank since it is sorted; 1.36 / sqrt(n) is its bound at 5 %.
        steps = np.arange(1, len(inside) + 1) / len(inside)
        distance = np.abs(steps - inside / len(lengths)).max()
        assert distance < 1.36 / np.sqrt(len(inside)), (chunk, distance)


def test_a_cut_in_order_would_not_be_fair() -> None:
    """The same test refuses chunks that are contiguous, so it can fail."""
    inside = np.arange(1000)  # of 40 000
    steps = np.arange(1, 1001) / 1000
    assert np.abs(steps - inside / 40_000).max() > 1.36 / np.sqrt(1000)


@pytest.mark.parametrize(
    ("size_bytes", "share", "cyclic", "relevance"),
    [
        (0, 1.0, 1, 160),
        (10**9, 0.2, 10, 160),
        (10**9, 0.05, 10, 640),
        (10**9, 0.0, 10, striping.MAX_CHUNKS),
        (150 * 10**9, 1.0, 10, 160),
        (151 * 10**9, 1.0, 11, 160),
        (10**12, 0.5, 67, 268),
    ],
)
def test_default_sizes(size_bytes: int, share: float, cyclic: int, relevance: int) -> None:
    assert chunk_counts.cyclic_chunks(size_bytes) == cyclic
    assert chunk_counts.relevance_chunks(size_bytes, int(size_bytes * share), 1 << 20) == relevance


@pytest.mark.parametrize(("shards", "chunks"), [(0, 40), (400, 40), (1600, 100), (2560, 160), (100_000, 160)])
def test_few_shards_make_few_chunks(shards: int, chunks: int) -> None:
    assert chunk_counts.relevance_chunks(10**9, 2 * 10**8, shards) == chunks


def test_shards_of_the_same_bytes_go_together() -> None:
    lengths = np.full(100, 7, np.uint64)
    contents = np.arange(100, dtype=np.uint64)
    contents[[40, 90]] = contents[3]
    cut = striping.stripe(lengths, 10, contents=contents)
    assert len(set(cut.unit_of[[3, 40, 90]].tolist())) == len(set(cut.chunk_of[[3, 40, 90]].tolist())) == 1
    plain = striping.stripe(lengths, 10)
    others = np.delete(np.arange(100), [40, 90])
    assert cut.chunk_of[others].tolist() == plain.chunk_of[others].tolist()
    assert cut.sizes_bytes.tolist() == (np.bincount(cut.chunk_of, minlength=10) * 7).tolist()


def test_refuses_what_cannot_be() -> None:
    lengths = np.ones(4, np.uint64)
    for chunks, partitions in ((0, 0), (striping.MAX_CHUNKS + 1, 0), (2, -1)):
        with pytest.raises(errors.InvalidArgumentError, match=r"^(chunks|partitions): "):
            striping.stripe(lengths, chunks, partitions)
    with pytest.raises(errors.InvalidArgumentError, match="chunk_bytes"):
        chunk_counts.chunks_of(100, 0)


@pytest.mark.slow
def test_five_million_shards_take_seconds() -> None:
    lengths = np.full(5_000_000, 2 << 20, np.uint64)
    began = time.process_time()
    cut = striping.stripe(lengths, 268)
    assert time.process_time() - began < 5
    assert cut.sizes_bytes.max() - cut.sizes_bytes.min() <= np.bincount(cut.unit_of).max() * (2 << 20)
