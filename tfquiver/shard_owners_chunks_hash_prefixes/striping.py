"""Chunks of a data set: striped partitions (Quiver, FAST'20, section 5.1). Pure.

The data set is cut into P contiguous partitions and each of these into K stripe units of as many shards; a chunk is
one unit of every partition, so that each chunk is a fair sample also of a data set that is sorted. Which unit of a
partition goes to which chunk is chosen so that chunks are of nearly equal size: the largest unit goes to the chunk that
is smallest so far, and so on. Units of the same size go round: chunk 0 does not get the first unit of every partition,
which in a sorted data set would make it the chunk of the small.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tfquiver import errors

MAX_CHUNKS = 4096
PARTITIONS = 64  # with P of them a chunk's distribution of whatever the data set is sorted by is off by at most 1 / P


@dataclass(frozen=True, slots=True, eq=False)
class Striping:
    """Every shard is in one stripe unit, every unit in one chunk. Read-only.

    `unit_of` is uint32 [shards], and never falls; `chunk_of_unit` uint32 [units]; `chunk_of` uint32 [shards];
    `sizes_bytes` int64 [chunks], which differ by at most the size of the largest unit. Only shards that have been seen
    before in the same data set may stand elsewhere.
    """

    chunks: int
    partitions: int
    unit_of: npt.NDArray[np.uint32]
    chunk_of_unit: npt.NDArray[np.uint32]
    chunk_of: npt.NDArray[np.uint32]
    sizes_bytes: npt.NDArray[np.int64]


def stripe(
    lengths: npt.NDArray[np.uint64],
    chunks: int,
    partitions: int = 0,
    contents: npt.NDArray[np.uint64] | None = None,
) -> Striping:
    """Cuts a data set.

    Args:
      lengths: bytes of each shard, shape [shards].
      chunks: how many at most; there are never more than shards.
      partitions: 0: as many as chunks, but at least 64; never more than there are shards for. The fewer, the longer
        the stripe units.
      contents: shape [shards]; shards with the same number here have the same bytes, are therefore cached and evicted
        as one, and so go where the first of them goes, whatever that does to the sizes.

    Raises: InvalidArgumentError.
    """
    if not 1 <= chunks <= MAX_CHUNKS:
        raise errors.InvalidArgumentError(f"chunks: {chunks} is not between 1 and {MAX_CHUNKS}")
    if partitions < 0:
        raise errors.InvalidArgumentError(f"partitions: {partitions} is negative")
    shards = len(lengths)
    chunks = max(1, min(chunks, shards))
    partitions = max(1, min(partitions or max(chunks, PARTITIONS), shards // chunks))
    units = partitions * chunks
    # Of as many shards each, not bytes: where short ones stand first, a unit of so many bytes would hold more of them
    # the farther in front it is, and the chunk that got it would be no fair sample.
    unit_of = (np.arange(shards, dtype=np.int64) * units // max(1, shards)).astype(np.uint32)
    unit_bytes = np.bincount(unit_of, weights=lengths, minlength=units).astype(np.int64)
    chunk_of_unit, sizes_bytes = _deal(unit_bytes.reshape(partitions, chunks))
    if contents is not None:
        _, first, which = np.unique(contents, return_index=True, return_inverse=True)
        if len(first) < shards:
            unit_of = unit_of[first][which.reshape(-1)]
            sizes_bytes = np.bincount(chunk_of_unit[unit_of], lengths, chunks).astype(np.int64)
    return Striping(chunks, partitions, unit_of, chunk_of_unit, chunk_of_unit[unit_of], sizes_bytes)


def _deal(unit_bytes: npt.NDArray[np.int64]) -> tuple[npt.NDArray[np.uint32], npt.NDArray[np.int64]]:
    """The chunk of each unit, and the sizes of the chunks; `unit_bytes` has the shape [partitions, chunks].

    Chunks in ascending and units in descending order are paired: for two chunks a <= b and their units u >= v, the
    difference (a + u) - (b + v) lies between a - b and u - v. So chunks never differ by more than two units did.
    """
    partitions, chunks = unit_bytes.shape
    chunk_of = np.empty((partitions, chunks), np.uint32)
    sizes = np.zeros(chunks, np.int64)
    numbers = np.arange(chunks)
    for partition, row in enumerate(unit_bytes):
        # Steps of the golden section spread what one chunk gets evenly over the places in the partitions.
        turned = (numbers + int(partition * 0.6180339887 * chunks)) % chunks
        by_size = turned[np.argsort(-row[turned], kind="stable")]
        smallest_first = np.argsort(sizes, kind="stable")
        chunk_of[partition, by_size] = smallest_first
        sizes[smallest_first] += row[by_size]
    return chunk_of.reshape(-1), sizes
