"""Which digests name a shard, by a part of its hash, for all digests of this node together. Pure; for threads, one at a
time.

What an eviction frees is found here: to open each of ten thousand digests for it took the node ten seconds. A pair of a
prefix and a digest's number for each shard, 12 bytes, in sorted runs of which neighbours of like size are joined: what
comes and goes costs a few times its own size, not that of all. Digests that have no room in it are for others to read.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence, Set

import numpy as np
import numpy.typing as npt

from tfquiver.shard_owners_chunks_hash_prefixes.prefixes import Prefixes, of_rows
from tfquiver.shard_owners_chunks_hash_prefixes.sorted_numbers import distinct

MOST = 8 << 20  # pairs: 96 MiB
_MOST_JOINED = 2 << 20  # what is made of two runs is no longer: it has both beside it while it is made
_AT_ONCE = 1 << 18

_Numbers = npt.NDArray[np.uint32]


class NamedPrefixes:
    def __init__(self, most: int = MOST) -> None:
        self._most = most
        self._runs: list[tuple[Prefixes, _Numbers]] = []  # each sorted by prefix
        self._known: dict[bytes, tuple[int, int]] = {}  # number and pairs, by digest id
        self._left_out = set[bytes]()
        self._next = 0
        self._pairs = self._dead = 0

    @property
    def digest_ids(self) -> Set[bytes]:
        return self._known.keys()

    @property
    def left_out(self) -> Set[bytes]:
        """For which there was no room; and none has come since."""
        return self._left_out

    @property
    def memory_bytes(self) -> int:
        return sum(prefixes.nbytes + numbers.nbytes for prefixes, numbers in self._runs)

    def add(self, digests: Iterable[tuple[bytes, npt.NDArray[np.uint8]]]) -> None:
        """Digest ids, not known yet, and their hashes, of shape [shards, 32]. What there is no room for is left out."""
        prefixes, numbers = list[Prefixes](), list[_Numbers]()
        for digest_id, hashes in digests:
            if self._pairs + len(hashes) > self._most:
                self._left_out.add(digest_id)
                continue
            its = distinct(of_rows(hashes))
            self._known[digest_id] = self._next, len(its)
            prefixes.append(its)
            numbers.append(np.full(len(its), self._next, np.uint32))
            self._pairs += len(its)
            self._next += 1
        if prefixes:
            self._runs.append(_sorted(np.concatenate(prefixes), np.concatenate(numbers)))
            self._join()

    def forget(self, digest_ids: Iterable[bytes]) -> None:
        for digest_id in digest_ids:
            self._left_out.discard(digest_id)
            if digest_id in self._known:
                self._dead += self._known.pop(digest_id)[1]
        if self._dead > self._pairs // 2:
            self._clear_out()

    def named(self, parts: Prefixes, by: Collection[bytes]) -> npt.NDArray[np.bool_]:
        """Which of these prefixes, sorted and distinct, one of these digests names, as far as they are known here."""
        counted = np.zeros(self._next, np.bool_)
        counted[[self._known[digest_id][0] for digest_id in by if digest_id in self._known]] = True
        found = np.zeros(len(parts), np.bool_)
        for prefixes, numbers in self._runs:
            for at in range(0, len(parts), _AT_ONCE):
                its = parts[at : at + _AT_ONCE]
                first, end = np.searchsorted(prefixes, its), np.searchsorted(prefixes, its, "right")
                of_part = np.repeat(np.arange(len(its)), end - first)
                # Where each pair of each prefix stands, one prefix after the other.
                ends = np.cumsum(end - first)
                where = np.arange(len(of_part)) + np.repeat(first - (ends - (end - first)), end - first)
                found[at + of_part[counted[numbers[where]]]] = True
        return found

    def _join(self) -> None:
        while len(self._runs) > 1:
            before, last = self._runs[-2:]
            if len(before[0]) >= 2 * len(last[0]) or len(before[0]) + len(last[0]) > _MOST_JOINED:
                return
            self._runs[-2:] = [_joined(before, last)]

    def _clear_out(self) -> None:
        """What digests that are known no more have left; the others are counted anew."""
        alive, number_of = np.zeros(self._next, np.bool_), np.zeros(self._next, np.uint32)
        for new, (digest_id, (number, pairs)) in enumerate(self._known.items()):
            alive[number], number_of[number] = True, new
            self._known[digest_id] = new, pairs
        runs: Sequence[tuple[Prefixes, _Numbers]] = self._runs
        self._runs = []
        for prefixes, numbers in runs:
            if (stays := alive[numbers]).any():
                self._runs.append((prefixes[stays], number_of[numbers[stays]]))
                self._join()
        self._left_out.clear()
        self._next, self._dead = len(self._known), 0
        self._pairs = sum(pairs for _, pairs in self._known.values())


def _sorted(prefixes: Prefixes, numbers: _Numbers) -> tuple[Prefixes, _Numbers]:
    order = np.argsort(prefixes)
    return prefixes[order], numbers[order]


def _joined(longer: tuple[Prefixes, _Numbers], other: tuple[Prefixes, _Numbers]) -> tuple[Prefixes, _Numbers]:
    at = np.searchsorted(longer[0], other[0]) + np.arange(len(other[0]))
    stays = np.ones(len(longer[0]) + len(other[0]), np.bool_)
    stays[at] = False
    prefixes, numbers = np.empty(len(stays), np.uint64), np.empty(len(stays), np.uint32)
    prefixes[stays], prefixes[at] = longer[0], other[0]
    numbers[stays], numbers[at] = longer[1], other[1]
    return prefixes, numbers
