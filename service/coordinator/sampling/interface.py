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

from tfquiver.content.record_picks import RecordPicks
from tfquiver.content.record_weights import RecordWeights
from tfquiver.service.coordinator.sampling.chance import Chance


@dataclass(frozen=True, eq=False)
class Population:
    """The shards of a data set, in stored order: file by file, and in each as its records stand."""

    records: npt.NDArray[np.uint32]  # shape [shards]
    lengths: npt.NDArray[np.uint64]  # shape [shards]; raw bytes
    file_of: npt.NDArray[np.uint32]  # shape [shards]: places in `files`; rising
    files: Sequence[str]  # URIs
    weights: RecordWeights | None = None  # that the user gave, one of each record in stored order

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


@dataclass(frozen=True, eq=False)
class Draws:
    """One epoch.

    Args:
      shards: which shard each draw is of, whole numbers, shape [draws].
      stage_ends: how many draws are in this stage and those before. Draws of one stage come in any order, what is
        cached first, and those of the next when they have come. None: all draws are one stage.
      in_turn: the draws come exactly as they stand, so that what is missing is read as it is stored; without stages.
      picks: which records of its shard a draw is of, by `population.weights`; None: of all.
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
    """

    def draw(self, population: Population, epoch: int, chance: Chance) -> Draws:
        """The draws of an epoch: the same for the same arguments, for a reader that is restored asks again.

        Called in a thread, in at most 8 seconds.

        Args:
          epoch: of the job, from 0.
          chance: all that may be random.
        """
