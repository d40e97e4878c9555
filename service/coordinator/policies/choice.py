"""One of several options for each data set, within one budget: the multiple-choice knapsack, greedily. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations

from tfquiver.amounts import of_bytes


@dataclass(frozen=True, slots=True)
class Option:
    """`gain` over having nothing, in any unit that all options of a choice share."""

    name: str
    cost_bytes: int
    gain: float


@dataclass(slots=True)
class Choice:
    """Which option each has, by index, and by name what was tried and refused."""

    chosen: dict[str, int]
    left_bytes: int
    refused: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _Step:
    dataset: str
    start: int
    end: int
    cost_bytes: int
    gain: float

    @property
    def density(self) -> float:
        return self.gain / max(1, self.cost_bytes)


def choose(options: Mapping[str, Sequence[Option]], budget_bytes: int) -> Choice:
    """Steps from option to option by gain to cost, each charged its increment only; then one exchange for each that
    found no room: others step down where that loses less than the step gains. Half of the most is gained at least.

    Args:
      options: the first of each costs and gains nothing; costs and gains rise. Of equal steps the first named wins.
    """
    choice = Choice(dict.fromkeys(options, 0), budget_bytes)
    steps = _all_steps(options)
    _take(options, choice, steps)
    downs = _downs(options, choice)
    for step in steps:
        if _exchange(options, choice, step, downs):
            downs = _downs(options, choice)
    while _take(options, choice, steps):
        pass  # who has taken a lesser step is told why not a better one, too
    return choice


def _take(options: Mapping[str, Sequence[Option]], choice: Choice, steps: Sequence[_Step]) -> bool:
    """Whether any was taken."""
    taken = False
    for step in steps:
        if choice.chosen[step.dataset] != step.start:
            continue
        if step.cost_bytes <= choice.left_bytes:
            _apply(choice, step)
            taken = True
        else:
            choice.refused.setdefault(step.dataset, _short(options, choice, step))
    return taken


def _exchange(options: Mapping[str, Sequence[Option]], choice: Choice, step: _Step, downs: Sequence[_Step]) -> bool:
    """Whether it was made. `downs`: all steps that can be taken back, those that lose least of each byte first."""
    if choice.chosen[step.dataset] != step.start or step.cost_bytes <= choice.left_bytes:
        return False
    short_bytes = step.cost_bytes - choice.left_bytes
    if not downs or step.gain <= short_bytes * downs[0].density:
        return False  # even at the least that a byte can lose; so it is for nearly all of thousands
    others = [down for down in downs if down.dataset != step.dataset]
    ways = [[down] for down in others if down.cost_bytes >= short_bytes]
    ways = [min(ways, key=_lost), _several(others, short_bytes)] if ways else [_several(others, short_bytes)]
    way = min((way for way in ways if way), key=_lost, default=None)
    if way is None or _lost(way) >= step.gain:
        return False
    for down in way:
        choice.chosen[down.dataset] = down.start
        choice.left_bytes += down.cost_bytes
        choice.refused[down.dataset] = f"{options[down.dataset][down.end].name}: {step.dataset} makes more of that room"
    _apply(choice, step)
    return True


def _several(downs: Sequence[_Step], short_bytes: int) -> list[_Step]:
    """One of each data set, and no more than are needed; empty: all of them are too little."""
    taken, freed_bytes = dict[str, _Step](), 0
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


def _downs(options: Mapping[str, Sequence[Option]], choice: Choice) -> list[_Step]:
    downs = (_between(name, options[name], lower, at) for name, at in choice.chosen.items() for lower in range(at))
    return sorted(downs, key=lambda down: down.density)


def _apply(choice: Choice, step: _Step) -> None:
    choice.chosen[step.dataset] = step.end
    choice.left_bytes -= step.cost_bytes
    choice.refused.pop(step.dataset, None)


def _short(options: Mapping[str, Sequence[Option]], choice: Choice, step: _Step) -> str:
    there, wanted = of_bytes(choice.left_bytes), of_bytes(step.cost_bytes)
    return f"{options[step.dataset][step.end].name}: takes {wanted} more, {there} were left"


def _all_steps(options: Mapping[str, Sequence[Option]]) -> list[_Step]:
    """The densest first: one that leads past a cheaper option comes before that where it makes more of each byte."""
    steps = [
        _between(name, there, start, end)
        for name, there in options.items()
        for start, end in combinations(range(len(there)), 2)
    ]
    return sorted((step for step in steps if step.gain > 0), key=lambda step: -step.density)


def _between(dataset: str, options: Sequence[Option], start: int, end: int) -> _Step:
    low, high = options[start], options[end]
    return _Step(dataset, start, end, high.cost_bytes - low.cost_bytes, high.gain - low.gain)
