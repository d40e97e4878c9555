"""Records by weights of their own: shards are drawn by their largest weight, and of a shard a draw picks records with
the chance weight / largest; or, without replacement, the records with the smallest random keys. Pure."""

from __future__ import annotations

import numpy as np

from tfquiver.messages_and_binary_formats.record_picks import MOST_PLANES, RecordPicks
from tfquiver.service.coordinator.sampling_schemes_drawing_epochs import seeded_numbers, smallest_keys
from tfquiver.service.coordinator.sampling_schemes_drawing_epochs.chance import Chance
from tfquiver.service.coordinator.sampling_schemes_drawing_epochs.interface import Draws, Population
from tfquiver.service.coordinator.sampling_schemes_drawing_epochs.numbers import checked_draws, number, truth
from tfquiver.sizes_durations_amounts.amounts import many


class RecordsByWeight:
    """With replacement: how often a record comes in an epoch is binomial, its mean as its weight, and so is that of
    all records about `epoch_share` times their number. Without: an epoch is just `epoch_share` times as many records
    as the data set has, each once, distributed as if one after the other was drawn by weight and not put back."""

    def __init__(self, epoch_share: float, copies: object = 1, replacement: object = True) -> None:
        """`copies`: how often one draw may emit a record: so many fewer draws, each of more records."""
        self._epoch_share, self._replacement = epoch_share, truth("replacement", replacement)
        self._copies = int(number("copies", copies, 1, MOST_PLANES))
        if not self._replacement and self._copies != 1:
            raise ValueError("copies: with replacement only")

    def draw(self, population: Population, chance: Chance) -> Draws:
        return self._drawn(population, chance) if self._replacement else self._kept(population, chance)

    def _drawn(self, population: Population, chance: Chance) -> Draws:
        values, largest = population.record_weights, population.largest_weights
        wanted = self._epoch_share * population.all_records
        # Each plane of a draw picks a record with the chance weight / sum of the largest weights.
        a_plane = float(values.sum(dtype=np.float64) / largest.sum())
        count = checked_draws(max(1, round(wanted / (self._copies * a_plane))))
        assert population.weights is not None
        picks = RecordPicks(
            population.weights.weights_id, seeded_numbers.picks_seed(chance.epoch_seed), self._copies, 0.0,
            round(count * self._copies * a_plane),
        )  # fmt: skip
        return Draws(chance.weighted(largest, count, any_order=True), picks=picks)

    def _kept(self, population: Population, chance: Chance) -> Draws:
        values, count = population.record_weights, max(1, round(self._epoch_share * population.all_records))
        if count > (most := int(np.count_nonzero(values))):
            raise ValueError(
                f"epoch_share={self._epoch_share:g}: {many(count, 'record')} without replacement; "
                f"{many(most, 'has a weight', 'have weights')} above 0"
            )
        seed = seeded_numbers.picks_seed(chance.epoch_seed)
        most_key = smallest_keys.most_key(seed, values, count)
        assert population.weights is not None
        picks = RecordPicks(population.weights.weights_id, seed, 1, most_key, count)
        of_shards = smallest_keys.picked_of_shards(picks, values, population.records_before)
        return Draws(np.flatnonzero(of_shards), picks=picks)
