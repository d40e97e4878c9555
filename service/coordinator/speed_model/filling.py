"""An amount shared in proportion to weights, with a cap for each: what one cannot use goes to the others. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import accumulate


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
