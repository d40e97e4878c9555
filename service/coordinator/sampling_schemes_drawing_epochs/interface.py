"""What a sampling scheme is given and what it gives.

A scheme draws whole shards: whoever draws a shard emits each of its records once, or, where it draws by weights of
records, those that the draw picks. Draws are made for one epoch at a
time, before it begins, and do not depend on what is cached; which of them come first does, where the scheme leaves that
open. So what is drawn has the scheme's distribution, whatever the cache holds, whoever reads, and whoever is killed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np
import numpy.typing as npt

from tfquiver.messages_and_binary_formats.record_picks import MOST_PLANES, RecordPicks
from tfquiver.messages_and_binary_formats.record_weights import RecordWeights, Values
from tfquiver.service.coordinator.sampling_schemes_drawing_epochs.chance import Chance
from tfquiver.service.coordinator.sampling_schemes_drawing_epochs.seeded_numbers import picks_seed
from tfquiver.service.coordinator.sampling_schemes_drawing_epochs.smallest_keys import AT_ONCE


@dataclass(frozen=True, eq=False)
class Population:
    """The shards of a data set, in stored order: file by file, and in each as its records stand."""

    records: npt.NDArray[np.uint32]  # shape [shards]
    lengths: npt.NDArray[np.uint64]  # shape [shards]; raw bytes
    file_of: npt.NDArray[np.uint32]  # shape [shards]: places in `files`; rising
    files: Sequence[str]  # URIs
    weights: RecordWeights | None = None  # that the user gave; only schemes with `takes_weights` are given any

    @property
    def shards(self) -> int:
        return len(self.records)

    @cached_property
    def records_before(self) -> npt.NDArray[np.int64]:
        """Shape [shards + 1]: before each shard, and all."""
        return np.concatenate(([0], np.cumsum(self.records, dtype=np.int64)))

    @property
    def all_records(self) -> int:
        return int(self.records_before[-1])

    @property
    def record_weights(self) -> Values:
        """Float32, shape [records], in stored order: those of shard i are from records_before[i] to
        records_before[i + 1]; finite, 0 or more, some more; not to be changed.

        Raises ValueError: the user gave none, or not of so many records.
        """
        if self.weights is None:
            raise ValueError("weights: none of records were given")
        values = self.weights.values
        if len(values) != self.all_records:
            raise ValueError(f"weights: {len(values)} of records; the data set has {self.all_records}")
        return values

    @cached_property
    def largest_weights(self) -> npt.NDArray[np.float64]:
        """Of each shard's records, shape [shards]; 0 of one without records. Raises as `record_weights`."""
        values, largest, some = self.record_weights, np.zeros(self.shards), np.flatnonzero(self.records)
        largest[some] = np.maximum.reduceat(values, self.records_before[some])
        return largest

    @cached_property
    def weight_sums(self) -> npt.NDArray[np.float64]:
        """Of each shard's records, shape [shards]. Raises as `record_weights`."""
        values, sums, some = self.record_weights, np.zeros(self.shards), np.flatnonzero(self.records)
        starts, at = self.records_before[some], 0
        while at < len(some):  # in float64 some at a time: all would take twice what the weights do
            end = max(at + 1, int(np.searchsorted(starts, starts[at] + AT_ONCE)))
            last = int(self.records_before[some[end - 1] + 1])
            sums[some[at:end]] = np.add.reduceat(
                values[starts[at] : last].astype(np.float64), starts[at:end] - starts[at]
            )
            at = end
        return sums

    def picks(self, shards: npt.ArrayLike, chance: Chance, copies: int = 1) -> RecordPicks:
        """For `Draws.picks`, where `shards` are its draws: each emits a record of its shard with the chance
        weight / `largest_weights` of that shard, on its own, and does so `copies` times. What has the weight 0 never
        comes.

        Args:
          copies: 1 to 64.

        Raises ValueError: also as `record_weights`.
        """
        if isinstance(copies, bool) or not isinstance(copies, int) or not 1 <= copies <= MOST_PLANES:
            raise ValueError(f"copies={copies!r}: must be a whole number from 1 to {MOST_PLANES}")
        sums, largest = self.weight_sums, self.largest_weights
        assert self.weights is not None
        expected = np.divide(sums, largest, out=np.zeros(self.shards), where=largest > 0)
        records = float(expected[np.asarray(shards, np.int64)].sum()) * copies
        return RecordPicks(self.weights.weights_id, picks_seed(chance.epoch_seed), copies, 0.0, round(records))


@dataclass(frozen=True, eq=False)
class Draws:
    """One epoch.

    Args:
      shards: which shard each draw is of, whole numbers, shape [draws].
      stage_ends: how many draws are in this stage and those before. Draws of one stage come in any order, what is
        cached first, and those of the next when they have come. None: all draws are one stage.
      in_turn: the draws come exactly as they stand, so that what is missing is read as it is stored; without stages.
      picks: which records of its shard a draw is of, as `population.picks` says it of these draws; None: of all.
    """

    shards: npt.ArrayLike
    stage_ends: Sequence[int] | None = None
    in_turn: bool = False
    picks: RecordPicks | None = None


class Scheme(Protocol):
    """An object with this method; its class is called with the arguments that the user gave, by name, and raises
    ValueError, TypeError or InvalidArgumentError on what they cannot be. They come through JSON: numbers, text, true
    and false, lists, and mappings whose keys are text.

    A class attribute `repeats = False` promises that no shard is drawn twice in an epoch: what breaks it is refused.
    Another, `takes_weights = True`, says that the user may give weights of records (`tfquiver.Sampling(weights=)`),
    which are in `population` then. To a scheme without it they cannot be given.
    """

    def draw(self, population: Population, epoch: int, chance: Chance) -> Draws:
        """The draws of an epoch: the same for the same arguments, for a reader that is restored asks again.

        Called in a thread, in at most 8 seconds.

        Args:
          epoch: of the job, from 0.
          chance: all that may be random.
        """
