"""Which nodes own each shard of a data set that has a placement rule. Pure.

Nodes stand in groups: one, or with `rack_local` one for each rack, which is a cache of its own (Quiver, FAST'20,
section 4.9). In each group a shard has as many owners as there are replicas: those with the highest scores of
rendezvous hashing, so that when nodes go the others stay. One group is a shard's *home*, also by rendezvous: its first
owner alone reads the store; other owners ask it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property

import numpy as np
import numpy.typing as npt

from tfquiver.shard_owners_chunks_hash_prefixes.prefixes import Prefixes
from tfquiver.shard_owners_chunks_hash_prefixes.rendezvous import Owners, score

Groups = Sequence[tuple[str, Sequence[str]]]  # racks, and the names of their nodes; one without racks has ""
Grouped = Sequence[tuple[str, Owners]]  # the same, to be striped for many data sets
_SCORES_AT_ONCE = 1 << 22


class Places:
    """Does not change; equal ones say the same."""

    def __init__(self, groups: Groups, replicas: int = 1) -> None:
        self.groups = tuple((rack, tuple(sorted(names))) for rack, names in sorted(groups) if names)
        self.replicas = max(1, replicas)
        self._owners = [Owners(names) for _, names in self.groups]
        self._numbers = {rack: number for number, (rack, _) in enumerate(self.groups)}
        self._homes = Owners([f"rack {rack}" for rack, _ in self.groups]) if len(self.groups) > 1 else None

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Places) and (self.groups, self.replicas) == (other.groups, other.replicas)

    def __hash__(self) -> int:
        return hash((self.groups, self.replicas))

    @cached_property
    def members(self) -> frozenset[str]:
        return frozenset(name for _, names in self.groups for name in names)

    @property
    def flat(self) -> Places:
        """The same nodes, of which each shard has one owner."""
        return Places([("", sorted(self.members))])

    def keepers(self, prefixes: Prefixes, rack: str) -> list[str]:
        """Of each shard that nobody holds, who is to for readers of that rack; "": nobody.

        Args:
          prefixes: shape [shards], as `prefixes.of_rows` gives them.
        """
        number = self._numbers.get(rack)
        if number is None or not self._homes:
            return self.first(prefixes)
        return self._owners[number].of(prefixes)

    def first(self, prefixes: Prefixes) -> list[str]:
        """Of each shard, who alone reads it from the store; "": there is no node."""
        if not self.groups:
            return [""] * len(prefixes)
        firsts = [owners.of(prefixes) for owners in self._owners]
        if not self._homes:
            return firsts[0]
        return [firsts[home][at] for at, home in enumerate(self._home_numbers(prefixes).tolist())]

    def all(self, prefixes: Prefixes) -> list[list[str]]:
        """The owners of each shard: those of its home first, each group's in their order."""
        if not self.groups:
            return [[] for _ in prefixes]
        several = [owners.several(prefixes, self.replicas) for owners in self._owners]
        if len(several) == 1:
            return [list(names) for names in several[0]]
        found = []
        for at, home in enumerate(self._home_numbers(prefixes).tolist()):
            others = (names for number, its in enumerate(several) if number != home for names in its[at])
            found.append([*several[home][at], *others])
        return found

    def owned(self, prefixes: Prefixes, name: str) -> npt.NDArray[np.bool_]:
        """Shape [shards]: whether that node is one of the owners in its group."""
        found = np.zeros(len(prefixes), np.bool_)
        for owners, (_, names) in zip(self._owners, self.groups, strict=True):
            if name in names:
                for part in _parts(prefixes, len(names)):
                    found[part] = owners.among(prefixes[part], self.replicas, name)
        return found

    def home(self, prefixes: Prefixes, name: str) -> npt.NDArray[np.bool_]:
        """Shape [shards]: whether that node is in the shard's home."""
        numbers = {number for number, (_, names) in enumerate(self.groups) if name in names}
        found: npt.NDArray[np.bool_] = np.isin(self._home_numbers(prefixes), list(numbers))
        return found

    def beside(self, name: str) -> tuple[str, ...]:
        """The nodes of its group, itself included."""
        return next((names for _, names in self.groups if name in names), ())

    def home_owners(self, prefixes: Prefixes) -> list[tuple[str, ...]]:
        """Of each shard, the owners of its home."""
        if not self.groups:
            return [()] * len(prefixes)
        several = [owners.several(prefixes, self.replicas) for owners in self._owners]
        return [several[home][at] for at, home in enumerate(self._home_numbers(prefixes).tolist())]

    def _home_numbers(self, prefixes: Prefixes) -> npt.NDArray[np.int64]:
        if not self._homes:
            return np.zeros(len(prefixes), np.int64)
        return self._homes.numbers(prefixes)


def chosen(
    nodes: Mapping[str, Mapping[str, str]], matching: Iterable[str], of: np.uint64, stripe: int, rack_of: str = ""
) -> Groups:
    """The groups of a data set: `striped` of `grouped`."""
    return striped(grouped(nodes, matching, rack_of), of, stripe)


def grouped(nodes: Mapping[str, Mapping[str, str]], matching: Iterable[str], rack_of: str = "") -> Grouped:
    """
    Args:
      nodes: labels by name.
      matching: those of them that may be used.
      rack_of: the label by which nodes are grouped; empty: they are one group.
    """
    groups: dict[str, list[str]] = {}
    for name in matching:
        groups.setdefault(nodes[name].get(rack_of, "") if rack_of else "", []).append(name)
    return [(rack, Owners(names)) for rack, names in groups.items()]


def striped(groups: Grouped, of: np.uint64, stripe: int) -> Groups:
    """
    Args:
      of: what the choice is drawn by: the first 8 bytes of the digest id.
      stripe: at most so many nodes of each group, by rendezvous hashing of the data set; 0: all.
    """
    return [(rack, _of_stripe(owners, of, stripe)) for rack, owners in groups]


class Regrouped:
    """What has come and gone between two groupings. Of thousands of data sets that are striped over a thousand nodes
    most stay where they were when one of these comes or goes."""

    def __init__(self, before: Grouped, now: Grouped) -> None:
        self._now, was = now, {rack: frozenset(owners.names) for rack, owners in before}
        self._many = {rack: len(names) for rack, names in was.items()}
        self._gone = {rack: was[rack].difference(owners.names) for rack, owners in now if rack in was}
        self._come = {rack: tuple(set(owners.names) - was[rack]) for rack, owners in now if rack in was}

    def striped(self, before: Groups, of: np.uint64, stripe: int) -> Groups:
        """As the function, of what is now. `before`: what it was then; the same object if nothing changes."""
        was, groups = dict(before), []
        for rack, owners in self._now:
            names = was.get(rack, ())
            if not self._stays(rack, names, int(of), stripe):
                names = _of_stripe(owners, of, stripe)
            groups.append((rack, names))
        return before if len(was) == len(groups) and all(was.get(rack) is names for rack, names in groups) else groups

    def _stays(self, rack: str, names: Sequence[str], of: int, stripe: int) -> bool:
        if self._many.get(rack, 0) <= stripe or rack not in self._gone or not self._gone[rack].isdisjoint(names):
            return False  # of a few all are taken, in another order
        come = self._come[rack]
        return not come or max(score(of, name) for name in come) < score(of, names[-1])


def _of_stripe(owners: Owners, of: np.uint64, stripe: int) -> Sequence[str]:
    if not stripe or stripe >= len(owners.names):
        return owners.names
    return owners.several(np.array([of], np.uint64), stripe)[0]


def _parts(prefixes: Prefixes, nodes: int) -> Iterable[slice]:
    """Of millions of shards and a thousand nodes the scores would take gigabytes."""
    step = max(1, _SCORES_AT_ONCE // max(1, nodes))
    return (slice(at, at + step) for at in range(0, len(prefixes), step))
