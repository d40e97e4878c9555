"""Scenario and trace files: JSON objects whose every field is checked and named when it cannot be. Pure.

    {"cluster": {"accelerators": 8, "cache": "2TiB", "store_per_s": "200MB"},
     "policies": ["benefit", "lru"],
     "trace": {"datasets": {"images": "1.36TiB"},
               "jobs": [{"name": "a", "dataset": "images",
                         "reads_per_s": "114MB", "epochs": 13}]}}

`reads_per_s` is what a job reads where it never waits for data. A job may
also have `accelerators` (1), `submit_s` (0: when it comes), `curriculum`, and
`window` (what its readers ask the store for at a time: a store that gives
less than all want is shared by these; by jobs where none has one). A
curriculum samples a first part of the records, which grows with every step,
and is {"starting_part": 0.04, "growth": 1.9, "step_epochs": 0.5}. A data
set's size is that of its records; one that takes more on the disks is
{"size": "1.36TiB", "disk": "1.37TiB", "shards": 713000, "records": 13600000}.
`policies` (benefit), `schedulers` (fifo), `replan_s` (600) and `least_gap_s`
(0) may be left out; without `store_per_s` the store has no limit. `sees`:
"measured" shows policies what a running coordinator knows (all). Jobs can be
drawn: "trace": {"generate": {"seed": 1, "weeks": 4}}, also `load` (1: all
accelerators are wanted all the time), `sharing` (0: part of the jobs that
read a common data set), `speed` (1: of an accelerator, in V100s).
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf
from typing import Literal

from tfquiver import errors
from tfquiver.plain_text import shortened
from tfquiver.service.sim.workloads_and_recordings.fields import Fields
from tfquiver.service.sim.workloads_and_recordings.trace_files import MOST_S, trace, trace_json
from tfquiver.service.sim.workloads_and_recordings.workload import Cluster, Workload

__all__ = ["Scenario", "cluster_of", "scenario", "trace", "trace_json"]

_MOST_ACCELERATORS = 10_000_000
Sees = Literal["all", "measured"]


@dataclass(frozen=True, slots=True)
class Scenario:
    cluster: Cluster
    policies: tuple[str, ...]
    schedulers: tuple[str, ...]
    replan_s: float
    least_gap_s: float
    sees: Sees  # of jobs: all at once, or what a running coordinator knows
    trace: Workload | None  # None: the file has none
    seed: int | None  # with which the trace was drawn


def scenario(data: object) -> Scenario:
    """Raises InvalidArgumentError naming the field."""
    top = Fields(data, "", ("cluster", "policies", "schedulers", "replan_s", "least_gap_s", "sees", "trace"))
    cluster = cluster_of(top.get("cluster"), "cluster")
    given = top.get("trace", None)
    made, seed = (None, None) if given is None else trace(given, cluster.accelerators, "trace")
    return Scenario(
        cluster,
        top.names("policies", ("benefit",)),
        top.names("schedulers", ("fifo",)),
        top.number("replan_s", 1.0, MOST_S, 600.0),
        top.number("least_gap_s", 0.0, MOST_S, 0.0),
        _sees(top),
        made,
        seed,
    )


def _sees(top: Fields) -> Sees:
    said = top.get("sees", "all")
    if said not in ("all", "measured"):
        raise errors.InvalidArgumentError(f"{top.path('sees')}: {shortened(str(said))} is neither all nor measured")
    return "measured" if said == "measured" else "all"


def cluster_of(data: object, where: str) -> Cluster:
    asked = Fields(data, where, ("accelerators", "cache", "store_per_s"))
    store = asked.rate("store_per_s") if "store_per_s" in asked.given else inf
    return Cluster(asked.integer("accelerators", 1, _MOST_ACCELERATORS), asked.size("cache", least=0), store)
