"""One of several options for each data set, within one budget: the multiple-choice knapsack, greedily. Pure.

By column: thousands compete. What is looked at one by one is what is taken, and what may be exchanged.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations

import numpy as np

from tfquiver.amounts import of_bytes
from tfquiver.service.coordinator.policies.interface import Bools, Floats, Ints


@dataclass(frozen=True, slots=True)
class Option:
    """`gain` over having nothing, in any unit that all options of a choice share."""

    name: str
    cost_bytes: int
    gain: float


@dataclass(frozen=True, slots=True)
class Options:
    """Of each data set, a row each. The first costs and gains nothing; costs and gains rise. Of equal steps that of the
    first row wins."""

    cost_bytes: Ints  # [data sets, options]
    gain: Floats
    there: Bools  # else it has fewer options than others


@dataclass(slots=True)
class Choice:
    """Which option each has, by index, and what was tried and refused."""

    chosen: Ints
    left_bytes: int
    refused: dict[int, Refusal] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Refusal:
    option: int
    more_bytes: int = 0
    left_bytes: int = 0
    rival: int | None = None  # its room went to this one

    def told(self, name: str, rival: str) -> str:
        """`name`: of the option."""
        if self.rival is not None:
            return f"{name}: {rival} makes more of that room"
        return f"{name}: takes {of_bytes(self.more_bytes)} more, {of_bytes(self.left_bytes)} were left"


@dataclass(frozen=True, slots=True)
class _Steps:
    """From option to option of one data set: the densest first."""

    dataset: Ints
    start: Ints
    end: Ints
    cost_bytes: Ints
    gain: Floats
    least_after: Ints  # the least cost of all from here on

    def __len__(self) -> int:
        return len(self.dataset)


@dataclass(frozen=True, slots=True)
class _Step:
    dataset: int
    start: int
    end: int
    cost_bytes: int
    gain: float


@dataclass(frozen=True, slots=True)
class _Downs:
    """All steps that can be taken back, those that lose least of each byte first; and what they are, by column."""

    steps: Sequence[_Step]
    dataset: Ints
    cost_bytes: Ints
    gain: Floats


def choose_named(options: Mapping[str, Sequence[Option]], budget_bytes: int) -> tuple[dict[str, int], dict[str, str]]:
    """Of data sets by name: which option each has, and what was refused."""
    names, rows = [*options], [*options.values()]
    most = max(map(len, rows), default=1)
    shape = len(rows), most
    cost, gain, there = np.zeros(shape, np.int64), np.zeros(shape), np.zeros(shape, np.bool_)
    for at, row in enumerate(rows):
        cost[at, : len(row)] = [option.cost_bytes for option in row]
        gain[at, : len(row)] = [option.gain for option in row]
        there[at, : len(row)] = True
    choice = choose(Options(cost, gain, there), budget_bytes)
    refused = {
        names[at]: one.told(rows[at][one.option].name, names[one.rival or 0]) for at, one in choice.refused.items()
    }
    return dict(zip(names, choice.chosen.tolist(), strict=True)), refused


def choose(options: Options, budget_bytes: int) -> Choice:
    """Steps from option to option by gain to cost, each charged its increment only; then one exchange for each that
    found no room: others step down where that loses less than the step gains. Half of the most is gained at least."""
    choice = Choice(np.zeros(len(options.gain), np.int64), budget_bytes)
    steps = _all_steps(options)
    _take(choice, steps)
    _exchange_all(options, choice, steps)
    while _take(choice, steps):
        pass  # who has taken a lesser step is told why not a better one, too
    return choice


def _take(choice: Choice, steps: _Steps) -> bool:
    """Whether any was taken."""
    chosen, left_bytes, taken, at = choice.chosen, choice.left_bytes, False, 0
    rows = zip(steps.dataset.tolist(), steps.start.tolist(), steps.end.tolist(), steps.cost_bytes.tolist(), strict=True)
    for at, (dataset, start, end, cost_bytes) in enumerate(rows):
        if left_bytes < steps.least_after[at]:
            break  # nothing that comes has room
        if chosen[dataset] != start:
            continue
        if cost_bytes <= left_bytes:
            chosen[dataset] = end
            left_bytes -= cost_bytes
            choice.refused.pop(dataset, None)
            taken = True
        else:
            choice.refused.setdefault(dataset, Refusal(end, cost_bytes, left_bytes))
    else:
        at = len(steps)
    choice.left_bytes = left_bytes
    _refuse_from(at, choice, steps)
    return taken


def _refuse_from(at: int, choice: Choice, steps: _Steps) -> None:
    """Of each data set its first step from there on that it could take."""
    open_to = at + np.flatnonzero(choice.chosen[steps.dataset[at:]] == steps.start[at:])
    datasets, first = np.unique(steps.dataset[open_to], return_index=True)
    which = open_to[first]
    more = zip(steps.end[which].tolist(), steps.cost_bytes[which].tolist(), strict=True)
    refused = choice.refused
    for dataset, (end, cost_bytes) in zip(datasets.tolist(), more, strict=True):
        if dataset not in refused:
            refused[dataset] = Refusal(end, cost_bytes, choice.left_bytes)


def _exchange_all(options: Options, choice: Choice, steps: _Steps) -> None:
    at, downs = 0, _downs(options, choice)
    while downs.steps:
        # What a step is short of would lose at least so much; so it is for nearly all of thousands.
        least = downs.steps[0].gain / max(1, downs.steps[0].cost_bytes)
        short = steps.cost_bytes[at:] - choice.left_bytes
        could = (
            (choice.chosen[steps.dataset[at:]] == steps.start[at:]) & (short > 0) & (steps.gain[at:] > short * least)
        )
        for which in (at + np.flatnonzero(could)).tolist():
            at = which + 1
            if _exchange(choice, _step(steps, which), downs):
                downs = _downs(options, choice)
                break
        else:
            return


def _step(steps: _Steps, at: int) -> _Step:
    dataset, start, end = int(steps.dataset[at]), int(steps.start[at]), int(steps.end[at])
    return _Step(dataset, start, end, int(steps.cost_bytes[at]), float(steps.gain[at]))


def _exchange(choice: Choice, step: _Step, downs: _Downs) -> bool:
    """Whether it was made."""
    short_bytes = step.cost_bytes - choice.left_bytes
    enough = np.flatnonzero((downs.cost_bytes >= short_bytes) & (downs.dataset != step.dataset))
    ways = [[downs.steps[enough[np.argmin(downs.gain[enough])]]]] if enough.size else []
    ways.append(_several((down for down in downs.steps if down.dataset != step.dataset), short_bytes))
    way = min((way for way in ways if way), key=_lost, default=None)
    if way is None or _lost(way) >= step.gain:
        return False
    for down in way:
        choice.chosen[down.dataset] = down.start
        choice.left_bytes += down.cost_bytes
        choice.refused[down.dataset] = Refusal(down.end, rival=step.dataset)
    choice.chosen[step.dataset] = step.end
    choice.left_bytes -= step.cost_bytes
    choice.refused.pop(step.dataset, None)
    return True


def _several(downs: Iterable[_Step], short_bytes: int) -> list[_Step]:
    """One of each data set, and no more than are needed; empty: all of them are too little."""
    taken, freed_bytes = dict[int, _Step](), 0
    for down in downs:
        if down.dataset not in taken:
            taken[down.dataset] = down
            freed_bytes += down.cost_bytes
            if freed_bytes >= short_bytes:
                break
    else:
        return []
    for down in sorted(taken.values(), key=lambda one: -one.gain):
        if freed_bytes - down.cost_bytes >= short_bytes:
            freed_bytes -= down.cost_bytes
            del taken[down.dataset]
    return list(taken.values())


def _lost(way: Sequence[_Step]) -> float:
    return sum(down.gain for down in way)


def _downs(options: Options, choice: Choice) -> _Downs:
    cost, gain, downs = options.cost_bytes, options.gain, list[_Step]()
    for dataset in np.flatnonzero(choice.chosen).tolist():
        high = int(choice.chosen[dataset])
        costs, gains = cost[dataset].tolist(), gain[dataset].tolist()
        downs += [_Step(dataset, low, high, costs[high] - costs[low], gains[high] - gains[low]) for low in range(high)]
    downs.sort(key=lambda down: down.gain / max(1, down.cost_bytes))
    return _Downs(
        downs,
        np.array([down.dataset for down in downs], np.int64),
        np.array([down.cost_bytes for down in downs], np.int64),
        np.array([down.gain for down in downs], np.float64),
    )


def _all_steps(options: Options) -> _Steps:
    """One that leads past a cheaper option comes before that where it makes more of each byte."""
    most = options.gain.shape[1]
    pairs = [*combinations(range(most), 2)]
    start, end = (np.array([pair[at] for pair in pairs], np.int64) for at in (0, 1))
    cost = (options.cost_bytes[:, end] - options.cost_bytes[:, start]).ravel()
    gain = (options.gain[:, end] - options.gain[:, start]).ravel()
    steps = np.flatnonzero(options.there[:, end].ravel() & (gain > 0))
    order = steps[np.argsort(-gain[steps] / np.maximum(1, cost[steps]), kind="stable")]
    datasets, which = np.divmod(order, max(1, len(pairs)))
    least_after = np.minimum.accumulate(cost[order][::-1])[::-1]
    return _Steps(datasets, start[which], end[which], cost[order], gain[order], least_after)
