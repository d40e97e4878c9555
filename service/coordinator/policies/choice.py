"""One of several options for each data set, within one budget: the multiple-choice knapsack, greedily. Pure.

By column: thousands compete. What is looked at one by one is what is taken, and what may be exchanged.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import combinations
from typing import NamedTuple

import numpy as np

from tfquiver.service.coordinator.policies.views_and_plans.interface import Bools, Floats, Ints
from tfquiver.sizes_durations_amounts.amounts import of_bytes

_AT_ONCE = 512  # steps
_ROUNDING = 1e-9


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


@dataclass
class Choice:
    """Which option each has, by index."""

    chosen: Ints
    left_bytes: int
    _again: Callable[[], dict[int, Refusal]] = field(repr=False)

    @cached_property
    def refused(self) -> dict[int, Refusal]:
        """What was tried and refused. The choice is made again for whoever asks: of thousands few are asked about."""
        return self._again()


@dataclass(slots=True)
class _Choosing:
    chosen: Ints
    left_bytes: int
    refused: dict[int, Refusal] | None  # None: nobody asks


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


class _Step(NamedTuple):  # tens of thousands are made in a simulation's hour: three times as fast as a dataclass
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
    costs: Ints  # sorted
    best_from: Ints  # which of those that cost so much and more loses least; one more than `costs`: none, -1

    def alone(self, short_bytes: int, but: int) -> int | None:
        """The step that frees so many bytes and loses least, of another data set than `but`."""
        best = int(self.best_from[self.costs.searchsorted(short_bytes)])
        if best < 0 or self.steps[best].dataset != but:
            return None if best < 0 else best
        enough = (self.cost_bytes >= short_bytes) & (self.dataset != but)
        best = int(np.argmin(np.where(enough, self.gain, np.inf)))
        return best if enough[best] else None

    def at_least(self, short_bytes: Ints) -> Floats:
        """What is lost by freeing so many bytes: by one step, or by two or more; and as little as if parts of steps
        could be taken back."""
        if not self.steps:
            return np.full(len(short_bytes), np.inf)
        some = self.cost_bytes > 0
        freed, lost = (np.concatenate(([0.0], np.cumsum(column[some]))) for column in (self.cost_bytes, self.gain))
        in_parts = np.interp(short_bytes, freed, lost, right=np.inf)
        best = self.best_from[self.costs.searchsorted(short_bytes)]
        by_one = np.where(best < 0, np.inf, self.gain[best])
        return np.maximum(in_parts, np.minimum(by_one, self._of_two())) * (1 - _ROUNDING)

    def _of_two(self) -> float:
        """What two steps of two data sets lose at least."""
        first = int(np.argmin(self.gain))
        others = self.gain[self.dataset != self.dataset[first]]
        return float(self.gain[first] + others.min()) if len(others) else float("inf")


def choose_named(options: Mapping[str, Sequence[Option]], budget_bytes: int) -> tuple[dict[str, int], dict[str, str]]:
    """Of data sets by name: which option each has, and what was refused."""
    names, rows = [*options], [*options.values()]
    choice = choose(tabled(rows), budget_bytes)
    refused = {
        names[at]: one.told(rows[at][one.option].name, names[one.rival or 0]) for at, one in choice.refused.items()
    }
    return dict(zip(names, choice.chosen.tolist(), strict=True)), refused


def tabled(rows: Sequence[Sequence[Option]]) -> Options:
    """A data set each."""
    shape = len(rows), max(map(len, rows), default=1)
    cost, gain, there = np.zeros(shape, np.int64), np.zeros(shape), np.zeros(shape, np.bool_)
    for at, row in enumerate(rows):
        cost[at, : len(row)] = [option.cost_bytes for option in row]
        gain[at, : len(row)] = [option.gain for option in row]
        there[at, : len(row)] = True
    return Options(cost, gain, there)


def choose(options: Options, budget_bytes: int) -> Choice:
    """Steps from option to option by gain to cost, each charged its increment only; then one exchange for each that
    found no room: others step down where that loses less than the step gains. Half of the most is gained at least."""

    def again() -> dict[int, Refusal]:
        return _choose(options, budget_bytes, {}).refused or {}

    made = _choose(options, budget_bytes, None)
    return Choice(made.chosen, made.left_bytes, again)


def _choose(options: Options, budget_bytes: int, refused: dict[int, Refusal] | None) -> _Choosing:
    choice = _Choosing(np.zeros(len(options.gain), np.int64), budget_bytes, refused)
    steps = _all_steps(options)
    _take(choice, steps)
    _exchange_all(options, choice, steps)
    while _take(choice, steps):
        pass  # who has taken a lesser step is told why not a better one, too
    return choice


def _take(choice: _Choosing, steps: _Steps) -> bool:
    """Whether any was taken."""
    if choice.refused is not None:
        return _take_and_tell(choice, steps, choice.refused)
    taken = False
    for at in range(0, len(steps), _AT_ONCE):
        if choice.left_bytes < steps.least_after[at]:
            break
        part = slice(at, at + _AT_ONCE)
        # Room only gets less, and nobody steps back here.
        could = (steps.cost_bytes[part] <= choice.left_bytes) & (
            steps.start[part] >= choice.chosen[steps.dataset[part]]
        )
        which = at + np.flatnonzero(could)
        columns = (column[which].tolist() for column in (steps.dataset, steps.start, steps.end, steps.cost_bytes))
        for dataset, start, end, cost_bytes in zip(*columns, strict=True):
            if choice.chosen[dataset] == start and cost_bytes <= choice.left_bytes:
                choice.chosen[dataset] = end
                choice.left_bytes -= cost_bytes
                taken = True
    return taken


def _take_and_tell(choice: _Choosing, steps: _Steps, refused: dict[int, Refusal]) -> bool:
    """`_take`, looking at every step."""
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
            refused.pop(dataset, None)
            taken = True
        else:
            refused.setdefault(dataset, Refusal(end, cost_bytes, left_bytes))
    else:
        at = len(steps)
    choice.left_bytes = left_bytes
    _refuse_from(at, choice, steps, refused)
    return taken


def _refuse_from(at: int, choice: _Choosing, steps: _Steps, refused: dict[int, Refusal]) -> None:
    """Of each data set its first step from there on that it could take."""
    open_to = at + np.flatnonzero(choice.chosen[steps.dataset[at:]] == steps.start[at:])
    datasets, first = np.unique(steps.dataset[open_to], return_index=True)
    which = open_to[first]
    more = zip(steps.end[which].tolist(), steps.cost_bytes[which].tolist(), strict=True)
    for dataset, (end, cost_bytes) in zip(datasets.tolist(), more, strict=True):
        if dataset not in refused:
            refused[dataset] = Refusal(end, cost_bytes, choice.left_bytes)


def _exchange_all(options: Options, choice: _Choosing, steps: _Steps) -> None:
    at, downs = 0, _downs(options, choice.chosen)
    while downs.steps:
        short = steps.cost_bytes[at:] - choice.left_bytes
        could = (choice.chosen[steps.dataset[at:]] == steps.start[at:]) & (short > 0)
        could &= steps.gain[at:] > downs.at_least(short)  # as few do of thousands
        for which in (at + np.flatnonzero(could)).tolist():
            at = which + 1
            if _exchange(choice, _step(steps, which), downs):
                downs = _downs(options, choice.chosen)
                break
        else:
            return


def _step(steps: _Steps, at: int) -> _Step:
    dataset, start, end = int(steps.dataset[at]), int(steps.start[at]), int(steps.end[at])
    return _Step(dataset, start, end, int(steps.cost_bytes[at]), float(steps.gain[at]))


def _exchange(choice: _Choosing, step: _Step, downs: _Downs) -> bool:
    """Whether it was made."""
    short_bytes = step.cost_bytes - choice.left_bytes
    alone = downs.alone(short_bytes, step.dataset)
    ways = [] if alone is None else [[downs.steps[alone]]]
    ways.append(_several(downs.steps, step.dataset, short_bytes))
    way = min((way for way in ways if way), key=_lost, default=None)
    if way is None or _lost(way) >= step.gain:
        return False
    for down in way:
        choice.chosen[down.dataset] = down.start
        choice.left_bytes += down.cost_bytes
        if choice.refused is not None:
            choice.refused[down.dataset] = Refusal(down.end, rival=step.dataset)
    choice.chosen[step.dataset] = step.end
    choice.left_bytes -= step.cost_bytes
    if choice.refused is not None:
        choice.refused.pop(step.dataset, None)
    return True


def _several(downs: Sequence[_Step], but: int, short_bytes: int) -> list[_Step]:
    """One of each data set `but` one, and no more than are needed; empty: all of them are too little."""
    taken, freed_bytes = dict[int, _Step](), 0
    for down in downs:
        if down.dataset not in taken and down.dataset != but:
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


def _downs(options: Options, chosen: Ints) -> _Downs:
    least, most = np.arange(options.gain.shape[1]), chosen[:, None]
    datasets, low = np.nonzero(least < most)
    high = chosen[datasets]
    cost = options.cost_bytes[datasets, high] - options.cost_bytes[datasets, low]
    gain = options.gain[datasets, high] - options.gain[datasets, low]
    order = np.argsort(gain / np.maximum(1, cost), kind="stable")
    datasets, cost, gain = datasets[order], cost[order], gain[order]
    columns = datasets, low[order], high[order], cost, gain
    steps = [*map(_Step._make, zip(*(column.tolist() for column in columns), strict=True))]
    by_cost = np.argsort(cost, kind="stable")
    by_gain = np.argsort(gain, kind="stable")
    rank = np.empty_like(by_gain)
    rank[by_gain] = np.arange(len(by_gain))
    best_from = by_gain[np.minimum.accumulate(rank[by_cost][::-1])[::-1]]
    return _Downs(steps, datasets, cost, gain, cost[by_cost], np.append(best_from, -1))


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
