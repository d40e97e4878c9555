"""The demo's picture: what had left the store, second by second, cached and direct."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from tfquiver.charts_as_png import png
from tfquiver.demo.report import DemoResult, RoundResult
from tfquiver.sizes_durations_amounts.amounts import many

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_COLORS = {"cached": "#1b7f4b", "direct": "#c23b22"}
_MB = 1e6


def draw(result: DemoResult, path: Path) -> None:
    """Writes a PNG, 1600 x 720 pixels. Raises TfquiverError naming `path` when it cannot be written there."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10, 4.5), dpi=160, layout="constrained")
    axes = figure.add_subplot()
    for one in result.rounds:
        _line(axes, one)
    data_mb = result.dataset_bytes / _MB
    axes.axhline(data_mb, color="#888888", linewidth=1, linestyle=":")
    axes.annotate(
        "the data set, once", (1, data_mb), xycoords=("axes fraction", "data"), xytext=(-4, 3),
        textcoords="offset points", ha="right", color="#666666",
    )  # fmt: skip
    axes.set(xlabel="seconds", ylabel="MB that left the store", xlim=(0, None), ylim=(0, None))
    axes.margins(x=0.25)
    axes.spines[["top", "right"]].set_visible(False)
    axes.set_title(
        f"Three Keras trials, {many(result.epochs, 'epoch')} each, of the same {data_mb:.1f} MB; the store gives "
        f"{result.bytes_per_s / _MB:.2f} MB/s.  Dots: an epoch of a trial is done",
        fontsize=10,
        loc="left",
    )
    png.save(figure, path)


def _line(axes: Axes, one: RoundResult) -> None:
    color = _COLORS.get(one.way, "#333333")
    end_mb = one.traffic.payload_bytes / _MB
    seen = [(at, size / _MB) for at, size in one.left_store if at < one.wall_s]
    times = [0.0, *(at for at, _ in seen), one.wall_s]
    left = [0.0, *(size for _, size in seen), end_mb]
    axes.plot(times, left, color=color, linewidth=2.5)
    ends = sorted(end for trial in one.trials for end in trial.epoch_ends_s)
    axes.plot(ends, [_at(times, left, end) for end in ends], "o", color=color, markersize=6, alpha=0.7)
    axes.annotate(
        f"{one.way}: {end_mb:.1f} MB, {one.wall_s:.0f} s", (one.wall_s, end_mb), xytext=(9, 5),
        textcoords="offset points", color=color, fontweight="bold",
    )  # fmt: skip


def _at(times: list[float], values: list[float], moment: float) -> float:
    """The value at the last time that is not after `moment`."""
    return [value for time, value in zip(times, values, strict=True) if time <= moment][-1]
