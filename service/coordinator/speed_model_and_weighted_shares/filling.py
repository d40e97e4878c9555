"""An amount shared in proportion to weights, with a cap for each: what one cannot use goes to the others. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import accumulate

import numpy as np

from tfquiver.service.coordinator.policies.views_and_plans.interface import Floats, Ints
from tfquiver.shard_owners_chunks_hash_prefixes.sorted_numbers import stable_order


def fill(total: float, caps: Mapping[str, float], weights: Mapping[str, float] | None = None) -> dict[str, float]:
    """Parts of `total`, none above its cap, those below theirs in proportion to their weights (default: equal).

    With equal weights it is the max-min fair division. A weight of 0 gets nothing.
    """
    weight = {name: 1.0 if weights is None else float(weights[name]) for name in caps}
    parts = {name: 0.0 for name in caps if not weight[name]}
    # The first to be full comes last; what is left is shared by its weight and that of all before it.
    open_to = sorted((one for one in caps if weight[one]), key=lambda one: (-caps[one] / weight[one], one))
    left = float(total)
    for name, of_weight in zip(open_to[::-1], [*accumulate(weight[one] for one in open_to)][::-1], strict=True):
        parts[name] = min(caps[name], max(0.0, left) * min(1.0, weight[name] / of_weight))
        left -= parts[name]
    return parts


def fill_column(total: float, caps: Floats, weights: Floats) -> Floats:
    """`fill` of thousands."""
    parts, open_to = np.zeros(len(caps)), np.flatnonzero(weights > 0)
    order = open_to[stable_order(caps[open_to] / weights[open_to])]
    cap, weight = caps[order], weights[order]
    # The first that is not full sets the level: what is left by those before it, by weight, for it and all after it.
    before = np.cumsum(np.concatenate(([0.0], cap)))[:-1]  # a difference of sums is off by what the largest cap rounds
    levels = np.maximum(0.0, total - before) / np.cumsum(weight[::-1])[::-1]
    short = np.flatnonzero(cap > levels * weight)
    parts[order] = np.minimum(cap, levels[short[0]] * weight) if short.size else cap
    return parts


def whole_sum(amounts: Ints) -> int:
    """However large it is: a column's own may be more than it holds. Of none that is negative."""
    fits = int(amounts.max(initial=0)) * len(amounts) < 1 << 63
    return int(amounts.sum()) if fits else sum(amounts.tolist())


def whole_bytes(parts: Floats, total: int) -> Ints:
    """Rounded down, and no more than `total`: of petabytes the parts may be off by some bytes, which the largest has
    less then."""
    rounded: Ints = parts.astype(np.int64)
    if (over := whole_sum(rounded) - total) > 0:
        rounded[int(np.argmax(rounded))] -= over
    return rounded
