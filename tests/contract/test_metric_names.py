"""Every metric of every server is named as Prometheus' users expect (prometheus.io/docs/practices/naming): whose it is,
what it is, then a base unit in full, and `_total` where it counts."""

from __future__ import annotations

import re
import runpy
from collections.abc import Iterable
from pathlib import Path

import pytest
from prometheus_client import Metric
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily

PAGE = runpy.run_path(str(Path(__file__).resolve().parents[2] / ".ci" / "site" / "metrics_page.py"))
SERVERS = ("coordinator", "node", "dispatcher", "worker")
NOT_BASE = {
    "s", "sec", "secs", "ms", "us", "ns", "millis", "milliseconds", "microseconds", "minutes", "hours", "days",
    "b", "kb", "mb", "gb", "tb", "kib", "mib", "gib", "kilobytes", "megabytes", "gigabytes", "bits", "percent", "pct",
}  # fmt: skip
UNITS = {"bytes", "seconds", "ratio"}  # or bytes_per_second
SUFFIXES = {"total", "count", "sum", "bucket", "created", "info"}  # that are the client's to add


def wrong(family: Metric) -> list[str]:
    """What is wrong with its names."""
    words = family.name.removesuffix("_per_second").split("_")
    said = []
    if not re.fullmatch(r"tfquiver(_[a-z][a-z0-9]*)+", family.name):
        said.append("not tfquiver_ and words in small letters")
    if short := NOT_BASE & set(words):
        said.append(f"{short}: a base unit, in full")
    if SUFFIXES & {words[-1]}:
        said.append(f"_{words[-1]} is added by the client")
    if family.type == "histogram" and words[-1] not in UNITS:
        said.append("a histogram of what unit")
    at = [place for place, word in enumerate(words) if word in UNITS]
    if at and words[at[-1]] != words[-1]:
        said.append("a unit is the last word")
    if not family.documentation.endswith("."):
        said.append("no sentence says what it is")
    for sample in family.samples:
        labels = set(sample.labels) - {"le"}
        if not all(re.fullmatch(r"[a-z][a-z_]*", label) and label not in words for label in labels):
            said.append(f"labels {labels}: small letters, and not said twice")
        if (family.type == "counter") != sample.name.endswith("_total"):
            said.append(f"{sample.name}: _total says that it counts, and that alone")
    return said


def found(families: Iterable[Metric]) -> dict[str, list[str]]:
    return {family.name: said for family in families if (said := wrong(family))}


@pytest.mark.parametrize("server", SERVERS)
def test_what_servers_tell_is_named_as_is_usual(server: str) -> None:
    families = PAGE["told"](server)
    assert {"tfquiver_event_loop_lag_seconds", "tfquiver_rpc_seconds"} <= {family.name for family in families}
    assert not found(families)


@pytest.mark.parametrize(
    "family",
    [
        GaugeMetricFamily("tfquiver_wait_ms", "A wait.", value=1),
        GaugeMetricFamily("tfquiver_job_bytes_per_s", "A rate.", value=1),
        GaugeMetricFamily("tfquiver_bytes_stored", "Bytes.", value=1),
        GaugeMetricFamily("quiver_nodes", "Nodes.", value=1),
        GaugeMetricFamily("tfquiver_Nodes", "Nodes.", value=1),
        GaugeMetricFamily("tfquiver_nodes_total", "Nodes.", value=1),
        GaugeMetricFamily("tfquiver_nodes", "", value=1),
        CounterMetricFamily("tfquiver_read_kb", "Read.", value=1),
        HistogramMetricFamily("tfquiver_wait", "Waits.", buckets=[("1", 1), ("+Inf", 1)], sum_value=1),
    ],
    ids=lambda family: f"{family.type}-{family.name}",
)
def test_a_name_that_is_not_is_found(family: Metric) -> None:
    assert wrong(family)
