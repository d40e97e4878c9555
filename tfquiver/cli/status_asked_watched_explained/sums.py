"""What follows from what nodes, data sets and sessions say: totals, what was saved, what goes on, problems (pure)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tfquiver.cli.status_asked_watched_explained import activity
from tfquiver.cli.status_tables_and_warnings import status_view
from tfquiver.cli.status_tables_and_warnings.money import Prices

_TOTALS = ("hits", "peer_hits", "misses", "store_bytes", "served_bytes")


def with_sums(told: Mapping[str, Any], prices: Prices) -> dict[str, Any]:
    """`told`: a status, but for what is of all together; what it has of that is replaced."""
    nodes = told["nodes"]
    totals = {key: sum(node.get(key, 0) for node in nodes) for key in _TOTALS}
    given = totals["hits"] + totals["peer_hits"] + totals["misses"]
    spared = status_view.saved([node["totals"] for node in nodes if node.get("totals")])
    found = {
        **told,
        "going_on": activity.going_on(nodes, told["datasets"], told["sessions"]),
        **totals,
        "hit_ratio": (totals["hits"] + totals["peer_hits"]) / given if given else None,
        "saved": spared | {"money": prices.of(spared)},
    }
    found.pop("problems", None)
    return {"problems": status_view.problems(found), **found}
