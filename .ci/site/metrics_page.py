"""The reference page of metrics: what each server would tell Prometheus, asked of the code that tells it.

`python .ci/site/metrics_page.py` prints it. tests/integration/test_prometheus.py holds it against servers that run.
"""

from __future__ import annotations

import asyncio
import html
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path

from prometheus_client.core import Metric
from prometheus_client.registry import Collector

from tfquiver.proto.tfquiver.v1 import node_pb2
from tfquiver.service.coordinator.coordinator import Coordinator
from tfquiver.service.coordinator.options import CoordinatorOptions
from tfquiver.service.metrics import coordinator_metrics as of_coordinator
from tfquiver.service.metrics import node_metrics as of_node
from tfquiver.service.metrics.exposition import Build
from tfquiver.service.metrics.instruments import CALLS, FAULTS, LOOP_LAG, TOLD_BY

_ABOUT = """# Metrics

What `--metrics_address` serves ([operations](../operations.md#prometheus) has how, and what for). A counter's series
has `_total` after its name, a histogram's have `_bucket`, `_sum` and `_count`. Each server also tells of its process
and of Python what Prometheus' client knows (`process_*`, `python_*`).
"""


def page() -> str:
    lines = [_ABOUT, "## All servers", "", *_table([Build("any"), LOOP_LAG, CALLS, FAULTS])]
    for server, instruments in TOLD_BY.items():
        own = [*_families(server), *_collected(instruments)]
        lines += [f"## tfquiver-{server}", "", *(_rows(own) if own else ["Nothing beside these.", ""])]
    return "\n".join(lines)


def names(server: str) -> set[str]:
    """The families that this server tells, without those that the client library has."""
    return {"tfquiver_build_info" if family.name == "tfquiver_build" else family.name for family in told(server)}


def told(server: str) -> list[Metric]:
    """These families."""
    return [*_families(server), *_collected([Build(server), LOOP_LAG, CALLS, FAULTS, *TOLD_BY[server]])]


def _families(server: str) -> list[Metric]:
    async def of(server: str) -> list[Metric]:
        if server == "node":
            return [family async for family in of_node.families(node_pb2.StatusReply())]
        if server == "coordinator":
            with tempfile.TemporaryDirectory() as scratch:
                nobody = Coordinator(Path(scratch) / "work", CoordinatorOptions())
                await nobody.start()
                try:
                    return [family async for family in of_coordinator.families(nobody)]
                finally:
                    await nobody.stop()
        return []

    return asyncio.run(of(server))


def _collected(collectors: Iterable[Collector]) -> list[Metric]:
    return [family for one in collectors for family in one.collect()]


def _table(collectors: Sequence[Collector]) -> list[str]:
    return _rows(_collected(collectors))


def _rows(families: Iterable[Metric]) -> list[str]:
    labels = {"tfquiver_build": "server, version"}
    for one in (CALLS, FAULTS, *(instrument for told in TOLD_BY.values() for instrument in told)):
        labels[one._name] = ", ".join(one._labelnames)
    lines = ["| name | is a | labels | meaning |", "|---|---|---|---|"]
    for family in families:
        names_of = labels.get(family.name, ", ".join(getattr(family, "_labelnames", ())))
        meaning = html.escape(family.documentation, quote=False)
        lines.append(f"| `{family.name}` | {family.type} | {names_of} | {meaning} |")
    return [*lines, ""]


if __name__ == "__main__":
    print(page())
