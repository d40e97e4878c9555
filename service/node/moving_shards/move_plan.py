"""What of one data set this node is to take over, from whom, and what it can give up. Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tfquiver.shard_owners_chunks_hash_prefixes.places import Places
from tfquiver.shard_owners_chunks_hash_prefixes.prefixes import Prefixes

Shards = npt.NDArray[np.int64]  # indices in the digest, ascending


@dataclass(frozen=True, slots=True, eq=False)
class MovePlan:
    """`lacking`: it owns them, and they are not here. `extra`: they are here, and it does not own them."""

    lacking: Shards
    extra: Shards


class OwnPart:
    """What a node owns of a data set. Making it takes seconds for millions of shards; 13 bytes a shard.

    Args:
      contents: shape [shards]; equal ones count once.
    """

    def __init__(self, places: Places, contents: Prefixes, node_id: str) -> None:
        self.places = places
        self._sorted, first = np.unique(contents, return_index=True)
        self._shards = first.astype(np.uint32)
        self._owned = places.owned(self._sorted, node_id)

    def plan(self, here: Prefixes) -> MovePlan:
        """`here`: of every entry of the node."""
        there = np.zeros(len(self._sorted), np.bool_)
        if len(self._sorted):
            at = np.minimum(np.searchsorted(self._sorted, here), len(self._sorted) - 1)
            there[at[self._sorted[at] == here]] = True
        return MovePlan(self._of(self._owned & ~there), self._of(there & ~self._owned))

    def _of(self, mask: npt.NDArray[np.bool_]) -> Shards:
        return np.sort(self._shards[mask]).astype(np.int64)


def may_come_from(
    places: Places, contents: Prefixes, node_id: str, holders: Mapping[str, npt.NDArray[np.bool_]]
) -> dict[str, npt.NDArray[np.bool_]]:
    """Of each node, shape [shards]: what it holds, and this node, the owner, takes from it ahead of readers. In its
    home a shard is taken from wherever it is; in another rack, where readers bring it when they need it, from nodes of
    that rack only: else every shard would cross to every rack, read there or not."""
    beside, home = frozenset(places.beside(node_id)), places.home(contents, node_id)
    return {name: mask if name in beside else mask & home for name, mask in holders.items()}


def sources(holders: Mapping[str, npt.NDArray[np.bool_]], near: Collection[str], turn: int) -> list[str]:
    """Of each shard, from whom it is taken; "": nobody has it. Those that have it take turns, those near first.

    Args:
      holders: of each node, shape [shards]: whether it has, and may give, each.
    """
    found = [""] * (len(next(iter(holders.values()))) if holders else 0)
    for some in (holders.keys() - near, holders.keys() & near):  # those near come in the place of the others
        if not some:
            continue
        names = sorted(some)
        masks = np.stack([holders[name] for name in names], axis=1)
        counts, having = np.count_nonzero(masks, axis=1), np.flatnonzero(masks) % len(names)
        there = np.flatnonzero(counts)
        chosen = having[(np.cumsum(counts) - counts)[there] + (turn + there) % counts[there]]
        for shard, number in zip(there.tolist(), chosen.tolist(), strict=True):
            found[shard] = names[number]
    return found


def spare(owners: Sequence[Sequence[str]], holders: Mapping[str, npt.NDArray[np.bool_]]) -> list[int]:
    """Places in `owners` of those shards that all their owners hold; of one without owners, none is spare."""
    return [
        at for at, names in enumerate(owners) if names and all(name in holders and holders[name][at] for name in names)
    ]
