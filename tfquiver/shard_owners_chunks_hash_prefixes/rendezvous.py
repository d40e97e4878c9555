"""Which node owns a shard: rendezvous (highest random weight) hashing, Thaler and Ravishankar 1998.

Every node gets a score for a shard from both names; the highest score owns it. When a node leaves, only its
own shards move.
"""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from tfquiver.shard_owners_chunks_hash_prefixes.prefixes import Prefixes, of_hash, of_rows

_MULTIPLIER_1 = np.uint64(0xBF58476D1CE4E5B9)  # splitmix64's finaliser
_MULTIPLIER_2 = np.uint64(0x94D049BB133111EB)
_ALL_ONES = (1 << 64) - 1


def _mix(values: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    values = (values ^ (values >> np.uint64(30))) * _MULTIPLIER_1
    values = (values ^ (values >> np.uint64(27))) * _MULTIPLIER_2
    return values ^ (values >> np.uint64(31))


class Owners:
    """Owners among nodes that stay the same for a while: for a few shards at a time, however many nodes."""

    def __init__(self, node_ids: Sequence[str]) -> None:
        """At least one."""
        self.names: Sequence[str] = tuple(sorted(node_ids))
        self._seeds = np.array([_seed(name) for name in self.names], np.uint64)

    def of(self, prefixes: Prefixes) -> list[str]:
        """Args:
        prefixes: shape [shards], the first 8 bytes of each shard's hash, as `prefixes.of_rows` gives them.
        """
        return [self.names[index] for index in self.numbers(prefixes).tolist()]

    def numbers(self, prefixes: Prefixes) -> npt.NDArray[np.int64]:
        """As `of`, as places among the sorted names."""
        scores = self._scores(prefixes)
        last: npt.NDArray[np.int64] = scores.shape[1] - 1 - np.argmax(scores[:, ::-1], axis=1)
        return last  # of equal ones the last wins, as in `owners`

    def several(self, prefixes: Prefixes, copies: int) -> list[tuple[str, ...]]:
        """Of each shard so many owners (all nodes, where there are fewer), the first as `of` says: when one leaves, the
        others stay, and so does their order."""
        ranked = np.argsort(self._scores(prefixes), axis=1, kind="stable")[:, ::-1][:, :copies]
        return [tuple(self.names[index] for index in row) for row in ranked.tolist()]

    def among(self, prefixes: Prefixes, copies: int, name: str) -> npt.NDArray[np.bool_]:
        """Shape [shards]: whether that node is one of `several`."""
        scores, number = self._scores(prefixes), self.names.index(name)
        own = scores[:, number : number + 1]
        # Of equal ones the last wins.
        better = np.count_nonzero(scores[:, :number] > own, axis=1) + np.count_nonzero(
            scores[:, number + 1 :] >= own, axis=1
        )
        few: npt.NDArray[np.bool_] = better < copies
        return few

    def _scores(self, prefixes: Prefixes) -> npt.NDArray[np.uint64]:
        return _mix(prefixes.reshape(-1, 1) ^ self._seeds)


def score(prefix: int, node_id: str) -> int:
    """What `Owners` give one node for one shard: for a few it takes less than an array."""
    value = prefix ^ int(_seed(node_id))
    value = (value ^ (value >> 30)) * int(_MULTIPLIER_1) & _ALL_ONES
    value = (value ^ (value >> 27)) * int(_MULTIPLIER_2) & _ALL_ONES
    return value ^ (value >> 31)


@functools.lru_cache(16_384)
def _seed(node_id: str) -> np.uint64:
    return of_hash(hashlib.sha256(node_id.encode()).digest())


def owners(hashes: npt.NDArray[np.uint8], node_ids: Sequence[str]) -> npt.NDArray[np.int64]:
    """For each shard hash, the index in `node_ids` of its owner.

    Args:
      hashes: shape [shards, 32], the shards' SHA-256.
      node_ids: names of the nodes that own shards; at least one. Order does not matter to who owns what.

    Returns:
      Shape [shards], indices into `node_ids`.
    """
    if not node_ids:
        raise ValueError("rendezvous hashing needs at least one node")
    prefix = of_rows(hashes)
    best = np.zeros(len(prefix), np.uint64)
    owner = np.zeros(len(prefix), np.int64)
    for index in sorted(range(len(node_ids)), key=lambda i: node_ids[i]):
        score = _mix(prefix ^ _seed(node_ids[index]))
        wins = score >= best
        best = np.where(wins, score, best)
        owner = np.where(wins, index, owner)
    return owner
