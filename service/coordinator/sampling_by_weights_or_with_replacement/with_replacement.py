"""Each draw is of any shard, whatever has been drawn before: a bootstrap sample, by shards. Pure."""

from __future__ import annotations

import numpy as np

from tfquiver.service.coordinator.sampling_by_weights_or_with_replacement.weighted import (
    MOST_EPOCH_SHARE,
    drawn_by_weight,
)
from tfquiver.service.coordinator.sampling_schemes_drawing_epochs.chance import Chance
from tfquiver.service.coordinator.sampling_schemes_drawing_epochs.interface import Draws, Population
from tfquiver.service.coordinator.sampling_schemes_drawing_epochs.numbers import number


class WithReplacement:
    """Of each record an epoch has `epoch_share` on the average: some twice, and of 1.0 about 37 % not at all."""

    def __init__(self, epoch_share: float = 1.0) -> None:
        self._epoch_share = number("epoch_share", epoch_share, 1e-6, MOST_EPOCH_SHARE)

    def draw(self, population: Population, epoch: int, chance: Chance) -> Draws:
        return Draws(drawn_by_weight(population, np.ones(population.shards), self._epoch_share, chance))
