"""Which of many tables have a hash: so a report costs what it changes, however many data sets are in use. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial

import numpy as np
import numpy.typing as npt

from tfquiver.shard_owners_chunks_hash_prefixes.prefixes import Prefixes
from tfquiver.shard_owners_chunks_hash_prefixes.sorted_numbers import among, distinct

_MOST_INDEXED = 65_536  # of a table's hashes; larger ones are joined in a thread
_MOST_APART = 4  # of these, and of many a quarter, are looked at one by one until they are
_MOST_MERGED = 1 << 18  # hashes: a hundredth of a second
Part = tuple[Prefixes, npt.NDArray[np.uint32]]  # hashes, sorted, and the number of the table that has each
Joint = tuple[Part, Mapping[bytes, Prefixes]]  # and the tables, by digest id, in the order of their numbers


class TableIndex:
    """Tables by the first 8 bytes of their shards' hashes; 12 bytes a shard.

    In parts, each more than twice the next, or too large to be merged: what a table costs that comes grows with the
    logarithm of all there are.
    Of a table that has gone the hashes stay until they are half of all, or come to be merged.
    """

    def __init__(self) -> None:
        self._parts: list[Part] = []
        self._small: dict[int, tuple[bytes, int]] = {}  # by number: digest id, and how many hashes
        self._numbers: dict[bytes, int] = {}  # of these
        self._large: dict[bytes, Prefixes] = {}  # by digest id, the table's own
        self._apart: dict[bytes, Prefixes] = {}  # of these, those that are not joined
        self._joint: Part | None = None
        self._joined: dict[int, bytes] = {}  # by number; of those that are there still
        self._next = self._gone = 0  # hashes of tables that are not there any more

    def add(self, digest_id: bytes, values: Prefixes) -> None:
        """`values`: sorted; some may be there several times."""
        self.remove(digest_id)
        if len(values) > _MOST_INDEXED:
            self._large[digest_id] = self._apart[digest_id] = values
            return
        values = distinct(values)
        self._small[self._next], self._numbers[digest_id] = (digest_id, len(values)), self._next
        last = values, np.full(len(values), self._next, np.uint32)
        self._next += 1
        while self._parts and len(self._parts[-1][0]) <= min(2 * len(last[0]), _MOST_MERGED - len(last[0])):
            last = _merged(self._kept(self._parts.pop()), last)
        self._parts.append(last)

    def remove(self, digest_id: bytes) -> None:
        """Harmless when it is not there."""
        if self._large.pop(digest_id, None) is not None and self._apart.pop(digest_id, None) is None:
            self._joined = {number: one for number, one in self._joined.items() if one != digest_id}
            if not self._joined:
                self._joint = None
        if (number := self._numbers.pop(digest_id, None)) is not None:
            self._gone += self._small.pop(number)[1]
            if 2 * self._gone > sum(len(values) for values, _ in self._parts):
                self._parts = [self._kept(part) for part in self._parts]

    def having(self, values: Prefixes) -> Iterator[tuple[bytes, Prefixes]]:
        """The tables that have some of these hashes, each with those, sorted."""
        asked = distinct(values)
        for digest_id, there in list(self._apart.items()):
            some = asked[among(there, asked)]
            if len(some):  # a report is of a few shards, mostly of one data set
                yield digest_id, some
        if self._joint is not None:
            joined = self._joined
            for number, its in _by_table(*_found(self._joint, asked)):
                if number in joined:
                    yield joined[number], its
        if self._parts:
            for number, its in _by_table(*_joined([_found(part, asked) for part in self._parts])):
                if known := self._small.get(number):
                    yield known[0], its

    def joining(self) -> Callable[[], Joint] | None:
        """Where many large tables are looked at one by one: what joins them all, to be called in a thread; and what
        comes out is for `join`. Of twenty tables of 250 000 ten hashes took 0.18 ms of the loop one by one, and a
        thousand 5.5. Also where of what is joined more than half is of tables that have gone."""
        of_joined = sum(len(self._large[one]) for one in self._joined.values())
        half_gone = self._joint is not None and len(self._joint[0]) > 2 * of_joined
        if not half_gone and len(self._apart) <= max(_MOST_APART, len(self._joined) // 4):
            return None
        return partial(_joint_of, dict(self._large))

    def join(self, joint: Joint) -> None:
        self._joint, tables = joint
        named = enumerate(tables.items())
        self._joined = {number: one for number, (one, values) in named if self._large.get(one) is values}
        if not self._joined:
            self._joint = None
        there = set(self._joined.values())
        self._apart = {one: values for one, values in self._large.items() if one not in there}

    def _kept(self, part: Part) -> Part:
        """Without tables that have gone."""
        values, numbers = part
        if not self._gone:
            return part
        kept = np.isin(numbers, np.fromiter(self._small, np.uint32, len(self._small)))
        self._gone -= len(values) - int(np.count_nonzero(kept))
        return values[kept], numbers[kept]


def _joined(parts: list[Part]) -> Part:
    return np.concatenate([values for values, _ in parts]), np.concatenate([numbers for _, numbers in parts])


def _joint_of(tables: Mapping[bytes, Prefixes]) -> Joint:
    """In few and long steps, in which numpy lets other threads run."""
    values = np.concatenate(list(tables.values()))
    numbers = np.concatenate([np.full(len(its), at, np.uint32) for at, its in enumerate(tables.values())])
    order = np.argsort(values, kind="stable")
    values, numbers = values.take(order), numbers.take(order)
    once = np.ones(len(values), np.bool_)
    once[1:] = (values[1:] != values[:-1]) | (numbers[1:] != numbers[:-1])
    return (values, numbers) if once.all() else (values[once], numbers[once]), tables


def _by_table(values: Prefixes, numbers: npt.NDArray[np.uint32]) -> Iterator[tuple[int, Prefixes]]:
    order = np.argsort(numbers, kind="stable")
    numbers, values = numbers[order], values[order]
    edges = np.flatnonzero(numbers[1:] != numbers[:-1]) + 1
    for at in np.split(np.arange(len(numbers)), edges) if len(numbers) else ():
        yield int(numbers[at[0]]), values[at[0] : at[-1] + 1]


def _merged(one: Part, other: Part) -> Part:
    size = len(one[0]) + len(other[0])
    values, numbers = np.empty(size, np.uint64), np.empty(size, np.uint32)
    places = np.searchsorted(one[0], other[0]) + np.arange(len(other[0]))
    rest = np.ones(size, np.bool_)
    rest[places] = False
    values[places], numbers[places] = other
    values[rest], numbers[rest] = one
    return values, numbers


def _found(part: Part, asked: Prefixes) -> Part:
    """What a part has of these, each with every table that has it."""
    values, numbers = part
    first = values.searchsorted(asked)
    there = values.take(first, mode="clip") == asked if len(values) else np.zeros(len(asked), np.bool_)
    asked, first = asked[there], first[there]
    if not (values.take(first + 1, mode="clip") == asked).any():  # to search twice takes twice as long
        return asked, numbers[first]
    counts = values.searchsorted(asked, "right") - first
    at = np.arange(int(counts.sum())) + np.repeat(first - np.cumsum(counts) + counts, counts)
    return np.repeat(asked, counts), numbers[at]
