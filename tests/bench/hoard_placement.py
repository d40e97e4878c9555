"""Jobs that run in another rack than their data: Hoard's Table 5, and what the shipping scores make of it.

A data center of racks, as the paper's: 24 jobs of 4 GPUs each, an up-link of 320 Gb/s a rack, 2.7 Gb/s a job (its
Table 4). Which node owns which shard is computed by the shipping placement
(`tfquiver/shard_owners_chunks_hash_prefixes`), one data set a job, kept on four nodes of one rack; every byte that a
job reads from an owner in another rack goes over the up-link.

Table 5 puts a share of the jobs in the wrong rack by hand. Then the jobs are placed one after the other, each on the
free machine that `SuggestPlacement` would put first (`suggestions`), and, in the same run, on one
at random: with all machines free, half of them, and 30 of 96, where some rack has fewer than its data sets have jobs.

    python -m tests.bench.hoard_placement [--quick]

A pure program: both take some seconds.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Callable, Sequence

import numpy as np

from tests.bench.bars import Bar, finish, quick_parser, run_bench
from tfquiver.service.coordinator.dataset_placement_and_where_jobs_should_run import suggestions
from tfquiver.service.coordinator.dataset_placement_and_where_jobs_should_run.suggestions import Held, Machine
from tfquiver.shard_owners_chunks_hash_prefixes.labels import RACK
from tfquiver.shard_owners_chunks_hash_prefixes.places import Places, chosen
from tfquiver.shard_owners_chunks_hash_prefixes.prefixes import Prefixes
from tfquiver.shard_owners_chunks_hash_prefixes.selector import Selector

PAPER = {20: 5, 40: 9, 60: 13, 80: 17}  # per cent of jobs misplaced -> of the up-link
UPLINK_GBPS, JOB_GBPS = 320.0, 2.7
JOBS, RACKS, NODES_A_RACK, STRIPE = 24, 4, 24, 4
SHARDS = 2000
SEED = 5
Choose = Callable[[Sequence[Machine], Held], Machine]


class Center:
    """`labels` of its nodes, by name."""

    def __init__(self) -> None:
        self.labels = {
            f"r{rack}n{node:02}": {RACK: f"r{rack}"} for rack in range(RACKS) for node in range(NODES_A_RACK)
        }
        self.racks = {name: its[RACK] for name, its in self.labels.items()}

    def kept_in(self, rack: int, of: int) -> Places:
        """A data set's nodes, by the rule `--nodes rack=r<rack> --stripe 4`."""
        selector = Selector.parse(f"{RACK}=r{rack}")
        matching = [name for name, its in self.labels.items() if selector.matches(its)]
        return Places(chosen(self.labels, matching, np.uint64(of), STRIPE))

    def crossing(self, places: Places, shards: Prefixes, machine: str) -> float:
        """The share of a data set that a job there reads over its rack's up-link."""
        owners = places.first(shards)
        return sum(self.racks[owner] != self.racks[machine] for owner in owners) / len(owners)

    def held(self, places: Places, shards: Prefixes) -> Held:
        """Warm: each owner has its shards of 1 MB."""
        by_node: dict[str, int] = {}
        for owner in places.first(shards):
            by_node[owner] = by_node.get(owner, 0) + 1_000_000
        by_rack: dict[str, int] = {}
        for name, size_bytes in by_node.items():
            by_rack[self.racks[name]] = by_rack.get(self.racks[name], 0) + size_bytes
        size_bytes = len(shards) * 1_000_000
        return Held(size_bytes, size_bytes, by_node, by_rack, self.racks, places)


def table_5(center: Center, rng: random.Random) -> dict[int, float]:
    """Per cent of rack 0's up-link: all jobs run there, the data of so many per cent of them is in rack 1."""
    used = {}
    for percent in PAPER:
        misplaced = JOBS * percent / 100
        gbps = 0.0
        for job in range(JOBS):
            share = min(1.0, max(0.0, misplaced - job))  # the paper's 4.8 jobs of 24
            shards = _shards(rng)
            far, near = center.kept_in(1, rng.getrandbits(64)), center.kept_in(0, rng.getrandbits(64))
            gbps += JOB_GBPS * share * center.crossing(far, shards, "r0n00")
            gbps += JOB_GBPS * (1 - share) * center.crossing(near, shards, "r0n00")
        used[percent] = 100 * gbps / UPLINK_GBPS
    return used


def scheduled(center: Center, machines: int, choose: Choose, rng: random.Random) -> dict[str, float]:
    """Jobs placed one after the other. `machines`: how many are free."""
    free = sorted(rng.sample(sorted(center.labels), machines))
    on_node = crossing = 0.0
    for job in range(JOBS):
        places, shards = center.kept_in(job % RACKS, rng.getrandbits(64)), _shards(rng)
        machine = choose([Machine(name, name, center.racks[name]) for name in free], center.held(places, shards))
        free.remove(machine.name)
        on_node += machine.name in places.members
        crossing += center.crossing(places, shards, machine.name)
    return {"misplaced_percent": 100 * crossing / JOBS, "on_a_cache_node_percent": 100 * on_node / JOBS}


def best(machines: Sequence[Machine], held: Held) -> Machine:
    return suggestions.scores(machines, held)[0].machine


def _shards(rng: random.Random) -> Prefixes:
    return np.random.default_rng(rng.getrandbits(32)).integers(0, 2**64, SHARDS, dtype=np.uint64)


def main() -> None:
    parser = quick_parser(__doc__, "fewer drawings")
    quick = parser.parse_args().quick
    center, rng = Center(), random.Random(SEED)
    print(f"seed {SEED}", file=sys.stderr)
    used = table_5(center, rng)
    for percent, paper in PAPER.items():
        print(f"{percent} % misplaced: {used[percent]:.1f} % of the up-link (paper: {paper} %)", file=sys.stderr)
    figures: dict[str, object] = {"seed": SEED, "uplink_percent": used, "paper_percent": PAPER}
    worst = max(abs(used[percent] - paper) for percent, paper in PAPER.items())
    bars = [Bar("Table 5, farthest from the paper, percentage points", worst, 1.0, at_most=True)]
    for machines, bar in ((96, 0.01), (48, 0.1), (30, 0.5)):
        found: dict[str, dict[str, float]] = {}
        for how, choose in (("scored", best), ("at random", lambda free, _: rng.choice(list(free)))):
            rounds = [scheduled(center, machines, choose, rng) for _ in range(2 if quick else 10)]
            found[how] = {key: sum(one[key] for one in rounds) / len(rounds) for key in rounds[0]}
        print(f"{machines} machines free: {found}", file=sys.stderr)
        figures[f"{machines} machines free"] = found
        scored, drawn = (found[how]["misplaced_percent"] for how in ("scored", "at random"))
        bars.append(Bar(f"{machines} free: misplaced by score, of those at random", scored / drawn, bar, at_most=True))
    finish("hoard_placement", figures, bars, quick)


if __name__ == "__main__":
    run_bench(main)
