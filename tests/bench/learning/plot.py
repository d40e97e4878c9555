"""The picture of the accuracy bench: curves by epoch with their 95 % intervals, and how well each order is shuffled."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.bench.experiment import plots
from tests.bench.learning import intervals

_COLOURS = tuple(plots.JOB_COLOURS[number] for number in (2, 0, 5, 1, 4))
_LEAST = 1e-4
_TITLES = {"MNIST": "MNIST, stored by class", "words": "words, stored by length; homogeneous batches"}
_FARTHEST = 10.0  # percentage points below the best that are shown
_MARGIN = 1.0  # percentage points below the worst curve that is shown


def draw(curves: Mapping[str, Mapping[str, list[list[float]]]], figures: Mapping[str, Any], out: Path) -> Path:
    """Writes accuracy.png. `curves`: by task and order, accuracy in percent [seeds][epochs]."""
    figure, axes = plots.figure(2, len(curves), width_in=9.5, height_in=6.4)
    for column, (task, by_order) in enumerate(curves.items()):
        _curves(axes[0, column], task, by_order)
        _shuffle(axes[1, column], {order: figures[task][order]["shuffle"] for order in by_order})
    return plots.save(figure, out, "accuracy")


def _curves(axes: Any, task: str, by_order: Mapping[str, list[list[float]]]) -> None:
    best = max(seed[-1] for runs in by_order.values() for seed in runs)
    lows = []
    for number, (order, runs) in enumerate(by_order.items()):
        by_epoch = [intervals.of(values) for values in zip(*runs, strict=True)]
        # Side by side: intervals on top of one another cannot be told apart.
        epochs = [epoch + 1 + 0.05 * (number - 1) for epoch in range(len(by_epoch))]
        shown = by_epoch[-1].mean > best - _FARTHEST
        label = f"{order}: {by_epoch[-1].mean:.2f} ± {by_epoch[-1].half:.2f} %{'' if shown else ', below'}"
        means, halves = [i.mean for i in by_epoch], [i.half for i in by_epoch]
        axes.errorbar(epochs, means, halves, color=_COLOURS[number], capsize=3, marker="o", markersize=4, label=label)
        if shown:
            lows.append(means[0] - halves[0])
    axes.set_ylim(min(lows) - _MARGIN, best + _MARGIN)
    axes.set_xticks(range(1, 1 + max(len(seed) for runs in by_order.values() for seed in runs)))
    axes.set_title(_TITLES[task])
    axes.set_xlabel("epoch")
    axes.set_ylabel("accuracy on the test set, %")
    axes.legend(loc="lower right", fontsize=8)


def _shuffle(axes: Any, by_order: Mapping[str, Mapping[str, float]]) -> None:
    names: Sequence[str] = ("within_batches", "neighbours", "drift")
    width = 0.8 / len(by_order)
    for number, (order, measured) in enumerate(by_order.items()):
        heights = [max(abs(measured[name]), _LEAST) for name in names]
        places = [at + (number - (len(by_order) - 1) / 2) * width for at in range(len(names))]
        axes.bar(places, heights, width, color=_COLOURS[number], label=order)
    axes.set_yscale("log")
    axes.set_ylim(_LEAST, 1.5)
    axes.set_xticks(range(len(names)), ["within batches", "neighbours", "drift"])
    axes.set_ylabel("correlation of source positions")
    axes.set_title("0: a perfect shuffle, 1: the stored order")
    axes.grid(axis="x", visible=False)
