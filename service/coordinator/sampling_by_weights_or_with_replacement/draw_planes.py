"""The records of a shard that one draw is of, as one bit of each (pure)."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from tfquiver.messages_and_binary_formats.record_picks import RecordPicks
from tfquiver.messages_and_binary_formats.record_weights import Values
from tfquiver.service.coordinator.sampling_schemes_drawing_epochs.seeded_numbers import (
    mixed_number,
    uniform,
)
from tfquiver.service.coordinator.sampling_schemes_drawing_epochs.smallest_keys import keys


def planes(picks: RecordPicks, values: Values, draw: int, first: int) -> bytes:
    """The planes of one draw, as PickRecordsReply has them.

    Args:
      values: weights of the shard's records, shape [records].
      first: place in the data set of the first of them.
    """
    if picks.most_key:
        return _packed(keys(picks.seed, values, first) <= picks.most_key)
    weights, largest = values.astype(np.float64), float(values.max(initial=0.0))
    # A product of a number below 1 with the largest is below it: the heaviest record of a shard is in each plane.
    return b"".join(
        _packed(uniform(mixed_number(picks.seed + draw * picks.planes + plane), len(values), first) * largest < weights)
        for plane in range(picks.planes)
    )


def _packed(mask: npt.NDArray[np.bool_]) -> bytes:
    return np.packbits(mask, bitorder="little").tobytes()
