"""Which nodes hold each shard of one data set: some of them by number, of others that there may be some. Pure."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from tfquiver.shard_owners_chunks_hash_prefixes.sorted_numbers import distinct

NOBODY = -1
MOST_NAMED = 8  # two at least: who had a shard keeps its place until it is known whether another has it
Shards = npt.NDArray[np.uint32]
Numbers = npt.NDArray[np.int32]


class Holders:
    """Four bytes a shard for each that is named of some shard; for most data sets that is one, or two."""

    def __init__(self, shards: int) -> None:
        # Of each shard the first, the second, ..., by number + 1: 0 is nobody, behind whom there is none either. Zeros
        # take no memory, nor time, until something else is written there.
        self._named = [np.zeros(shards, np.int32)]
        self.more = np.zeros(shards, np.bool_)  # of each shard: others than those may hold it, too

    def first(self, shards: npt.NDArray[np.integer]) -> Numbers:
        """Of each, one that holds it; NOBODY."""
        numbers: Numbers = self._named[0][shards] - np.int32(1)
        return numbers

    def count(self, shards: npt.NDArray[np.integer]) -> npt.NDArray[np.int64]:
        """Of each, how many are named."""
        counts: npt.NDArray[np.int64] = np.sum([named[shards] > 0 for named in self._named], axis=0, dtype=np.int64)
        return counts

    def put(self, shards: Shards, numbers: Numbers) -> Shards:
        """Each is held by the node of that place. None comes twice. Returns those that nobody held before."""
        whose = numbers + np.int32(1)
        fresh: Shards = shards[self._named[0][shards] == 0]
        for at in range(MOST_NAMED):
            if not len(shards):
                return fresh
            if at == len(self._named):
                self._named.append(np.zeros(len(self.more), np.int32))
            named = self._named[at]
            there = named[shards]
            named[shards[there == 0]] = whose[there == 0]
            rest = (there > 0) & (there != whose)
            shards, whose = shards[rest], whose[rest]
        self.more[shards] = True
        return fresh

    def enter(self, shards: Shards, numbers: Numbers) -> None:
        """As `put` of one after the other, where none is held yet; a shard comes as often as it is held."""
        order = np.argsort(shards, kind="stable")
        shards, whose = shards[order], numbers[order] + np.int32(1)
        places = np.arange(len(shards))
        begins = np.concatenate((places[:1] == 0, shards[1:] != shards[:-1]))
        rank = places - np.maximum.accumulate(np.where(begins, places, 0))
        for at in range(min(MOST_NAMED, int(rank.max(initial=-1)) + 1)):
            if at == len(self._named):
                self._named.append(np.zeros(len(self.more), np.int32))
            self._named[at][shards[rank == at]] = whose[rank == at]
        self.more[shards[rank >= MOST_NAMED]] = True

    def drop(self, shards: Shards, numbers: Numbers) -> tuple[Shards, Shards]:
        """Each is held no longer by the node of that place. Returns those that nobody holds any more, each once, and
        those of which that is to be found out, as others than were named may: these go on as if they were held."""
        whose, was_named = numbers + np.int32(1), np.zeros(len(shards), np.bool_)
        for named in self._named:
            its = named[shards] == whose
            named[shards[its]] = 0
            was_named |= its
        shards, whose = shards[was_named], whose[was_named]
        self._close_up(shards)
        left = self._named[0][shards] == 0
        unsure = left & self.more[shards]
        self._named[0][shards[unsure]] = whose[unsure]
        return distinct(shards[left & ~unsure]), distinct(shards[unsure])

    def only_at(self, numbers: Sequence[int]) -> Shards:
        """The shards that these nodes hold and, as far as is known, no others."""
        whose = np.array(numbers, np.int32) + 1
        theirs = np.isin(self._named[0], whose)
        for named in self._named[1:]:
            theirs &= (named == 0) | np.isin(named, whose)
        return np.flatnonzero(theirs & ~self.more).astype(np.uint32)

    def _close_up(self, shards: Shards) -> None:
        """Who is named behind nobody moves up."""
        if len(self._named) == 1 or not len(shards):
            return
        all_named = np.stack([named[shards] for named in self._named])
        there = all_named > 0
        closed = np.zeros_like(all_named)
        closed[(np.cumsum(there, axis=0) - 1)[there], np.nonzero(there)[1]] = all_named[there]
        for named, its, were in zip(self._named, closed, all_named, strict=True):
            others = its != were
            named[shards[others]] = its[others]
