"""What `tfquiver sim` prints and draws."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import isnan
from pathlib import Path
from statistics import fmean
from typing import Any

from rich.console import Console

from tfquiver import errors, named_files
from tfquiver.charts_as_png import png
from tfquiver.cli.calls import table
from tfquiver.service.sim.job_queue_rates_store_bandwidth.outcome import Bound, Outcome
from tfquiver.service.sim.workloads_and_recordings.workload import Workload
from tfquiver.sizes_durations_amounts.amounts import of_bytes

_LEGEND = (
    "JCT: from submission to end, on average. makespan: from the first submission to the last end. bound: what no "
    "schedule and no cache beats, even if all were known. fair: the least job's rate over that at an equal division "
    "of the cluster, over time. store: what left it."
)
COLOURS = ("#0072B2", "#E69F00", "#009E73", "#D55E00", "#CC79A7", "#56B4E9", "#999999", "#000000")
_MB, _HOUR_S = 1e6, 3600.0


@dataclass(frozen=True, slots=True)
class Run:
    scheduler: str
    policy: str
    outcome: Outcome

    def as_json(self) -> dict[str, Any]:
        made, fairness = self.outcome, self.outcome.fairness
        return {
            "scheduler": self.scheduler, "policy": self.policy, "average_jct_s": made.average_jct_s,
            "makespan_s": made.makespan_s, "fairness": None if isnan(fairness) else fairness,
            "read_bytes": made.read_bytes, "store_bytes": made.store_bytes, "probe_bytes": made.probe_bytes,
            "plans": made.plans, "jct_s": made.jct_s,
        }  # fmt: skip


def show(runs: Sequence[Run], least: Bound, seed: int | None, workload: Workload, console: Console) -> None:
    made = table("scheduler", "policy", "JCT", "/ bound", "makespan", "/ bound", "fair", "store")
    for run in runs:
        outcome = run.outcome
        made.add_row(
            run.scheduler, run.policy,
            lasting(outcome.average_jct_s), f"{outcome.average_jct_s / least.average_jct_s:.2f}",
            lasting(outcome.makespan_s), f"{outcome.makespan_s / least.makespan_s:.2f}",
            "-" if isnan(outcome.fairness) else f"{outcome.fairness:.2f}", of_bytes(int(outcome.store_bytes)),
        )  # fmt: skip
    made.add_row(
        "(bound)", "", lasting(least.average_jct_s), "", lasting(least.makespan_s), "", "",
        of_bytes(int(least.store_bytes)),
    )  # fmt: skip
    console.print(number_of(workload.jobs) + (f", drawn with seed {seed}" if seed is not None else ""))
    took_s = [job.recorded_jct_s for job in workload.jobs]
    whole_s = [one for one in took_s if one is not None]
    if whole_s and len(whole_s) == len(took_s):
        store = of_bytes(sum(job.recorded.missed_bytes for job in workload.jobs if job.recorded))
        average_s = fmean(whole_s)
        made.add_row("(recorded)", "", lasting(average_s), f"{average_s / least.average_jct_s:.2f}", "", "", "", store)
    console.print(made)
    console.print(_LEGEND)
    if cut_off := sum(job.recorded is not None and job.recorded_jct_s is None for job in workload.jobs):
        console.print(
            f"No line (recorded): {cut_off} of {number_of(took_s)} read before the recording began, or still read when "
            "it ended: how long they took nobody knows."
        )


def number_of(jobs: Sequence[object]) -> str:
    return f"{len(jobs)} job{'s' * (len(jobs) != 1)}"


def lasting(seconds: float) -> str:
    """`95.0 s`, `61.7 min`, `58.1 h`, `34.9 d`."""
    for unit, unit_s, most in (("s", 1.0, 120.0), ("min", 60.0, 120.0), ("h", _HOUR_S, 500.0)):
        if seconds < most * unit_s:
            return f"{seconds / unit_s:.1f} {unit}"
    return f"{seconds / (24 * _HOUR_S):.1f} d"


def check_drawing(path: Path) -> None:
    """Before minutes go by. Raises TfquiverError: matplotlib is not installed, no file can be there."""
    if not png.can_draw():
        raise errors.UnavailableError("--plot: matplotlib is not installed: pip install matplotlib")
    named_files.check_output(f"--plot={path}", path, replaced=False)


def draw(runs: Sequence[Run], path: Path) -> None:
    """A PNG: what all jobs read and what the store gave, over time. Raises TfquiverError naming `path`."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 5.6), dpi=110, layout="constrained")
    above, below = figure.subplots(2, 1, sharex=True)
    for number, run in enumerate(runs):
        samples = run.outcome.samples
        hours = [sample.at_s / _HOUR_S for sample in samples]
        style: Any = {"color": COLOURS[number % len(COLOURS)], "where": "post", "linewidth": 1.2}
        label = f"{run.scheduler}, {run.policy}"
        above.step(hours, [sample.read_bytes_per_s / _MB for sample in samples], label=label, **style)
        below.step(hours, [sample.store_bytes_per_s / _MB for sample in samples], **style)
    above.set_ylabel("all jobs read, MB/s")
    below.set(xlabel="hours", ylabel="from the store, MB/s")
    for axes in (above, below):
        axes.spines[["top", "right"]].set_visible(False)
        axes.set(xlim=(0, None), ylim=(0, None))
    above.legend(frameon=False, fontsize=8)
    png.save(figure, path)
