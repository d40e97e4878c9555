"""Which shards a session hands out next: resident ones first, each kind in random order.

Substitutability (Quiver, FAST'20, section 4.7): an epoch needs every record once, in any random order, so a session
takes what is cached now and comes back for the rest.
"""

from __future__ import annotations

import random
from array import array
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt

from tfquiver.service.coordinator.order.slots import MOST_DRAWN, Slots, distinct, draw, packed


@dataclass(frozen=True, slots=True)
class Place:
    """Where a shard stands in the order of its session; all zero where the session has none."""

    unit: int = 0  # stripe unit + 1 of a homogeneous session
    position: int = 0  # deterministic: how many of the data set's records stand before the shard's block
    offset: int = 0  # how many of the block's before the shard
    records: int = 0  # in the block


NOWHERE = Place()
_MOST_NEWS = 16 * MOST_DRAWN


class Sampler(Protocol):
    """The pending shards of one session. A scheme of sampling implements this and nothing else."""

    @property
    def pending(self) -> int:
        """How many shards could be taken."""

    def take(self, n: int, max_bytes: int) -> list[int]:
        """Up to `n` shards, no longer pending, of together at most `max_bytes`; the first is given at any size."""

    def give_back(self, shards: Iterable[int]) -> None:
        """These are pending again. Shards that are pending already stay so."""

    def remove(self, shards: Iterable[int]) -> None:
        """These are pending no longer (read by somebody, or held by a reader that came back)."""

    def residency_changed(self, shards: Sequence[int] | npt.NDArray[np.integer]) -> None:
        """The shards' entries in the residency table, which the sampler shares, have changed. `shards` is not
        changed afterwards."""

    def place(self, shard: int) -> Place: ...

    def close(self) -> None:
        """It is not used any more."""


class ResidentFirst:
    """Two bits and a little for each shard are kept and O(1) time is spent on each, by and large.

    What comes next stands in two windows, of resident and of missing shards, each drawn at random from all that there
    were; what stands in a window and is not so any more is passed over. Invariant: a pending shard stands in the
    window of its kind, or among the news, or that window does not hold all of its kind, and is drawn anew when empty.
    """

    def __init__(
        self,
        pending: npt.NDArray[np.bool_],
        resident: bytearray,
        lengths: Sequence[int] | npt.NDArray[np.uint64],
        rng: random.Random,
    ) -> None:
        """`pending`: shape [shards]. `resident`: a byte a shard, 0 or 1, kept by the caller. `lengths`: bytes."""
        self._pending = Slots(pending)
        self._is_resident, self._lengths = resident, lengths
        self._rng = np.random.default_rng(rng.getrandbits(64))
        self._hits, self._all_hits = array("I"), False  # what is taken next comes last
        self._misses, self._all_misses = array("I"), False
        self._news: list[Sequence[int] | npt.NDArray[np.integer]] = []
        self._news_shards = 0

    @property
    def pending(self) -> int:
        return self._pending.count

    def take(self, n: int, max_bytes: int) -> list[int]:
        taken: list[int] = []
        size_bytes = 0
        while len(taken) < n and self._pending.count:
            window = self._next()
            shard = window[-1]
            size_bytes += int(self._lengths[shard])
            if taken and size_bytes > max_bytes:
                break
            window.pop()
            self._pending.remove(shard)
            taken.append(shard)
        return taken

    def give_back(self, shards: Iterable[int]) -> None:
        self.residency_changed([shard for shard in shards if self._pending.add(shard)])

    def remove(self, shards: Iterable[int]) -> None:
        for shard in shards:
            self._pending.remove(shard)

    def residency_changed(self, shards: Sequence[int] | npt.NDArray[np.integer]) -> None:
        """O(1): they are looked at when they are needed, and not at all when there are too many of them."""
        self._news.append(shards)
        self._news_shards += len(shards)
        if self._news_shards > _MOST_NEWS:
            self._forget()

    def place(self, shard: int) -> Place:
        return NOWHERE

    def close(self) -> None:
        pass

    def _next(self) -> array[int]:
        """The window that ends with the shard that is next. Something is pending."""
        hits, misses, is_pending, is_resident = self._hits, self._misses, self._pending, self._is_resident
        while True:
            while hits:
                if is_resident[hits[-1]] and hits[-1] in is_pending:
                    return hits
                hits.pop()
            if self._news:
                self._sort_news()
            elif not self._all_hits:
                found, self._all_hits = draw(is_pending.bits & packed(is_resident), self._rng)
                hits.extend(found)
            else:
                while misses:
                    if misses[-1] in is_pending:
                        return misses
                    misses.pop()
                if self._all_misses:
                    self._forget()  # bytes of the table have changed that nobody has told of yet
                else:
                    found, self._all_misses = draw(is_pending.bits & ~packed(is_resident), self._rng)
                    misses.extend(found)

    def _sort_news(self) -> None:
        news = distinct(np.concatenate([np.asarray(shards, np.int64) for shards in self._news]))
        self._news.clear()
        self._news_shards = 0
        news = self._rng.permutation(news[self._pending.mask(news)]).astype(np.uint32)
        there = np.frombuffer(self._is_resident, np.uint8)[news] != 0
        self._hits.frombytes(news[there].tobytes())
        self._misses.frombytes(news[~there].tobytes())
        if len(self._hits) + len(self._misses) > _MOST_NEWS:  # the same ones time and again
            self._forget()

    def _forget(self) -> None:
        """The windows are drawn anew."""
        self._news.clear()
        self._news_shards = 0
        self._hits, self._misses = array("I"), array("I")
        self._all_hits = self._all_misses = False
