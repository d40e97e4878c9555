"""Which of many tables have a hash: so a report costs what it changes, however many data sets are in use. Pure."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from tfquiver.content.prefixes import Prefixes
from tfquiver.service.coordinator.order.slots import distinct

_MOST_INDEXED = 65_536  # of a table's hashes; of larger tables there are few, and each is searched by itself


class TableIndex:
    """Tables by the first 8 bytes of their shards' hashes; 12 bytes a shard of small tables."""

    def __init__(self) -> None:
        self._values: Prefixes = np.empty(0, np.uint64)  # sorted
        self._numbers: npt.NDArray[np.uint32] = np.empty(0, np.uint32)  # of the table that has each
        self._small: dict[int, bytes] = {}  # digest ids by number
        self._large: set[bytes] = set()
        self._next = 0

    def add(self, digest_id: bytes, values: Prefixes) -> None:
        """`values`: sorted; some may be there several times."""
        self.remove(digest_id)
        if len(values) > _MOST_INDEXED:
            self._large.add(digest_id)
            return
        values = distinct(values)
        at = np.searchsorted(self._values, values)
        self._values = np.insert(self._values, at, values)
        self._numbers = np.insert(self._numbers, at, np.uint32(self._next))
        self._small[self._next] = digest_id
        self._next += 1

    def remove(self, digest_id: bytes) -> None:
        """Harmless when it is not there."""
        self._large.discard(digest_id)
        for number in [number for number, its in self._small.items() if its == digest_id]:
            del self._small[number]
            kept = self._numbers != number
            self._values, self._numbers = self._values[kept], self._numbers[kept]

    def having(self, values: Prefixes) -> Iterator[tuple[bytes, Prefixes]]:
        """The tables that have some of these hashes, each with those; large tables with all of them."""
        for digest_id in self._large:
            yield digest_id, values
        values = distinct(values)
        first = np.searchsorted(self._values, values, "left")
        counts = np.searchsorted(self._values, values, "right") - first
        found = np.flatnonzero(counts)
        first, counts, values = first[found], counts[found], values[found]
        at = np.arange(int(counts.sum())) + np.repeat(first - np.cumsum(counts) + counts, counts)
        numbers, values = self._numbers[at], np.repeat(values, counts)
        order = np.argsort(numbers, kind="stable")
        numbers, values = numbers[order], values[order]
        edges = np.flatnonzero(numbers[1:] != numbers[:-1]) + 1
        for part in np.split(np.arange(len(numbers)), edges) if len(numbers) else ():
            yield self._small[int(numbers[part[0]])], values[part[0] : part[-1] + 1]
