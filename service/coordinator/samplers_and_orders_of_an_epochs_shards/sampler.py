"""Which shards a session hands out next: resident ones first, each kind in random order.

Substitutability (Quiver, FAST'20, section 4.7): an epoch needs every record once, in any random order, so a session
takes what is cached now and comes back for the rest.
"""

from __future__ import annotations

import random
from array import array
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from tfquiver.service.coordinator.samplers_and_orders_of_an_epochs_shards.slots import (
    MOST_DRAWN,
    Slots,
    draw,
    draw_runs,
    packed,
)
from tfquiver.shard_owners_chunks_hash_prefixes.sorted_numbers import distinct


@dataclass(frozen=True, slots=True)
class Place:
    """Where a shard stands in the order of its session; all zero where the session has none."""

    unit: int = 0  # stripe unit + 1 of a homogeneous session
    position: int = 0  # deterministic: how many of the data set's records stand before the shard's block
    offset: int = 0  # how many of the block's before the shard
    records: int = 0  # in the block


NOWHERE = Place()
_MOST_NEWS = 16 * MOST_DRAWN
# Told one by one they were millions of objects in a thousand sessions, and each collection of garbage looked at all.
_MOST_PIECES = 64
_UNKNOWN = 1 << 32  # many


class Sampler(Protocol):
    """The pending shards of one session. A scheme of sampling implements this and nothing else."""

    @property
    def pending(self) -> int:
        """How many shards could be taken."""

    def take(self, n: int, max_bytes: int, store_bytes: float | None = None) -> list[int]:
        """Up to `n` shards, no longer pending, of together at most `max_bytes`; the first is given at any size.

        `store_bytes`: how much of it may be missing; None: any. Whatever is left of it pays for one whole shard.
        """

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


class Lengths(Protocol):
    """Bytes of each shard."""

    def __getitem__(self, shard: int, /) -> Any: ...  # a whole number, of numpy's perhaps


class ResidentFirst:
    """Two bits and a little for each shard are kept and O(1) time is spent on each, by and large.

    What comes next stands in two windows, of resident and of missing shards, each drawn at random from all that there
    were; what stands in a window and is not so any more is passed over. News are looked at when no resident shard is
    left; what is missing since then comes in anywhere among the others: not before them, or jobs that hear of the same
    evictions would read in step. Invariant: a pending shard stands in the window of its kind, or among the news, or
    that window does not hold all of its kind, and is drawn anew when empty.

    Where there is a limit on what may be missing, that is used first: it comes in all the time, and what is not used is
    lost. So the store works while the job computes on what is resident, as SiloD has it (EuroSys'23, equation 4).
    """

    def __init__(
        self,
        pending: npt.NDArray[np.bool_],
        resident: bytearray,
        lengths: Lengths,
        rng: random.Random,
        there: bytearray | None = None,
        run: int = 1,
    ) -> None:
        """`pending`: shape [shards]. `resident`: a byte a shard, 0 or 1, kept by the caller. `lengths`: bytes.

        Args:
          there: what really is resident, where that is another than what the order goes by.
          run: so many neighbours that are missing come one after the other, at most: they are one request to the store.
        """
        self._run = run
        self._pending = Slots(pending)
        self._is_resident, self._lengths = resident, lengths
        self._there = resident if there is None else there
        self._rng = np.random.default_rng(rng.getrandbits(64))
        # Of each kind what is taken next, the next one last; and how many more there are, as far as known.
        self._hits, self._more_hits = array("I"), _UNKNOWN
        self._misses, self._more_misses = array("I"), _UNKNOWN
        self._news: list[Sequence[int] | npt.NDArray[np.integer]] = []
        self._news_shards = 0

    @property
    def pending(self) -> int:
        return self._pending.count

    def take(self, n: int, max_bytes: int, store_bytes: float | None = None) -> list[int]:
        taken: list[int] = []
        size_bytes, last_run = 0, -1
        while len(taken) < n and self._pending.count:
            window = (self._next_missing() if store_bytes and store_bytes > 0 else None) or self._next()
            shard = window[-1]
            size_bytes += int(self._lengths[shard])
            if taken and size_bytes > max_bytes:
                break
            if self._run > 1 and window is self._misses and shard // self._run != last_run:
                if taken and size_bytes + self._rest_of_run(window) > max_bytes:
                    break  # the next call begins it, and gets it whole
                last_run = shard // self._run
            if store_bytes is not None and not self._there[shard]:
                if store_bytes <= 0:
                    break
                store_bytes -= int(self._lengths[shard])
            window.pop()
            self._pending.remove(shard)
            taken.append(shard)
        return taken

    def give_back(self, shards: Iterable[int]) -> None:
        self._look_at([shard for shard in shards if self._pending.add(shard)])

    def remove(self, shards: Iterable[int]) -> None:
        self._pending.remove_all(shards)

    def residency_changed(self, shards: Sequence[int] | npt.NDArray[np.integer]) -> None:
        """O(1): they are looked at when they are needed, and not at all when there are too many of them."""
        self._look_at(shards)

    def place(self, shard: int) -> Place:
        return NOWHERE

    def close(self) -> None:
        pass

    def _next(self) -> array[int]:
        """The window that ends with the shard that is next. Something is pending."""
        pending, is_resident = self._pending.bytes, self._is_resident
        while True:
            hits, misses = self._hits, self._misses  # which are others where they were drawn anew
            while hits:
                shard = hits[-1]
                if is_resident[shard] and pending[shard >> 3] >> (shard & 7) & 1:
                    return hits
                hits.pop()
            if self._news:
                self._sort_news()
            elif self._more_hits:
                found, self._more_hits = draw(self._pending.bits & packed(is_resident), self._rng)
                hits.extend(found)
            else:
                while misses:
                    shard = misses[-1]
                    if pending[shard >> 3] >> (shard & 7) & 1:
                        return misses
                    misses.pop()
                if self._more_misses:
                    found, self._more_misses = self._draw_missing()
                    misses.extend(found)
                else:
                    self._forget()  # bytes of the table have changed that nobody has told of yet

    def _next_missing(self) -> array[int] | None:
        """As `_next`; None where nothing is known to be missing."""
        if self._there is not self._is_resident:
            return None  # its order goes by something else
        misses, pending, is_resident = self._misses, self._pending.bytes, self._is_resident
        while True:
            while misses:
                shard = misses[-1]
                if pending[shard >> 3] >> (shard & 7) & 1 and not is_resident[shard]:
                    return misses
                misses.pop()
            if not self._more_misses:
                return None
            found, self._more_misses = self._draw_missing()
            misses.extend(found)

    def _rest_of_run(self, window: array[int]) -> int:
        """Bytes of what stands in the window behind the shard that is next, of its run."""
        run, rest_bytes, at = window[-1] // self._run, 0, len(window) - 2
        while at >= 0 and window[at] // self._run == run:
            rest_bytes += int(self._lengths[window[at]])
            at -= 1
        return rest_bytes

    def _draw_missing(self) -> tuple[array[int], int]:
        bits = self._pending.bits & ~packed(self._is_resident)
        return draw(bits, self._rng) if self._run == 1 else draw_runs(bits, self._rng, self._run)

    def _look_at(self, shards: Sequence[int] | npt.NDArray[np.integer]) -> None:
        self._news.append(shards)
        self._news_shards += len(shards)
        if self._news_shards > _MOST_NEWS:
            self._forget()
        elif len(self._news) >= _MOST_PIECES:
            self._news = [self._all_news()]

    def _all_news(self) -> npt.NDArray[np.uint32]:
        return np.concatenate([np.asarray(shards, np.uint32) for shards in self._news])

    def _sort_news(self) -> None:
        news = distinct(self._all_news())
        self._news.clear()
        self._news_shards = 0
        news = news[self._pending.mask(news)]
        there = np.frombuffer(self._is_resident, np.uint8)[news] != 0
        self._more_hits += self._come_in(self._hits, self._more_hits, news[there])
        self._more_misses += self._come_in(self._misses, self._more_misses, news[~there])
        if len(self._hits) + len(self._misses) > _MOST_NEWS:  # a window that holds all of its kind takes all that comes
            self._forget()

    def _come_in(self, window: array[int], more: int, news: npt.NDArray[np.uint32]) -> int:
        """Each place among the others of its kind is equally likely, those included that are not in the window.

        Returns how many came in elsewhere than in the window.
        """
        came = len(news)
        if more and came:
            news = news[self._rng.random(came) * (len(window) + more) < len(window)]
        if not len(news):
            return came
        before = np.array(window, np.uint32)
        before = before[np.isin(before, news, invert=True)]
        merged = np.empty(len(before) + len(news), np.uint32)
        places = np.zeros(len(merged), np.bool_)
        places[self._rng.choice(len(merged), len(news), replace=False, shuffle=False)] = True
        merged[places], merged[~places] = self._rng.permutation(news), before
        del window[:]
        window.frombytes(merged.tobytes())
        return came - len(news)

    def _forget(self) -> None:
        """The windows are drawn anew."""
        self._news.clear()
        self._news_shards = 0
        self._hits, self._misses = array("I"), array("I")
        self._more_hits = self._more_misses = _UNKNOWN


class InAnyOrder(ResidentFirst):
    """What is resident does not matter, nor what becomes so: `resident` is all zero, and stays so."""

    def residency_changed(self, shards: Sequence[int] | npt.NDArray[np.integer]) -> None:
        """Nothing."""
