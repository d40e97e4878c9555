"""What `tfquiver plan` prints and draws."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf, isfinite
from pathlib import Path

from rich.console import Console

from tfquiver.charts_as_png import png
from tfquiver.cli.calls import table
from tfquiver.cli.sim_plan_trace_commands.sim_view import COLOURS, lasting
from tfquiver.sizes_durations_amounts.amounts import of_bytes

_LEGEND = (
    "JCT: from submission to end, on average. makespan: from the first submission to the last end. from store: what "
    "left it, first reads included."
)
_PROBES_LEGEND = (
    "probes: of what left the store, what jobs read past the cache while it is measured what it is worth to them. "
    "Nothing of that is kept; of small data sets it may be more than all first reads. Who finds nothing in the cache "
    "would read it anyway, and is probed for as long as that lasts."
)
_COST_LEGEND = "a month: the cache, the rate, and what leaves the store in 30 days at this pace."


@dataclass(frozen=True, slots=True)
class Point:
    cache_bytes: int
    store_bytes_per_s: float | None  # None: no limit
    average_jct_s: float
    makespan_s: float
    store_bytes: float
    probe_bytes: float  # of these
    cost_a_month: float | None  # None: nobody said what anything costs


def _money(amount: float) -> str:
    return f"{amount:,.0f}" if amount >= 100 else f"{amount:.2f}" if amount >= 1 else f"{amount:.2g}"


def show(points: Sequence[Point], cold_bytes: float, console: Console) -> None:
    """`cold_bytes`: of what jobs read each byte once: the cache is empty when they begin."""
    costs, probes = points[0].cost_a_month is not None, any(point.probe_bytes >= 1 for point in points)
    made = table(
        "cache",
        "store",
        "JCT",
        "makespan",
        "from store",
        *(["probes"] if probes else []),
        *(["a month"] if costs else []),
    )
    for point in points:
        cost = [] if point.cost_a_month is None else [_money(point.cost_a_month)]
        probed = [of_bytes(int(point.probe_bytes))] if probes else []
        made.add_row(
            of_bytes(point.cache_bytes), rate(point.store_bytes_per_s or inf), lasting(point.average_jct_s),
            lasting(point.makespan_s), of_bytes(int(point.store_bytes)), *probed, *cost,
        )  # fmt: skip
    console.print(made)
    console.print(f"{_LEGEND} {_COST_LEGEND}" if costs else _LEGEND)
    if cold_bytes:
        console.print(
            f"first reads: the cache is empty when the jobs begin, so that each byte they read leaves the store once, "
            f"{of_bytes(int(cold_bytes))} in all, however large the cache. Only what is above that can be saved"
            + (", but for what a cache of any size takes to probe." if probes else ".")
        )
    if probes:
        console.print(_PROBES_LEGEND)


def rate(bytes_per_s: float) -> str:
    return f"{of_bytes(int(bytes_per_s))}/s" if isfinite(bytes_per_s) else "no limit"


def draw(points: Sequence[Point], path: Path) -> None:
    """A PNG: JCT by cache size, a line for each rate of the store. Raises TfquiverError naming `path`."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7.5, 3.6), dpi=110, layout="constrained")
    axes = figure.subplots()
    for number, limit in enumerate(dict.fromkeys(point.store_bytes_per_s for point in points)):
        line = sorted((one.cache_bytes, one.average_jct_s) for one in points if one.store_bytes_per_s == limit)
        axes.plot(
            [cache_bytes / 1e9 for cache_bytes, _ in line], [jct_s / 3600 for _, jct_s in line], marker="o",
            color=COLOURS[number % len(COLOURS)], label=f"store: {rate(limit or inf)}",
        )  # fmt: skip
    axes.set(xlabel="cache, GB", ylabel="JCT, hours", xlim=(0, None), ylim=(0, None))
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False, fontsize=8)
    png.save(figure, path)
