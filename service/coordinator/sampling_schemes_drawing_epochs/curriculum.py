"""Easy records first: only a first part of the data set is drawn from, more and more of it (SiloD section 7.4)."""

from __future__ import annotations

import itertools
from bisect import bisect_right
from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

from tfquiver.service.coordinator.sampling_schemes_drawing_epochs import pacing as exponential
from tfquiver.service.coordinator.sampling_schemes_drawing_epochs.chance import Chance
from tfquiver.service.coordinator.sampling_schemes_drawing_epochs.interface import Draws, Population
from tfquiver.service.coordinator.sampling_schemes_drawing_epochs.numbers import checked_draws, number, truth

_LEAST_STEP_EPOCHS, _MOST_EPOCHS = 1e-3, 1e6
_MOST_STAIRS = 1000
_MOST_STEPS = 1 << 40


class Curriculum:
    """The data set is stored by difficulty, easiest first. At epoch t, a fraction, its first pace(t) are drawn from,
    each record as likely as any other: with replacement, or each shard once before any comes again in a step.

    An epoch draws about as many records as the data set has. Each step of the pacing is a stage.
    """

    def __init__(self, pacing: Mapping[str, object] | Sequence[Sequence[object]], replacement: bool = True) -> None:
        """
        Args:
          pacing: {"starting_part", "growth", "step_epochs"}: min(1, starting_part * growth ** (t // step_epochs)); or a
            list of [t, part]: from t on this part, the first from 0.
        """
        self._replacement = truth("replacement", replacement)
        self._pace = _Exponential(**pacing) if isinstance(pacing, Mapping) else _Stairs(pacing)

    def draw(self, population: Population, epoch: int, chance: Chance) -> Draws:
        starts = self._pace.starts(epoch)
        drawn, ends = list[npt.NDArray[np.uint32]](), list[int]()
        for start, end in zip(starts, [*starts[1:], epoch + 1.0], strict=True):
            shown = _shown(population, self._pace.part(start))
            mean_records = max(1.0, population.records_before[shown] / shown)
            count = max(1, round((end - start) * population.all_records / mean_records))
            ends.append(checked_draws((ends[-1] if ends else 0) + count))
            drawn.append(chance.below(shown, count) if self._replacement else _in_rounds(shown, count, chance))
        return Draws(np.concatenate(drawn), ends)


class _Exponential:
    def __init__(self, starting_part: object, growth: object, step_epochs: object) -> None:
        self._starting_part = number("pacing.starting_part", starting_part, 1e-9, 1.0)
        self._growth = number("pacing.growth", growth, 1.0, 1000.0)
        self._step_epochs = number("pacing.step_epochs", step_epochs, _LEAST_STEP_EPOCHS, _MOST_EPOCHS)

    def part(self, epochs: float) -> float:
        return exponential.part(self._starting_part, self._growth, self._step(epochs))

    def starts(self, epoch: int) -> list[float]:
        """When steps begin in this epoch that show more than the one before, and when it begins itself."""
        starts, step = [float(epoch)], self._step(epoch)
        if step >= _MOST_STEPS:  # those after it are alike, and between it and this epoch there may be any number
            return starts
        while (at := (step + 1) * self._step_epochs) < epoch + 1 - 1e-9 and self.part(starts[-1]) < 1.0:
            starts.append(at)
            step += 1
        return starts

    def _step(self, epochs: float) -> int:
        return exponential.step_of(epochs / self._step_epochs, _MOST_STEPS)


class _Stairs:
    def __init__(self, stairs: Sequence[Sequence[object]]) -> None:
        if isinstance(stairs, str) or not isinstance(stairs, Sequence) or not 0 < len(stairs) <= _MOST_STAIRS:
            raise ValueError(f"pacing: must be a list of 1 to {_MOST_STAIRS} pairs of epoch and part")
        if any(isinstance(pair, str) or not isinstance(pair, Sequence) or len(pair) != 2 for pair in stairs):
            raise ValueError("pacing: each must be a pair of epoch and part")
        self._epochs = [number(f"pacing[{at}][0]", pair[0], 0.0, _MOST_EPOCHS) for at, pair in enumerate(stairs)]
        self._parts = [number(f"pacing[{at}][1]", pair[1], 1e-9, 1.0) for at, pair in enumerate(stairs)]
        if self._epochs[0] != 0.0 or any(one >= other for one, other in itertools.pairwise(self._epochs)):
            raise ValueError("pacing: its epochs must begin with 0 and rise")

    def part(self, epochs: float) -> float:
        return self._parts[bisect_right(self._epochs, epochs) - 1]

    def starts(self, epoch: int) -> list[float]:
        return [float(epoch), *(at for at in self._epochs if epoch < at < epoch + 1)]


def _shown(population: Population, part: float) -> int:
    """How many shards; at least one."""
    wanted = part * population.all_records
    return max(1, min(population.shards, int(np.searchsorted(population.records_before[1:], wanted - 1e-6)) + 1))


def _in_rounds(shown: int, count: int, chance: Chance) -> npt.NDArray[np.uint32]:
    rounds, rest = divmod(count, shown)
    whole = np.tile(np.arange(shown, dtype=np.uint32), rounds)
    return np.concatenate((whole, chance.shuffled(shown)[:rest]))
