"""Of which nodes it is known that nobody reaches them: one that only this machine does not reach serves others."""

from __future__ import annotations

import io

from tests.unit.test_status_tables import told
from tfquiver.cli import calls
from tfquiver.cli.status_tables_and_warnings import status_view, unreached


def node(name: str, address: str = "localhost:1", **more: object) -> dict[str, object]:
    return {"node_id": name, "control_address": address, **more}


def test_one_that_is_gone_or_that_the_coordinator_does_not_hear_either() -> None:
    nodes = [
        node("well", silent_ms=9000),
        node("not-reached-from-here", error="does not answer", silent_ms=900),
        node("hangs", error="does not answer", silent_ms=9000),
        node("killed", error="refused", is_gone=True, silent_ms=900),
        node("killed-elsewhere", "10.0.0.7:1", error="refused", is_gone=True),
    ]
    assert unreached.nodes(nodes, "localhost:5040") == ["hangs", "killed", "killed-elsewhere"]
    assert unreached.nodes(nodes, "head:5040") == ["hangs", "killed-elsewhere"], "its loopback address is not ours"
    assert unreached.nodes([node("silent", silent_ms=9000), node("n", silent_ms=1)], "h:1", asked=False) == ["silent"]


def test_what_they_alone_have_is_not_cached_and_said_below() -> None:
    status = told("train")
    status["datasets"][0] |= {"size_bytes": 200, "resident_bytes": 50, "unreached_bytes": 150, "chunks": 4}
    status["datasets"] += [
        status["datasets"][0] | {"name": f"d{number}", "digest_id": f"{number}" * 64} for number in range(6)
    ]
    out = io.StringIO()
    status_view.show(status, calls.console(file=out, width=1000))
    printed = out.getvalue()
    assert printed.count(" 25% ") == 7
    assert (
        "not in cached, for only nodes that do not answer have it: 150 B of train, 150 B of d0, 150 B of d1, "
        "150 B of d2, 150 B of d3, and of 2 more data sets\n"
    ) in printed
