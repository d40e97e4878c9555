"""How much of a data set a job would find near it, on each of the machines that it may run on (Hoard, section 3.3).

A scheduler prefers the node that has the data, then the rack, then whatever has a free accelerator: what has to cross
racks takes from the up-links that all share, what is cached nowhere from the store.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from tfquiver.shard_owners_chunks_hash_prefixes import labels
from tfquiver.shard_owners_chunks_hash_prefixes.places import Places
from tfquiver.sizes_durations_amounts.amounts import of_bytes

# What a byte costs, of what it costs from the store: nothing on the node itself; over the rack's own switch; over the
# up-links, which are oversubscribed some three times (Hoard, section 4.5).
RACK_COST, ELSEWHERE_COST, STORE_COST = 0.1, 0.3, 1.0
_PLANNED = 0.5  # of what a byte on the disk counts: it has to come from the store first, once for all epochs


@dataclass(frozen=True, slots=True)
class Machine:
    """Where a job may run. `node_id`: of the cache node there; "": none."""

    name: str
    node_id: str
    rack: str


@dataclass(frozen=True, slots=True)
class Held:
    """Of one data set: raw bytes on each node, and of each rack; a shard counts once in a rack, however many hold it.

    `racks`: of the nodes, "" where it is not known. `any_bytes`: on some node.
    """

    size_bytes: int
    any_bytes: int
    by_node: Mapping[str, int]
    by_rack: Mapping[str, int]
    racks: Mapping[str, str]
    places: Places | None = None


@dataclass(frozen=True, slots=True)
class Score:
    machine: Machine
    score: float
    node_bytes: int
    rack_bytes: int
    elsewhere_bytes: int
    missing_bytes: int
    planned_bytes: int

    @property
    def reason(self) -> str:
        where = f"rack {self.machine.rack}" if self.machine.rack else "no rack that is known"
        parts = [
            f"{of_bytes(size_bytes)} {what}"
            for size_bytes, what in (
                (self.node_bytes, "on the node itself"),
                (self.rack_bytes, f"in its {where}"),
                (self.elsewhere_bytes, "on nodes elsewhere"),
                (self.missing_bytes, "on none, to come from the store"),
            )
            if size_bytes
        ]
        told = "; ".join(parts) or "the data set is empty"
        return f"{told}; {of_bytes(self.planned_bytes)} of them are to be kept near it" if self.planned_bytes else told


def machines(
    candidates: Iterable[tuple[str, Mapping[str, str]]], nodes: Mapping[str, tuple[str, Mapping[str, str]]]
) -> list[Machine]:
    """Args:
    candidates: names, and what labels are known of each.
    nodes: host and labels of each live node.
    """
    by_host: dict[str, str] = {}
    for node_id, (host, its) in nodes.items():
        by_host.setdefault(host, node_id)
        if its.get("host"):
            by_host[its["host"]] = node_id
    found = []
    for name, known in candidates:
        node_id = name if name in nodes else by_host.get(name, "")
        its = nodes[node_id][1] if node_id else {}
        found.append(Machine(name, node_id, its.get(labels.RACK, "") or known.get(labels.RACK, "")))
    return found


def scores(candidates: Sequence[Machine], held: Held) -> list[Score]:
    """The best first; as good ones as they came."""
    return sorted((_score(machine, held) for machine in candidates), key=lambda one: -one.score)


def _score(machine: Machine, held: Held) -> Score:
    node_bytes = held.by_node.get(machine.node_id, 0) if machine.node_id else 0
    rack_bytes = max(0, held.by_rack.get(machine.rack, 0) - node_bytes) if machine.rack else 0
    elsewhere_bytes = max(0, held.any_bytes - node_bytes - rack_bytes)
    missing_bytes = held.size_bytes - node_bytes - rack_bytes - elsewhere_bytes
    planned_node, planned_rack = _planned(machine, held)
    planned = planned_node + (planned_rack - planned_node) * (1 - RACK_COST)
    saved = (
        node_bytes
        + rack_bytes * (1 - RACK_COST)
        + elsewhere_bytes * (1 - ELSEWHERE_COST)
        + missing_bytes * (1 - STORE_COST + _PLANNED * planned)
    )
    return Score(
        machine,
        saved / held.size_bytes if held.size_bytes else 0.0,
        node_bytes,
        rack_bytes,
        elsewhere_bytes,
        missing_bytes,
        int(missing_bytes * planned_rack),
    )


def _planned(machine: Machine, held: Held) -> tuple[float, float]:
    """What share of a missing shard that node is to keep, and its rack, the node included."""
    if held.places is None or not held.places.groups:
        return 0.0, 0.0
    groups = held.places.groups
    own = [names for rack, names in groups if len(groups) < 2 or rack == machine.rack]
    names = [name for some in own for name in some]
    each = min(1.0, held.places.replicas / len(names)) if names else 0.0
    node = each if machine.node_id in names else 0.0
    if not machine.rack:
        return node, node
    near = sum(1 for name in names if held.racks.get(name) == machine.rack)
    return node, max(node, min(1.0, each * near))
