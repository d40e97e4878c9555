"""Some records more often than others: each draw is of a shard with a chance like its weight. Pure."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from tfquiver.service.coordinator.sampling_by_weights_or_with_replacement.patterns import (
    check_all_used,
    first_matches,
)
from tfquiver.service.coordinator.sampling_by_weights_or_with_replacement.record_weighted import (
    RecordsByWeight,
)
from tfquiver.service.coordinator.sampling_schemes_drawing_epochs.chance import Chance
from tfquiver.service.coordinator.sampling_schemes_drawing_epochs.interface import Draws, Population
from tfquiver.service.coordinator.sampling_schemes_drawing_epochs.numbers import checked_draws, number, weights
from tfquiver.sizes_durations_amounts.amounts import many

MOST_EPOCH_SHARE = 100.0
Weights = npt.NDArray[np.float64]


class Weighted:
    """Draws are independent of each other, and each record's expected number in an epoch is as its weight. An epoch
    draws about `epoch_share` times as many records as the data set has."""

    def __init__(
        self,
        files: Sequence[Sequence[object]] | None = None,
        shards: Sequence[object] | None = None,
        epoch_share: float = 1.0,
        records: str | None = None,
        copies: float = 1,
        replacement: bool = True,
    ) -> None:
        """
        Args:
          files: pairs of a pattern of files and a weight; the first that a file matches counts, and each must match
            one.
          shards: a weight for each shard, in stored order; one of the three is given.
          records: set: `population.weights` are those of the records.
          copies, replacement: with `records`, as in `RecordsByWeight`.
        """
        self._epoch_share = number("epoch_share", epoch_share, 1e-6, MOST_EPOCH_SHARE)
        self._by_record: RecordsByWeight | None = None
        if records is not None:
            if files is not None or shards is not None:
                raise ValueError("weights: of files, of shards or of records")
            self._by_record = RecordsByWeight(self._epoch_share, copies, replacement)
            return
        if copies != 1 or replacement is not True:
            raise ValueError("copies, replacement: with weights of records only")
        self._patterns: list[str] | None = None
        values: Sequence[object]
        if shards is not None and files is None:
            values = shards
        elif files is not None and shards is None:
            pairs = [pair for pair in files if isinstance(pair, Sequence) and len(pair) == 2]
            if len(pairs) != len(files) or not all(isinstance(pair[0], str) and pair[0] for pair in pairs):
                raise ValueError("weights: must be pairs of a pattern of files and a number")
            self._patterns, values = [str(pair[0]) for pair in pairs], [pair[1] for pair in pairs]
        else:
            raise ValueError("weights: either of files or of shards")
        self._weights = weights("weights", values)

    @property
    def takes_weights(self) -> bool:
        return self._by_record is not None

    def draw(self, population: Population, epoch: int, chance: Chance) -> Draws:
        if self._by_record:
            return self._by_record.draw(population, chance)
        return Draws(drawn_by_weight(population, self._of_shards(population), self._epoch_share, chance))

    def _of_shards(self, population: Population) -> Weights:
        if self._patterns is not None:
            found = first_matches(self._patterns, population.files)
            if (found < 0).any():
                raise ValueError(f"weights: no pattern matches {population.files[int(np.argmin(found))]}")
            check_all_used(self._patterns, found, "weights")
            of_shards: Weights = self._weights[found][population.file_of]
            if not of_shards.any():
                raise ValueError("weights: every file that has records has the weight 0")
            return of_shards
        if len(self._weights) != population.shards:
            raise ValueError(
                f"weights: {many(len(self._weights), 'number')}; the data set has {many(population.shards, 'shard')}"
            )
        return self._weights


def drawn_by_weight(
    population: Population, of_shards: Weights, epoch_share: float, chance: Chance
) -> npt.NDArray[np.uint32]:
    """So many draws that their records are expected to be `epoch_share` times those of the data set; sorted."""
    of_shards = of_shards / of_shards.max()  # no sum is too large then
    mean_records = float((of_shards * population.records).sum() / of_shards.sum())
    count = checked_draws(max(1, round(epoch_share * population.all_records / max(mean_records, 1e-9))))
    return chance.weighted(of_shards, count, any_order=True)
