"""What nodes have told and no table has been told of yet: of each node and hash the last word. Pure."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from tfquiver.shard_owners_chunks_hash_prefixes.prefixes import Prefixes

Told = tuple[Prefixes, npt.NDArray[np.int32]]  # hashes, sorted, and the number of the node that each is told by


class Unsettled:
    def __init__(self) -> None:
        self._last: dict[int, dict[int, bool]] = {}  # by number of a node: whether it holds each hash now
        self.hashes = 0  # that it was told of

    def add(self, number: int, there: bool, values: Prefixes) -> None:
        self._last.setdefault(number, {}).update(dict.fromkeys(values.tolist(), there))
        self.hashes += len(values)

    def take(self) -> tuple[Told, Told]:
        """What has come, and what has gone; nothing of it is here any more."""
        last, self._last, self.hashes = self._last, {}, 0
        counts = [len(its) for its in last.values()]
        values = np.fromiter((value for its in last.values() for value in its), np.uint64, sum(counts))
        there = np.fromiter((there for its in last.values() for there in its.values()), np.bool_, sum(counts))
        numbers = np.repeat(np.fromiter(last, np.int32, len(last)), counts)
        order = np.argsort(values, kind="stable")
        values, there, numbers = values[order], there[order], numbers[order]
        return (values[there], numbers[there]), (values[~there], numbers[~there])


def of_these(told: Told, values: Prefixes) -> Told:
    """Of what was told that of these hashes. `values`: sorted, at least one."""
    sorted_, numbers = told
    mine = values.take(values.searchsorted(sorted_), mode="clip") == sorted_
    return sorted_[mine], numbers[mine]
