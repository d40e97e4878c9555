"""SiloD's Figures 12 to 16 in the flow simulator: 400 V100s, four weeks of jobs drawn as Microsoft's trace is shaped.

4 GB/s from the store (Table 5); cache as in its cluster of eight, 2 TB for eight accelerators; every job a data set of
its own. Jobs ask for 1.25 times the accelerators there are, so that a queue builds up as the paper's does; how much it
asked for is not published. The seed is printed. SiloD: FIFO and SJF with
`silod_greedy`, Gavel with `max_min_fair`, schedulers that see storage. The others (`static`, `lru`, `quiver`): the same
schedulers, seeing accelerators only. Figures 12 and 13 are of four weeks, 14 and 15 of one week on a quarter of the
cluster.

The paper's figures are plots: beside ours stands what its text says of them. Its trace is not published, so no bar is a
figure of it: SiloD must be ahead of each system with each scheduler, and the fairest; no run of four weeks may take
more than 60 s of one core.

    python -m tests.bench.silod_sweeps [--quick] [--out DIR] [--seed N]
"""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from tests.bench.bars import Bar, finish, quick_parser, run_bench
from tests.bench.experiment import plots
from tfquiver.service.coordinator.job_schedulers import registry as schedulers
from tfquiver.service.coordinator.job_schedulers.fifo import Fifo
from tfquiver.service.coordinator.policies import registry as policies
from tfquiver.service.coordinator.policies.views_and_plans.interface import ClusterView, Plan, Policy
from tfquiver.service.sim.job_queue_rates_store_bandwidth.outcome import Outcome, bound
from tfquiver.service.sim.job_queue_rates_store_bandwidth.simulation import simulate
from tfquiver.service.sim.workloads_and_recordings.traces import DATASETS, MB, TB, TraceShape, generate
from tfquiver.service.sim.workloads_and_recordings.workload import Cluster, Pacing, SimJob, Workload

CACHE_BYTES_A_GPU, STORE_BYTES_PER_S_A_GPU = 2 * TB // 8, 10 * MB
FULL = TraceShape(400, weeks=4.0, load=1.25)
SWEEP = TraceShape(100, weeks=1.0, load=1.5)
QUICK = TraceShape(48, weeks=0.5, load=2.0)  # a queue builds up within half a week
# The policy is asked when a job begins or ends, but four times an hour at most: there are dozens of such moments.
REPLAN_S, LEAST_GAP_S = 1800.0, 900.0
SCHEDULERS = ("fifo", "sjf", "gavel")
OTHERS = {"CoorDL": "static", "Alluxio": "lru", "Quiver": "quiver"}
PAPER_FAIRNESS = {"SiloD": 2.56, "CoorDL": 1.51, "Alluxio": 1.39, "Quiver": 1.35}
RUN_BAR_S = 60.0
CURRICULUM_BAR = 0.05
SHARING_LOADS = (1.0, 1.25, 1.5)  # accelerators asked for, of those there are; not published
UNLIMITED = 1e15  # bytes/s


@dataclass(frozen=True)
class Setting:
    shape: TraceShape
    seed: int
    store_bytes_per_s: float

    @classmethod
    def of(cls, shape: TraceShape, seed: int) -> Setting:
        return cls(shape, seed, shape.accelerators * STORE_BYTES_PER_S_A_GPU)

    def run(self, system: str, scheduler: str, *, share_store: bool = False) -> Run:
        """`share_store`: the policy's bandwidth is not followed; the store is shared max-min fair."""
        workload = generate(self.shape, self.seed)
        gpus = self.shape.accelerators
        cluster = Cluster(gpus, gpus * CACHE_BYTES_A_GPU, self.store_bytes_per_s)
        policy, order = _way(system, scheduler)
        made: Policy = policies.make(policy)
        begun_s = time.process_time()
        outcome = simulate(
            workload, cluster, _Unpromised(made) if share_store else made, schedulers.make(order),
            replan_s=REPLAN_S, least_gap_s=LEAST_GAP_S,
        )  # fmt: skip
        took_s = time.process_time() - begun_s
        least = bound(workload, cluster)
        say(
            f"{system}, {scheduler}: {len(workload.jobs)} jobs, average JCT {outcome.average_jct_s / 3600:.1f} h "
            f"(bound {least.average_jct_s / 3600:.1f}), makespan {outcome.makespan_s / 86400:.1f} d "
            f"(bound {least.makespan_s / 86400:.1f}), fairness {outcome.fairness:.2f}, "
            f"{outcome.store_bytes / 1e15:.2f} PB from the store; {took_s:.1f} s"
        )
        return Run(outcome, took_s)


@dataclass(frozen=True)
class Run:
    outcome: Outcome
    took_s: float

    @property
    def jct_h(self) -> float:
        return self.outcome.average_jct_s / 3600

    @property
    def makespan_d(self) -> float:
        return self.outcome.makespan_s / 86400

    def as_json(self) -> dict[str, float]:
        store_pb = self.outcome.store_bytes / 1e15
        made = {"jct_h": self.jct_h, "makespan_d": self.makespan_d, "fairness": self.outcome.fairness}
        return {name: round(figure, 3) for name, figure in (made | {"store_pb": store_pb, "s": self.took_s}).items()}


@dataclass(frozen=True)
class _Unpromised:
    policy: Policy

    def plan(self, view: ClusterView, now: float) -> Plan:
        return replace(self.policy.plan(view, now), remote_bytes_per_s={})


def _way(system: str, scheduler: str) -> tuple[str, str]:
    if system == "SiloD":
        return ("max_min_fair" if scheduler == "gavel" else "silod_greedy"), scheduler
    return OTHERS[system], scheduler if scheduler == "fifo" else f"{scheduler}_accelerators"


Figure12 = Mapping[tuple[str, str], Run]


def figure12(setting: Setting) -> Figure12:
    runs = {(system, name): setting.run(system, name) for name in SCHEDULERS for system in ("SiloD", *OTHERS)}
    say(
        "\nFigure 12. Average JCT in hours, makespan in days; in brackets what SiloD is ahead by. The paper: up to 7.4x"
    )
    say(
        "on average JCT and 2.57x on makespan; over Quiver up to 1.25x and 1.31x, and behind it on makespan with Gavel."
    )
    say("| scheduler | SiloD | CoorDL | Alluxio | Quiver |")
    say("|---|--:|--:|--:|--:|")
    for name in SCHEDULERS:
        silod = runs["SiloD", name]
        cells = [f"{silod.jct_h:.1f} h, {silod.makespan_d:.1f} d"]
        for system in OTHERS:
            run = runs[system, name]
            ahead = f"{run.jct_h / silod.jct_h:.2f}x, {run.makespan_d / silod.makespan_d:.2f}x"
            cells.append(f"{run.jct_h:.1f} h, {run.makespan_d:.1f} d ({ahead})")
        say(f"| {name} | {' | '.join(cells)} |")
    return runs


def figure13(setting: Setting, runs: Figure12) -> Run:
    fair_store = setting.run("SiloD", "gavel", share_store=True)
    say("\nFigure 13. Fairness ratio over time, with Gavel.")
    say("| system | here | paper |")
    say("|---|--:|--:|")
    for system, paper in PAPER_FAIRNESS.items():
        say(f"| {system} | {runs[system, 'gavel'].outcome.fairness:.2f} | {paper} |")
    say(f"| SiloD, bandwidth not allocated | {fair_store.outcome.fairness:.2f} | 1.94 |")
    return fair_store


def figure14(setting: Setting, factors: tuple[float, ...]) -> dict[str, float]:
    made = {}
    say(
        "\nFigure 14a. FIFO; JCT of Alluxio / SiloD by the store's bandwidth. The paper: equal at 2.5 times its 4 GB/s."
    )
    rows = []
    for factor in factors:
        wider = replace(setting, store_bytes_per_s=setting.store_bytes_per_s * factor)
        silod, lru = wider.run("SiloD", "fifo"), wider.run("Alluxio", "fifo")
        made[f"bandwidth {factor:g}x"] = lru.jct_h / silod.jct_h
        rows.append(f"| {factor:g}x | {silod.jct_h:.1f} h | {lru.jct_h:.1f} h | {lru.jct_h / silod.jct_h:.2f} |")
    say("\n| bandwidth | SiloD | Alluxio | ratio |\n|--:|--:|--:|--:|\n" + "\n".join(rows))
    say("\nFigure 14b. Gavel; JCT of Quiver / SiloD by the speed of a GPU. The paper: 2.17 at 4x.")
    rows = []
    for speed in (1.0, 2.0, 4.0):
        # As many jobs, of as many bytes, whatever the speed.
        faster = replace(setting, shape=replace(setting.shape, speed=speed))
        silod, quiver = faster.run("SiloD", "gavel"), faster.run("Quiver", "gavel")
        made[f"speed {speed:g}x"] = quiver.jct_h / silod.jct_h
        rows.append(f"| {speed:g}x | {silod.jct_h:.1f} h | {quiver.jct_h:.1f} h | {quiver.jct_h / silod.jct_h:.2f} |")
    say("\n| speed | SiloD | Quiver | ratio |\n|--:|--:|--:|--:|\n" + "\n".join(rows))
    return made


def figure15(setting: Setting) -> dict[str, float]:
    """Beside the two: a store that never limits, which is the most that sharing can gain; by how much is asked for."""
    made, rows = {}, []
    for load in SHARING_LOADS:
        for name in SCHEDULERS:
            shape = replace(setting.shape, load=load)
            own, shared, unlimited = (
                replace(setting, shape=replace(shape, sharing=part), store_bytes_per_s=rate).run("SiloD", name)
                for part, rate in ((0.0, setting.store_bytes_per_s), (1.0, setting.store_bytes_per_s), (0.0, UNLIMITED))
            )
            made[f"load {load:g}, {name}"] = less = 1 - shared.jct_h / own.jct_h
            most = 1 - unlimited.jct_h / own.jct_h
            jcts = " | ".join(f"{run.jct_h:.1f} h" for run in (own, shared, unlimited))
            rows.append(f"| {load:g} | {name} | {jcts} | {less:.1%} | {most:.1%} |")
    say("\nFigure 15. SiloD's JCT when nobody and when all share data sets. The paper: 6.9 % less with FIFO, 22 %")
    say("with SJF and Gavel.\n")
    say("| load | scheduler | own | shared | store never limits | less | most possible |")
    say("|--:|---|--:|--:|--:|--:|--:|\n" + "\n".join(rows))
    return made


def figure16() -> dict[str, float]:
    """One ResNet-50 on ImageNet-22k, half of it cached, the store at half its rate; pacing as in Hacohen and
    Weinshall: 4 % at first, 1.9 times as much each step."""
    size = DATASETS["ImageNet-22k"]
    made = {}
    for thousands in (50, 75):
        step_bytes = thousands * 1000 * 256 * size / 14_197_122 / 20  # iterations of 256 of its images; 20: 1/20 scale
        job = SimJob("curriculum", "images", 114 * MB, 3 * size, pacing=Pacing(0.04, 1.9, step_bytes))
        cluster = Cluster(1, size // 2, 57 * MB)
        times = [
            simulate(Workload({"images": size}, (job,)), cluster, policies.make(name), Fifo()).average_jct_s
            for name in ("static", "lru")
        ]
        made[f"step {thousands}k"] = times[1] / times[0]
        say(f"Figure 16. Curriculum, step {thousands}k: uniform {times[0] / 60:.0f} min, LRU {times[1] / 60:.0f} min")
    say("The paper: no difference.")
    return made


def bars(runs: Figure12, curriculum: Mapping[str, float], quick: bool) -> list[Bar]:
    made = [
        Bar(f"JCT of {system} / SiloD, {name}", run.jct_h / runs["SiloD", name].jct_h, 1.0)
        for (system, name), run in runs.items()
        if system != "SiloD"
    ]
    fairest = max(runs[system, "gavel"].outcome.fairness for system in OTHERS)
    made.append(
        Bar("fairness of SiloD / the fairest other, gavel", runs["SiloD", "gavel"].outcome.fairness / fairest, 1.0)
    )
    off = max(abs(ratio - 1) for ratio in curriculum.values())
    made.append(Bar("curriculum: |LRU / uniform - 1|", off, CURRICULUM_BAR, at_most=True))
    longest = max(runs, key=lambda which: runs[which].took_s)
    if not quick:
        made.append(Bar(f"CPU s of the longest run, {longest}", runs[longest].took_s, RUN_BAR_S, at_most=True))
    return made


def draw(runs: Figure12, out: Path) -> Path:
    colours = {"SiloD": "#009E73", "CoorDL": "#E69F00", "Alluxio": "#D55E00", "Quiver": "#0072B2"}
    drawn, axes = plots.figure(1, 3, 10.0, 3.2)
    for axis, title, unit in ((axes[0], "average JCT", "h"), (axes[1], "makespan", "d")):
        for at, (system, colour) in enumerate(colours.items()):
            figures = [
                getattr(runs[system, name], f"{'jct' if unit == 'h' else 'makespan'}_{unit}") for name in SCHEDULERS
            ]
            axis.bar([x + 0.2 * at for x in range(3)], figures, 0.19, color=colour, label=system)
        axis.set_xticks([x + 0.3 for x in range(3)], [name.upper() for name in SCHEDULERS])
        axis.set_title(f"{title}, {unit}", loc="left")
    for system, colour in colours.items():
        samples = [sample for sample in runs[system, "gavel"].outcome.samples if sample.fairness == sample.fairness]
        days = [sample.at_s / 86400 for sample in samples]
        axes[2].plot(days, [sample.fairness for sample in samples], color=colour, linewidth=0.6)
    axes[2].set(xlabel="days", yscale="log")
    axes[2].set_title("fairness ratio, Gavel", loc="left")
    drawn.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=4)
    return plots.save(drawn, out, "silod_sweeps")


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def main() -> None:
    parser = quick_parser(__doc__, "48 GPUs, half a week, Figures 12, 13 and 16 only")
    parser.add_argument("--out", type=Path, default=plots.DEFAULT_OUT, metavar="DIR", help="where the plot goes")
    parser.add_argument("--seed", type=int, default=1, metavar="N", help="of the trace; default: 1")
    arguments = parser.parse_args()
    setting = Setting.of(QUICK if arguments.quick else FULL, arguments.seed)
    say(f"seed {arguments.seed}; {setting.shape}")
    runs = figure12(setting)
    figures: dict[str, Any] = {"seed": arguments.seed, "figure13_fair_store": figure13(setting, runs).as_json()}
    figures["figure16"] = curriculum = figure16()
    if not arguments.quick:
        swept = Setting.of(SWEEP, arguments.seed)
        figures |= {"figure14": figure14(swept, (0.5, 1.0, 1.5, 2.5)), "figure15": figure15(swept)}
        say(str(draw(runs, arguments.out)))
    figures["figure12"] = {f"{system}, {name}": run.as_json() for (system, name), run in runs.items()}
    finish("silod_sweeps", figures, bars(runs, curriculum, arguments.quick), arguments.quick)


if __name__ == "__main__":
    run_bench(main)
