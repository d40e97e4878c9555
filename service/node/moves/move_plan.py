"""What of one data set this node is to take over, from whom, and what it can give up. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tfquiver.content.prefixes import Prefixes
from tfquiver.placement.places import Places

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


def may_come_from(places: Places, contents: Prefixes, node_id: str, holder: str) -> npt.NDArray[np.bool_]:
    """Shape [shards]: whether this node, their owner, takes what `holder` holds ahead of readers. In its home a shard
    is taken from wherever it is; in another rack, where readers bring it when they need it, from nodes of that rack
    only: else every shard would cross to every rack, read there or not."""
    if holder in places.beside(node_id):
        return np.ones(len(contents), np.bool_)
    return places.home(contents, node_id)


def sources(holders: Mapping[str, npt.NDArray[np.bool_]], near: Sequence[str], turn: int) -> list[str]:
    """Of each shard, from whom it is taken; "": nobody has it. Those that have it take turns, those near first.

    Args:
      holders: of each node, shape [shards]: whether it has, and may give, each.
    """
    count = len(next(iter(holders.values()))) if holders else 0
    found = [""] * count
    names = [sorted(name for name in holders if name in near), sorted(name for name in holders if name not in near)]
    for at in range(count):
        for some in names:
            having = [name for name in some if holders[name][at]]
            if having:
                found[at] = having[(turn + at) % len(having)]
                break
    return found


def spare(owners: Sequence[Sequence[str]], holders: Mapping[str, npt.NDArray[np.bool_]]) -> list[int]:
    """Places in `owners` of those shards that all their owners hold; of one without owners, none is spare."""
    return [
        at for at, names in enumerate(owners) if names and all(name in holders and holders[name][at] for name in names)
    ]
