"""An amount shared in proportion to weights, with a cap for each: what one cannot use goes to the others. Pure."""

from __future__ import annotations

from collections.abc import Mapping


def fill(total: float, caps: Mapping[str, float], weights: Mapping[str, float] | None = None) -> dict[str, float]:
    """Parts of `total`, none above its cap, those below theirs in proportion to their weights (default: equal).

    With equal weights it is the max-min fair division. A weight of 0 gets nothing.
    """
    weight = {name: 1.0 if weights is None else weights[name] for name in caps}
    parts = {name: 0.0 for name in caps if not weight[name]}
    left, of_weight = total, sum(weight.values())
    for name in sorted((name for name in caps if weight[name]), key=lambda name: (caps[name] / weight[name], name)):
        parts[name] = min(caps[name], max(0.0, left) * weight[name] / of_weight)
        left -= parts[name]
        of_weight = max(weight[name], of_weight - weight[name])
    return parts
