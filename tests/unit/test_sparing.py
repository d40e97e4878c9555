"""Of many nodes and data sets each is asked seldom; what is shown meanwhile is nowhere less, or other than it is."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.test_status_tables import told
from tfquiver.cli.status_asked_watched_explained import sparing as sparing_module
from tfquiver.cli.status_asked_watched_explained import sums
from tfquiver.cli.status_asked_watched_explained.sparing import Sparing
from tfquiver.cli.status_tables_and_warnings.money import Prices

_TOTALS = {
    "hits": 5, "misses": 5, "served_bytes": 900, "store_bytes": 100, "store_requests": 1, "since_s": 7,
}  # fmt: skip
_WORK = {
    "kind": "WORK_KIND_SCAN", "name": "new", "digest_id": "", "done_bytes": 1, "total_bytes": 2, "trouble": "",
}  # fmt: skip


class Cluster:
    """`nodes` of them, one of which is silent and one of which scans; a data set that is read, larger than they are."""

    def __init__(self, nodes: int) -> None:
        self.nodes, self.asked = nodes, list[bool]()

    def status(self, thorough: bool) -> dict[str, Any]:
        self.asked.append(thorough)
        status = told("many")
        known = [{"node_id": f"n-{number}", "quota_bytes": 9, "used_bytes": 1} for number in range(self.nodes)]
        nodes = [self._answer(number, one) for number, one in enumerate(known)] if thorough else known
        (dataset,), (session,) = status["datasets"], status["sessions"]
        if not thorough:
            dataset = dataset | {"cache": {"mode": "unset"}}
        found = status | {"nodes": nodes, "datasets": [dataset], "sessions": [session | {"shortfall": 0}]}
        return sums.with_sums(found, Prices(1e12))

    def _answer(self, number: int, node: dict[str, Any]) -> dict[str, Any]:
        if number == 0:
            return node | {"error": "node n-0 does not answer"}
        counters = dict.fromkeys(("readers", "peer_hits", "store_bytes", "served_bytes", "corrupt_entries"), number)
        return node | counters | {"hits": 3, "misses": 1, "totals": _TOTALS, "works": [_WORK] if number == 1 else []}


def test_what_nodes_and_data_sets_said_last_stays_and_all_that_is_made_of_it() -> None:
    cluster, now = Cluster(sparing_module.FEW), [0.0]
    sparing = Sparing(cluster.status, Prices(1e12), lambda: now[0])
    first = sparing.collect()
    assert first["hit_ratio"] and first["saved"]["money"] and len(first["going_on"]) == 1
    assert first["problems"][0] == "node n-0 does not answer" and not any(
        "set-cache" in one for one in first["problems"]
    )
    for now[0] in (2.0, 4.0, 9.9):
        assert sparing.collect() == first
    now[0] = 10.0
    sparing.collect()
    assert cluster.asked == [True, False, False, False, True]


def test_a_node_that_has_just_come_has_given_out_nothing_yet() -> None:
    cluster, now = Cluster(sparing_module.FEW), [0.0]
    sparing = Sparing(cluster.status, Prices(), lambda: now[0])
    first = sparing.collect()
    cluster.nodes += 1
    told = sparing.collect()
    assert told["nodes"][-1] == told["nodes"][-1] | {"used_bytes": 1, "readers": 0, "hits": 0, "store_bytes": 0}
    assert (told["hits"], told["hit_ratio"]) == (first["hits"], first["hit_ratio"])


@pytest.mark.slow
@pytest.mark.long
def test_of_few_all_are_asked_each_time_and_of_thousands_so_many_a_second() -> None:
    few = Cluster(sparing_module.FEW - 1)
    sparing = Sparing(few.status, Prices(), lambda: 0.0)
    for _ in range(3):
        sparing.collect()
    assert few.asked == [True] * 3
    many, now = Cluster(5000), [0.0]
    sparing = Sparing(many.status, Prices(), lambda: now[0])
    for now[0] in range(0, 102, 2):
        sparing.collect()
    assert sum(many.asked) == 1
    now[0] = 102.0
    sparing.collect()
    assert sum(many.asked) == 2


def test_a_directory_without_node_is_told_as_it_is() -> None:
    cold = {"running": False, "entries": 3}
    assert Sparing(lambda _: dict(cold), Prices()).collect() == cold
