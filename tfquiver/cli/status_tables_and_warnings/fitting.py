"""As much of a status as a terminal has room for (pure)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tfquiver.cli.status_tables_and_warnings import nodes_view


def cut(status: Mapping[str, Any], room: int) -> tuple[Mapping[str, Any], int]:
    """`status`, with no more rows of a table than there are lines; and about how many lines are left out so. To lay out
    thousands takes longer than it is between two looks."""
    kept: dict[str, Any] = {}
    left_out = 0
    for key in ("problems", "sessions", "remote_io"):
        kept[key] = status[key][:room]
        left_out += len(status[key]) - len(kept[key])
    shown = 0
    kept["nodes"] = []
    for node in status["nodes"]:
        shown += "error" not in node
        if "error" in node or shown <= room:  # those that are silent are counted, and have no row
            kept["nodes"].append(node)
        else:
            left_out += 1 + len(nodes_view.placed([node]))
    # Of those that move there are lines above.
    kept["datasets"] = [one for at, one in enumerate(status["datasets"]) if at < room or one.get("moving_shards")]
    return {**status, **kept}, left_out + len(status["datasets"]) - len(kept["datasets"])
