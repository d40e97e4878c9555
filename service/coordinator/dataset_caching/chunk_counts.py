"""How many chunks a data set is divided into, where nobody has said."""

from __future__ import annotations

import math

from tfquiver import errors
from tfquiver.shard_owners_chunks_hash_prefixes.striping import MAX_CHUNKS

CYCLIC_SHARE = 0.10
CYCLIC_BYTES = 15 * 10**9
RELEVANCE_CHUNKS = 160
RELEVANCE_FITTING = 32
RELEVANCE_LEAST_CHUNKS = 40
LEAST_CHUNK_SHARDS = 16
TWO_CHUNKS = 2.2  # of the mean: chunks are cut at shards, and the largest two must have room


def cyclic_chunks(size_bytes: int) -> int:
    """How many chunks the paper's rule makes: a tenth of the data set each, or 15 GB where that is less."""
    return chunks_of(size_bytes, min(size_bytes * CYCLIC_SHARE, CYCLIC_BYTES))


def relevance_chunks(size_bytes: int, allocation_bytes: int, shards: int) -> int:
    """At least 160, and so many that the allocation has room for 32: many more than sessions that are reading one.

    But of fewer than 16 shards a chunk is no fair sample of a sorted data set (docs/experiments.md, Accuracy): where
    there are few shards, there are fewer chunks, down to 40.
    """
    share = min(1.0, max(1, allocation_bytes) / max(1, size_bytes))
    fitting = chunks_of(size_bytes, size_bytes * share / RELEVANCE_FITTING)
    wanted = min(MAX_CHUNKS, max(RELEVANCE_CHUNKS, fitting, 4 * cyclic_chunks(size_bytes)))
    return min(wanted, max(RELEVANCE_LEAST_CHUNKS, shards // LEAST_CHUNK_SHARDS))


def chunks_of(size_bytes: int, chunk_bytes: float) -> int:
    """How many chunks of about `chunk_bytes` there are in a data set. Raises InvalidArgumentError."""
    if not size_bytes:
        return 1
    if not chunk_bytes > 0:
        raise errors.InvalidArgumentError(f"chunk_bytes: {chunk_bytes:g} is not the size of a chunk")
    return min(MAX_CHUNKS, max(1, math.ceil(size_bytes / chunk_bytes - 1e-9)))
