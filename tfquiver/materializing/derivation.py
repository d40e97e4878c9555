"""Which shard of the input a derived shard was made of. Pure.

A function makes one element of each record and keeps their order, so the counts of records tell: no table is needed.
"""

from __future__ import annotations

import numpy as np

from tfquiver import errors
from tfquiver.digests.digest import Digest
from tfquiver.shard_owners_chunks_hash_prefixes.sorted_numbers import distinct
from tfquiver.sizes_durations_amounts.amounts import many


class Derivation:
    """Raises InvalidArgumentError when the one cannot have been made of the other."""

    def __init__(self, source: Digest, derived: Digest) -> None:
        ends = np.cumsum(source.records, dtype=np.uint64)
        firsts = np.cumsum(derived.records, dtype=np.uint64) - derived.records
        self._row = np.searchsorted(ends, firsts, "right")
        self._first = np.searchsorted(self._row, np.arange(source.num_shards), "left")
        if source.num_records != derived.num_records or len(distinct(self._row)) != source.num_shards:
            raise errors.InvalidArgumentError(
                f"data set {derived.name!r} has not been made of {source.name!r}: "
                f"{many(derived.num_records, 'record')} in "
                f"{many(derived.num_shards, 'shard')}, of {source.num_records} in {source.num_shards}"
            )

    @property
    def shards(self) -> int:
        """Of the derived data set."""
        return len(self._row)

    def origin(self, shard: int) -> tuple[int, int]:
        """Of a derived shard: the input's shard, and which of its parts it is."""
        row = int(self._row[shard])
        return row, shard - int(self._first[row])

    def parts(self, row: int) -> range:
        """The derived shards that a shard of the input has become."""
        after = self._first[row + 1] if row + 1 < len(self._first) else len(self._row)
        return range(int(self._first[row]), int(after))
