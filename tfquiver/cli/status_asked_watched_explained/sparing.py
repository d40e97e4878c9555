"""Who looks again and again at many nodes and data sets asks each of them seldom.

A call for each, every two seconds, and that of everybody who looks, would be most of what a coordinator has to do.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from tfquiver.cli.calls import plain
from tfquiver.cli.status_asked_watched_explained import sums
from tfquiver.cli.status_tables_and_warnings.money import Prices
from tfquiver.proto.tfquiver.v1 import node_pb2

FEW = 32  # nodes and data sets, each of which may take a call
THOROUGHLY_EVERY_S = 10.0
MOST_CALLS_PER_S = 50.0

# Whether what takes a call for each node and data set is wanted, too -> a status. Of a directory without node: what is
# there (`running` is False).
Collect = Callable[[bool], dict[str, Any]]


class Sparing:
    """One cluster, by one thread at a time. What nodes and data sets said last is told of them meanwhile."""

    def __init__(self, collect: Collect, prices: Prices, now: Callable[[], float] = time.monotonic) -> None:
        self._collect, self._prices, self._now = collect, prices, now
        self._nodes: dict[str, dict[str, Any]] = {}
        self._settings: dict[str, dict[str, Any]] = {}
        self._thorough_at = float("-inf")

    def collect(self) -> dict[str, Any]:
        """A status. Raises as what it was made of."""
        now, calls = self._now(), len(self._nodes) + len(self._settings)
        every_s = 0.0 if calls <= FEW else max(THOROUGHLY_EVERY_S, calls / MOST_CALLS_PER_S)
        thorough = now >= self._thorough_at + every_s
        status = self._collect(thorough)
        if not status.get("running", True):
            return status
        if thorough:
            self._nodes = {one["node_id"]: one for one in status["nodes"]}
            self._settings = {one["digest_id"]: one["cache"] for one in status["datasets"]}
            self._thorough_at = now
            return status
        status["nodes"] = [self._node(one) for one in status["nodes"]]
        for one in status["datasets"]:
            one["cache"] = self._settings.get(one["digest_id"], one["cache"])
        return sums.with_sums(status, self._prices)

    def _node(self, told: dict[str, Any]) -> dict[str, Any]:
        """What it said last, and what the coordinator knows of it now."""
        said = self._nodes.get(told["node_id"])
        if said is None:  # it has just come
            said = plain(node_pb2.StatusReply())
            said.pop("node", None)
        return said | told
