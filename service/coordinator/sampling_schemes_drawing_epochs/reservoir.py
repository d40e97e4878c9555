"""A part of the data set, each subset of so many shards as likely as any other, read as it is stored (OneAccess,
HotCloud'19, section 3: reservoir sampling). Pure."""

from __future__ import annotations

import numpy as np

from tfquiver.service.coordinator.sampling_schemes_drawing_epochs.chance import Chance
from tfquiver.service.coordinator.sampling_schemes_drawing_epochs.interface import Draws, Population
from tfquiver.service.coordinator.sampling_schemes_drawing_epochs.numbers import number, truth


class Reservoir:
    """An epoch is the subset, once, in stored order: so what is missing is read from the store as neighbours. Where the
    sizes of all shards are known beforehand, to draw the subset at once is the same as to keep a reservoir while
    reading everything, and reads only what is kept."""

    repeats = False

    def __init__(self, records: int, redraw: bool = True) -> None:
        """
        Args:
          records: about so many: as many whole shards as have them on the average.
          redraw: another subset each epoch; False: the first epoch's, always.
        """
        self._records = number("records", records, 1, 2**53)
        self._redraw = truth("redraw", redraw)

    def draw(self, population: Population, epoch: int, chance: Chance) -> Draws:
        if self._records > population.all_records:
            raise ValueError(f"records={self._records:.0f}: the data set has {population.all_records}")
        count = max(1, round(self._records * population.shards / population.all_records))
        chosen = (chance if self._redraw else chance.of_epoch(0)).shuffled(population.shards)[:count]
        return Draws(np.sort(chosen), in_turn=True)
