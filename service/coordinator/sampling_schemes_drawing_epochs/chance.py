"""Random numbers of one epoch: a function of seed and epoch, in every version of every library alike. Pure."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from tfquiver.service.coordinator.samplers_and_orders_of_an_epochs_shards.block_order import mixed, order_seed

_MASK = (1 << 64) - 1
_AT_ONCE = 1 << 20
_GOLDEN = np.uint64(0x9E3779B97F4A7C15)


class Chance:
    """SplitMix64. Each call goes on where the last one ended."""

    def __init__(self, seed: int, epoch: int) -> None:
        self._seed = seed
        self._state = self._epoch_seed = order_seed(seed, epoch)

    @property
    def epoch_seed(self) -> int:
        """For chances that are kept apart from these."""
        return self._epoch_seed

    def of_epoch(self, epoch: int) -> Chance:
        """As it was at the beginning of another epoch."""
        return Chance(self._seed, epoch)

    def uniform(self, count: int) -> npt.NDArray[np.float64]:
        """Shape [count]: from 0 up to but not 1."""
        with np.errstate(over="ignore"):
            states = np.uint64(self._state) + np.arange(count, dtype=np.uint64) * _GOLDEN
        self._state = (self._state + count * int(_GOLDEN)) & _MASK
        return (mixed(states) >> np.uint64(11)).astype(np.float64) * 2.0**-53

    def below(self, most: int, count: int) -> npt.NDArray[np.uint32]:
        """Shape [count]: whole numbers from 0 to `most` - 1, each equally likely each time."""
        return np.minimum(self.uniform(count) * most, most - 1).astype(np.uint32)

    def shuffled(self, count: int) -> npt.NDArray[np.uint32]:
        """Shape [count]: 0 to `count` - 1, in any order."""
        return np.argsort(self.uniform(count), kind="stable").astype(np.uint32)

    def weighted(self, weights: npt.NDArray[np.float64], count: int, any_order: bool = False) -> npt.NDArray[np.uint32]:
        """Shape [count]: places in `weights`, each as likely as its weight, each time. At least one is above 0.

        `any_order`: the same, sorted: of millions in a fraction of the time.
        """
        ends = np.cumsum(weights)
        last = int(np.flatnonzero(weights)[-1])  # a product may be rounded up
        chances = self.uniform(count)
        if any_order:
            chances.sort()
        chances *= ends[-1]
        drawn = np.empty(count, np.uint32)
        for at in range(0, count, _AT_ONCE):
            part = np.searchsorted(ends, chances[at : at + _AT_ONCE], "right")
            drawn[at : at + len(part)] = np.minimum(part, last)
        return drawn
