"""Who gets how much of the store's bandwidth. Pure."""

from __future__ import annotations

from functools import lru_cache
from math import inf

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]


def some(of: Bools) -> bool:
    """`of.any()`, in a third of its time: of a few hundred, asked at every moment."""
    return bool(np.count_nonzero(of))


def water_fill(demands: Floats, limit: float, weights: Floats | None) -> Floats:
    """Max-min fair: nobody gets more than it wants, or by weight (None: equal ones) less than another while it wants
    more."""
    if limit == inf or demands.sum() <= limit:
        return demands.copy()
    if weights is None:
        return _fill_equally(demands, limit)
    by_need = np.argsort(demands / weights, kind="stable")
    wanted, weight = demands[by_need], weights[by_need]
    # If those up to i are satisfied, this is the level that the others' parts have.
    before = np.cumsum(np.concatenate(([0.0], wanted)))[:-1]
    left_weight = np.cumsum(weight[::-1])[::-1]
    levels = np.maximum(limit - before, 0.0) / left_weight
    over = wanted > levels * weight
    if not over.any():  # they want no more than a rounding error above the limit
        return demands.copy()
    level: float = levels[int(np.argmax(over))]
    filled: Floats = np.minimum(demands, level * weights)
    return filled


def _fill_equally(demands: Floats, limit: float) -> Floats:
    """As with weights of 1, in half the time: of most clusters no windows are known."""
    wanted = np.sort(demands)
    before = np.zeros(len(wanted))
    wanted[:-1].cumsum(out=before[1:])
    levels = np.maximum(limit - before, 0.0) / _down_from(len(wanted))
    over = wanted > levels
    if not some(over):
        return demands.copy()
    filled: Floats = np.minimum(demands, levels[int(over.argmax())])
    return filled


@lru_cache(maxsize=16)
def _down_from(count: int) -> Floats:
    down = np.arange(count, 0.0, -1.0)
    down.flags.writeable = False
    return down


def share(demands: Floats, promised: Floats | None, limit: float, weights: Floats | None) -> Floats:
    """What was promised first (None: nothing), as far as it is used; what is left is lent by water-filling."""
    if promised is None:
        return water_fill(demands, limit, weights)
    if limit == inf or demands.sum() <= limit:
        return demands.copy()
    first = np.minimum(demands, promised)
    total = float(first.sum())
    if total > limit:  # promised more than there is
        return first * (limit / total)
    return first + water_fill(demands - first, limit - total, weights)


def alone_from_store(ideals: Floats, demands: Floats, limit: float, weights: Floats) -> Floats:
    """What each would get if all it reads came from the store and the others did as they do: what probing measures."""
    if limit == inf or demands.sum() + ideals.max(initial=0.0) <= limit:
        return ideals.copy()
    by_need = np.argsort(demands / weights, kind="stable")
    level_at = (demands / weights)[by_need]
    wanted = np.concatenate(([0.0], np.cumsum(demands[by_need])))
    open_weight = np.concatenate((np.cumsum(weights[by_need][::-1])[::-1], [0.0]))
    low, high = np.zeros_like(ideals), np.full_like(ideals, limit)
    for _ in range(40):  # halves the error each time
        level = (low + high) / 2
        at = level_at.searchsorted(level, side="right")  # as a function of numpy it takes twice as long
        others = wanted[at] + level * open_weight[at] - np.minimum(demands, level * weights)
        over = others + np.minimum(ideals, level) > limit
        low, high = np.where(over, low, level), np.where(over, level, high)
    return np.minimum(ideals, low)
