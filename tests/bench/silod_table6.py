"""SiloD's Table 6 in the flow simulator: five jobs on eight V100s, four cache systems, average JCT and makespan.

Four image jobs of one accelerator (two ResNet-50 of 13 epochs, two EfficientNetB1 of 10), each with a data set of its
own of 1.36 TB, and BERT on four accelerators, 0.07 epochs of 20.9 TB (section 7.1.1); 200 MB/s from the store, 2 TB of
cache. 1 TB = 2^40 bytes, so 1 MB = 2^20: only their ratio matters, and it is the paper's, whose 20 TB are 20,971 GB
(decision 0028; what other readings give is shown, without bars). SiloD is `silod_greedy`, CoorDL `static`, Alluxio
`lru`, Quiver `quiver`: the shipping policies, called as a cluster calls them. Nothing is fitted to a system: the
store is shared max-min fair where a policy does not share it out.

Bars: who is ahead of whom, as in the paper; every figure, and every ratio to SiloD, within 8 % of its column
"Simulation".

    python -m tests.bench.silod_table6 [--quick] [--out DIR]
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

from tests.bench.bars import Bar, finish, quick_parser, run_bench
from tests.bench.experiment import plots
from tfquiver.service.coordinator.job_schedulers.fifo import Fifo
from tfquiver.service.coordinator.policies import registry
from tfquiver.service.sim.job_queue_rates_store_bandwidth.outcome import Outcome, bound
from tfquiver.service.sim.job_queue_rates_store_bandwidth.simulation import simulate
from tfquiver.service.sim.workloads_and_recordings.workload import Cluster, SimJob, Workload

IMAGES_TB, TEXT_TB = 1.36, 20.9
WITHIN = 0.08
REPLAN_S = 300.0


@dataclass(frozen=True)
class System:
    name: str
    policy: str
    jct_min: float  # the paper's, simulated
    makespan_min: float
    colour: str


SYSTEMS = (
    System("SiloD", "silod_greedy", 3403, 3718, "#009E73"),
    System("Quiver", "quiver", 3592, 3915, "#0072B2"),
    System("CoorDL", "static", 4406, 4918, "#E69F00"),
    System("Alluxio", "lru", 4484, 4986, "#D55E00"),
)
SILOD = SYSTEMS[0]


@dataclass(frozen=True)
class Reading:
    """Of what the paper says of sizes."""

    says: str
    images_tb: float = IMAGES_TB
    text_tb: float = TEXT_TB
    tb: int = 2**40
    mb: int = 2**20

    @property
    def cluster(self) -> Cluster:
        return Cluster(accelerators=8, cache_bytes=2 * self.tb, remote_bytes_per_s=200 * self.mb)

    @property
    def first_epoch_min(self) -> float:
        """Four jobs share what BERT's 8 MB/s leave. The paper's Figure 9: by the 460th minute."""
        return self.images_tb * self.tb / ((200 - 8) / 4 * self.mb) / 60


OURS = Reading("1.36 TB, 1 TB = 2^20 MB")
OTHERS = (
    Reading("1.36 TB, 1 TB = 2^40 bytes, 1 MB = 10^6", mb=10**6),
    Reading("1.3 TB, 1 TB = 2^40 bytes, 1 MB = 10^6", 1.3, mb=10**6),
    Reading("1.3 and 20 TB (section 7.1.1), 1 TB = 2^20 MB", 1.3, 20.0),
    Reading("1.36 TB, 1 TB = 10^6 MB", tb=10**12, mb=10**6),
)


def workload(reading: Reading = OURS) -> Workload:
    images, text = int(reading.images_tb * reading.tb), int(reading.text_tb * reading.tb)
    sizes = dict.fromkeys("abcd", images) | {"web search": text}

    def job(name: str, dataset: str, mb_per_s: float, epochs: float, accelerators: int = 1) -> SimJob:
        return SimJob(name, dataset, mb_per_s * reading.mb, epochs * sizes[dataset], accelerators)

    return Workload(
        sizes,
        (
            job("ResNet-50 a", "a", 114, 13), job("ResNet-50 b", "b", 114, 13),
            job("EfficientNetB1 c", "c", 69, 10), job("EfficientNetB1 d", "d", 69, 10),
            job("BERT", "web search", 8, 0.07, accelerators=4),
        ),
    )  # fmt: skip


def outcomes(reading: Reading = OURS) -> dict[str, Outcome]:
    made = {}
    for system in SYSTEMS:
        policy = registry.make(system.policy)
        made[system.name] = simulate(workload(reading), reading.cluster, policy, Fifo(), replan_s=REPLAN_S)
    return made


def minutes(outcome: Outcome) -> tuple[float, float]:
    return outcome.average_jct_s / 60, outcome.makespan_s / 60


def table(results: Mapping[str, Outcome], reading: Reading) -> None:
    say(
        f"\n{reading.says}; minutes; in brackets the ratio to the paper's simulation; the first epoch ends in minute "
        f"{reading.first_epoch_min:.0f} (the paper's: 460)"
    )
    say(
        "| system | policy | average JCT | paper | makespan | paper | JCT / SiloD | makespan / SiloD | from the store |"
    )
    say("|---|---|--:|--:|--:|--:|--:|--:|--:|")
    silod = minutes(results[SILOD.name])
    for system in SYSTEMS:
        jct, makespan = minutes(results[system.name])
        ratios = (
            f"{ours / best:.3f} ({theirs / theirs_best:.3f})"
            for ours, best, theirs, theirs_best in (
                (jct, silod[0], system.jct_min, SILOD.jct_min),
                (makespan, silod[1], system.makespan_min, SILOD.makespan_min),
            )
        )
        say(
            f"| {system.name} | {system.policy} | {jct:.0f} ({jct / system.jct_min:.3f}) | {system.jct_min:.0f} "
            f"| {makespan:.0f} ({makespan / system.makespan_min:.3f}) | {system.makespan_min:.0f} "
            f"| {' | '.join(ratios)} | {results[system.name].store_bytes / reading.tb:.1f} TB |"
        )
    least = bound(workload(reading), reading.cluster)
    say(f"| (bound) | | {least.average_jct_s / 60:.0f} | | {least.makespan_s / 60:.0f} | | | | |")


def bars(results: Mapping[str, Outcome]) -> list[Bar]:
    made = []
    silod = minutes(results[SILOD.name])
    for system in SYSTEMS:
        ours = minutes(results[system.name])
        for what, own, best, theirs, theirs_best in (
            ("average JCT", ours[0], silod[0], system.jct_min, SILOD.jct_min),
            ("makespan", ours[1], silod[1], system.makespan_min, SILOD.makespan_min),
        ):
            name = f"{system.name}: {what}"
            made.append(Bar(f"{name}, |off the paper|", abs(own / theirs - 1), WITHIN, at_most=True))
            if system is not SILOD:
                off = abs((own / best) / (theirs / theirs_best) - 1)
                made.append(Bar(f"{name} / SiloD's, |off the paper|", off, WITHIN, at_most=True))
    for before, after in pairwise(SYSTEMS):
        for at, what in enumerate(("average JCT", "makespan")):
            ahead = minutes(results[after.name])[at] / minutes(results[before.name])[at]
            made.append(Bar(f"{before.name} ahead of {after.name}: {what}", ahead, 1.0))
    return made


def draw(results: Mapping[str, Outcome], out: Path) -> Path:
    drawn, axes = plots.figure(1, 1, 7.5, 3.4)
    for system in SYSTEMS:
        samples = results[system.name].samples
        at = [sample.at_s / 60 for sample in samples]
        rates = [sample.read_bytes_per_s / OURS.mb for sample in samples]
        axes.step(at, rates, where="post", color=system.colour, label=f"{system.name} ({system.policy})")
    axes.set(xlabel="minutes", ylabel="all jobs read, MB/s", xlim=(0, None), ylim=(0, None))
    axes.set_title("Five jobs on eight V100s, 200 MB/s from the store, 2 TB of cache (SiloD, Figure 9)", loc="left")
    axes.legend(loc="lower left")
    return plots.save(drawn, out, "silod_table6")


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def main() -> None:
    parser = quick_parser(__doc__, "no plot, and one reading of the paper's sizes")
    parser.add_argument("--out", type=Path, default=plots.DEFAULT_OUT, metavar="DIR", help="where the plot goes")
    arguments = parser.parse_args()
    results = outcomes()
    table(results, OURS)
    if not arguments.quick:
        for reading in OTHERS:
            table(outcomes(reading), reading)
        say(str(draw(results, arguments.out)))
    figures: dict[str, Any] = {
        system.name: dict(zip(("jct_min", "makespan_min"), map(round, minutes(results[system.name])), strict=True))
        for system in SYSTEMS
    }
    finish("silod_table6", figures, bars(results), arguments.quick)


if __name__ == "__main__":
    run_bench(main)
