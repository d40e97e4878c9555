"""What rotations load (`python -m tfquiver.service.sim.shard_by_shard`), as a table, and as one JSON object at the end.

Exits with 1 when a bar is missed.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Sequence

from absl import app, flags
from rich.console import Console
from rich.table import Table

from tfquiver.service.sim.shard_by_shard.scenario import Outcome, Scenario, in_step, one_slow, out_of_step, run

IN_STEP_BAR = 1.05
OUT_OF_STEP_BAR = 1.10
SLOWDOWN_BAR = 1.05

_SEEDS = flags.DEFINE_integer(
    "seeds", 3, "How often each scenario is run, with other starts and speeds.", lower_bound=1
)
_SHARE = flags.DEFINE_float("share", 0.2, "Part of the data set that has room.", lower_bound=0.02, upper_bound=1.0)
_EPOCHS = flags.DEFINE_integer("epochs", 6, "Epochs of the fastest job that are counted.", lower_bound=1)
_QUICK = flags.DEFINE_bool("quick", False, "One seed, three epochs.")

Make = Callable[[int], Scenario]
SCENARIOS: Sequence[tuple[str, Make, float]] = (
    ("1 job", lambda seed: in_step(1), IN_STEP_BAR),
    ("4 jobs in step", lambda seed: in_step(4), IN_STEP_BAR),
    ("8 jobs in step", lambda seed: in_step(8), IN_STEP_BAR),
    ("4 jobs out of step, speeds 1-2x", lambda seed: out_of_step(4, seed), OUT_OF_STEP_BAR),
    ("8 jobs out of step, speeds 1-2x", lambda seed: out_of_step(8, seed), OUT_OF_STEP_BAR),
    ("3 jobs and one 10x slower", one_slow, OUT_OF_STEP_BAR),
)
# Of the same allocation cyclic makes two chunks. How long it waits for the slow decides between waiting and loading.
ORDERS: Sequence[tuple[str, str, int, float]] = (
    ("relevance", "relevance", 0, 0.25),
    ("relevance, 40 chunks", "relevance", 40, 0.25),
    ("cyclic", "cyclic", 0, 0.25),
    ("cyclic, impatient", "cyclic", 0, 0.01),
    ("lru", "lru", 0, 0.25),
)


def main(argv: list[str]) -> None:
    if len(argv) > 1:
        raise app.UsageError(f"unknown arguments: {' '.join(argv[1:])}")
    seeds, epochs = (1, 3) if _QUICK.value else (_SEEDS.value, _EPOCHS.value)
    floor = 1.0 - _SHARE.value
    table = Table(title=f"data-set sizes from the store per epoch of the fastest job; at least {floor:.2f}")
    for column in ("", "order", "loads", "of the floor", "its time", "of the slowest"):
        table.add_column(column, justify="left" if column in ("", "order") else "right")
    figures: list[dict[str, object]] = []
    for name, make, bar in SCENARIOS:
        for label, order, chunks, timeout_epochs in ORDERS:
            outcomes = [
                run(make(seed), order, seed, epochs, chunks=chunks, share=_SHARE.value, timeout_epochs=timeout_epochs)
                for seed in range(seeds)
            ]
            held = label != "relevance" or _holds(outcomes, bar * floor)
            table.add_row(name, label, *_cells(outcomes, floor), style=None if held else "red")
            figures.append(_figures(name, label, outcomes))
            if label == "relevance":
                figures[-1] |= {"bar": bar * floor, "held": held}
        table.add_section()
    Console(width=110).print(table)
    missed = [figure["scenario"] for figure in figures if figure.get("held") is False]
    print(json.dumps({"share": _SHARE.value, "seeds": seeds, "figures": figures, "missed": missed}))
    sys.exit(bool(missed))


def _holds(outcomes: Sequence[Outcome], bar: float) -> bool:
    return max(o.loads for o in outcomes) <= bar and max(o.slowdown for o in outcomes) <= SLOWDOWN_BAR


def _cells(outcomes: Sequence[Outcome], floor: float) -> tuple[str, ...]:
    loads = [outcome.loads for outcome in outcomes]
    return (
        f"{min(loads):.2f}-{max(loads):.2f}",
        f"{max(loads) / floor:.2f}" if floor else "",
        f"{max(outcome.slowdown for outcome in outcomes):.3f}",
        f"{max(outcome.worst_slowdown for outcome in outcomes):.3f}",
    )


def _figures(name: str, order: str, outcomes: Sequence[Outcome]) -> dict[str, object]:
    return {
        "scenario": name,
        "order": order,
        "loads": [round(outcome.loads, 4) for outcome in outcomes],
        "slowdown": [round(outcome.slowdown, 4) for outcome in outcomes],
    }


def entry() -> None:
    app.run(main)


if __name__ == "__main__":
    entry()
