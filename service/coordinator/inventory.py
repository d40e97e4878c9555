"""What one node holds: a set of hashes, kept by their first 8 bytes.

Two hashes of one node share these once in 10^6 clusters of 5 million shards; then a shard counts as resident that its
owner has to fetch. Nothing else depends on it.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

Prefixes = npt.NDArray[np.uint64]
_MERGE_AT = 65_536


def prefixes(hashes: Iterable[bytes]) -> Prefixes:
    """Shape [hashes]. Each hash has 32 bytes."""
    return np.frombuffer(b"".join(hash_[:8] for hash_ in hashes), "<u8").astype(np.uint64, copy=False)


class Inventory:
    """A sorted array, and the changes since it was made: 8 bytes a shard."""

    def __init__(self) -> None:
        self._sorted: Prefixes = np.empty(0, np.uint64)
        self._added: set[int] = set()
        self._removed: set[int] = set()

    def add(self, values: Prefixes) -> None:
        self._removed.difference_update(values.tolist())
        self._added.update(values.tolist())
        self._merge_if_many()

    def remove(self, values: Prefixes) -> None:
        self._added.difference_update(values.tolist())
        self._removed.update(values.tolist())
        self._merge_if_many()

    def all(self) -> Prefixes:
        """Sorted, each once."""
        self._merge()
        return self._sorted

    def contains(self, values: Prefixes) -> npt.NDArray[np.bool_]:
        """Shape of `values`."""
        found = np.zeros(len(values), np.bool_)
        if len(self._sorted):
            at = np.minimum(np.searchsorted(self._sorted, values), len(self._sorted) - 1)
            found = self._sorted[at] == values
        if self._removed:
            found &= ~np.isin(values, _array(self._removed))
        if self._added:
            found |= np.isin(values, _array(self._added))
        return found

    def _merge_if_many(self) -> None:
        if len(self._added) + len(self._removed) > max(_MERGE_AT, len(self._sorted) // 8):
            self._merge()

    def _merge(self) -> None:
        if self._removed:
            self._sorted = np.setdiff1d(self._sorted, _array(self._removed), assume_unique=True)
        if self._added:
            self._sorted = np.union1d(self._sorted, _array(self._added))
        self._added, self._removed = set(), set()


def _array(values: set[int]) -> Prefixes:
    return np.fromiter(values, np.uint64, len(values))
