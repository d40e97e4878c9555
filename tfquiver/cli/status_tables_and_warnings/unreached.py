"""Nodes of which it is known that nobody reaches them: what they alone hold cannot be served."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tfquiver.grpc_plumbing import addresses

SILENT_MS = 8000  # signs of life of each of thousands are up to five seconds apart
MOST = 1024  # that a coordinator takes


def nodes(told: Sequence[Mapping[str, Any]], coordinator: str, asked: bool = True) -> list[str]:
    """Ids of such nodes. One that is only not reached from here, as from outside of its cluster's network, is none: it
    may well serve others.

    Args:
      told: the live nodes of a status: `error` and `is_gone` of those that do not answer, `silent_ms`.
      coordinator: its address.
      asked: False: the nodes were not, and what they would answer is not known.
    """
    is_here = not addresses.leads_elsewhere(coordinator)  # else a node's loopback address leads to another machine
    found = []
    for node in told:
        is_gone = node.get("is_gone") and (is_here or addresses.leads_elsewhere(node["control_address"]))
        if is_gone or (("error" in node or not asked) and node.get("silent_ms", 0) > SILENT_MS):
            found.append(node["node_id"])
    return found[:MOST]
