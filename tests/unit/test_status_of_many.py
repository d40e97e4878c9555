"""What `tfquiver status` says where a thousand nodes, workers or epochs have the same trouble: no other is hidden."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.test_status_problems import worker
from tests.unit.test_status_tables import told
from tfquiver.cli.status_tables_and_warnings import alike, status_view

NODES = 1000
NODE = told("run")["nodes"][0] | {"quota_bytes": 10**12, "used_bytes": 10**11, "control_address": "h:1"}
TROUBLES = {
    "does not answer": {"error": "node h does not answer"},
    "has not answered": {"disk_hangs_ms": 41_000},
    "its disk is full": {"disk_room_bytes": 0},
    "damaged": {"corrupt_entries": 1},
    "not what it asked for": {"peer_mismatches": 1},
    "refused to keep": {"refused_inserts": 1, "refused_by_disk": 1},
    "right hash": {"refused_inserts": 1, "refused_damaged": 1},
    "no room in its quota": {"refused_inserts": 1},
    "reaches itself": {"control_address": "localhost:1"},
}


def status(**other: Any) -> dict[str, Any]:
    """In which nothing is wrong but what is `other`."""
    return told("run") | {"nodes": [NODE], "sessions": [], "datasets": []} | other


@pytest.mark.parametrize("said", TROUBLES)
def test_of_a_thousand_nodes_with_one_trouble_some_are_named(said: str) -> None:
    nodes = [NODE | TROUBLES[said] for _ in range(NODES)]
    found = status_view.problems(status(nodes=[NODE, *nodes]))
    assert all(said in line for line in found[: alike.MOST])
    assert found[alike.MOST :] == ["the same of 995 more nodes: `tfquiver status --json` has all"]
    assert len(status_view.problems(status(nodes=[NODE, *nodes[: alike.MOST]]))) == alike.MOST


def test_what_else_is_wrong_stands_on_the_same_screen() -> None:
    all_at_once = NODE | {"disk_room_bytes": 0, "corrupt_entries": 1, "refused_inserts": 1, "refused_by_disk": 1}
    session = told("run")["sessions"][0]
    found = status_view.problems(status(nodes=[all_at_once] * NODES, sessions=[session] * NODES))
    assert len(found) == 4 * (alike.MOST + 1)
    assert found[-1] == "the same of 995 more epochs: `tfquiver status --json` has all"


def test_workers_and_data_sets_and_dispatchers_too() -> None:
    silent = {"address": "d:1", "workers": [worker(port, 600) for port in range(NODES)]}
    lost = [{"address": f"d:{port}", "silent_ms": 9000} for port in range(NODES)]
    large = told("run")["datasets"][0] | {"size_bytes": 10**15, "cache": {"mode": "uniform"}}
    found = status_view.problems(status(dispatchers=[silent], lost_dispatchers=lost, datasets=[large] * NODES))
    assert len(found) == 3 * (alike.MOST + 1)
    whats = [line.partition(":")[0] for line in found if line.startswith("the same of ")]
    assert whats == [f"the same of 995 more {what}s" for what in ("dispatcher", "worker", "data set")]
