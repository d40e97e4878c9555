"""Numbers by chance that are functions of seed and record alone (pure)."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from tfquiver.service.coordinator.samplers_and_orders_of_an_epochs_shards.block_order import mixed

_MASK = (1 << 64) - 1
_GOLDEN = 0x9E3779B97F4A7C15
_OF_PICKS = 0xA5A5_5A5A_C3C3_3C3C  # other numbers than those that draw the shards


def picks_seed(epoch_seed: int) -> int:
    return mixed_number(epoch_seed ^ _OF_PICKS)


def uniform(seed: int, count: int, first: int) -> npt.NDArray[np.float64]:
    """Of records `first` and those after it: from 0 up to but not 1."""
    start = (seed + first * _GOLDEN) & _MASK
    with np.errstate(over="ignore"):
        states = np.uint64(start) + np.arange(count, dtype=np.uint64) * np.uint64(_GOLDEN)
        return (mixed(states) >> np.uint64(11)).astype(np.float64) * 2.0**-53


def mixed_number(number: int) -> int:
    with np.errstate(over="ignore"):
        return int(mixed(np.array([number & _MASK], np.uint64))[0])
