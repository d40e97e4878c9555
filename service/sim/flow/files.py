"""Scenario and trace files: JSON objects whose every field is checked and named when it cannot be. Pure.

    {"cluster": {"accelerators": 8, "cache": "2TiB", "store_per_s": "200MB"},
     "policies": ["benefit", "lru"],
     "trace": {"datasets": {"images": "1.36TiB"},
               "jobs": [{"name": "a", "dataset": "images",
                         "reads_per_s": "114MB", "epochs": 13}]}}

`reads_per_s` is what a job reads where it never waits for data. A job may also
have `accelerators` (1), `submit_s` (0: when it comes) and `curriculum`.
`policies` (benefit), `schedulers` (fifo), `replan_s` (600) and `least_gap_s` (0)
may be left out; without `store_per_s` the store has no limit. Jobs can be drawn:
"trace": {"generate": {"seed": 1, "weeks": 4}}, also `load`, `sharing`, `speed`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from math import inf
from typing import Any

from tfquiver import errors
from tfquiver.service.sim.flow.fields import Fields
from tfquiver.service.sim.flow.traces import TraceShape, generate
from tfquiver.service.sim.flow.workload import Cluster, Pacing, SimJob, Workload
from tfquiver.trust.plain_text import shortened

MOST_JOBS = 1_000_000
_MOST_ACCELERATORS = 10_000_000
_MOST_EPOCHS, _MOST_S = 1e9, 1e10  # ten billion seconds are 300 years
_MOST_WEEKS, _MOST_SEED = 520.0, 2**63 - 1


@dataclass(frozen=True, slots=True)
class Scenario:
    cluster: Cluster
    policies: tuple[str, ...]
    schedulers: tuple[str, ...]
    replan_s: float
    least_gap_s: float
    trace: Workload | None  # None: the file has none
    seed: int | None  # with which the trace was drawn


def scenario(data: object) -> Scenario:
    """Raises InvalidArgumentError naming the field."""
    top = Fields(data, "", ("cluster", "policies", "schedulers", "replan_s", "least_gap_s", "trace"))
    cluster = cluster_of(top.get("cluster"), "cluster")
    given = top.get("trace", None)
    made, seed = (None, None) if given is None else trace(given, cluster.accelerators, "trace")
    return Scenario(
        cluster,
        top.names("policies", ("benefit",)),
        top.names("schedulers", ("fifo",)),
        top.number("replan_s", 1.0, _MOST_S, 600.0),
        top.number("least_gap_s", 0.0, _MOST_S, 0.0),
        made,
        seed,
    )


def cluster_of(data: object, where: str) -> Cluster:
    asked = Fields(data, where, ("accelerators", "cache", "store_per_s"))
    store = asked.size("store_per_s") if "store_per_s" in asked.given else inf
    return Cluster(asked.integer("accelerators", 1, _MOST_ACCELERATORS), asked.size("cache", least=0), store)


def trace(data: object, accelerators: int, where: str = "") -> tuple[Workload, int | None]:
    """Jobs and data sets, and the seed if they were drawn with one. Raises InvalidArgumentError naming the field."""
    top = Fields(data, where, ("datasets", "jobs", "generate"))
    if "generate" in top.given:
        if len(top.given) > 1:
            raise errors.InvalidArgumentError(f"{top.path('generate')}: there are datasets or jobs beside it: which?")
        return _generated(top.get("generate"), top.path("generate"), accelerators)
    sizes = top.get("datasets")
    if not isinstance(sizes, dict) or not sizes:
        raise errors.InvalidArgumentError(f"{top.path('datasets')}: not an object of at least one name and size")
    named = Fields(sizes, top.path("datasets"), tuple(sizes))
    datasets = {name: named.size(name) for name in sizes}
    asked = top.get("jobs")
    if not isinstance(asked, list) or not 0 < len(asked) <= MOST_JOBS:
        raise errors.InvalidArgumentError(f"{top.path('jobs')}: not a list of 1 to {MOST_JOBS} jobs")
    jobs = tuple(_job(job, f"{top.path('jobs')}[{at}]", datasets, accelerators) for at, job in enumerate(asked))
    seen: set[str] = set()
    for at, job in enumerate(jobs):
        if job.name in seen:
            raise errors.InvalidArgumentError(f"{top.path('jobs')}[{at}].name: {shortened(job.name)} is there twice")
        seen.add(job.name)
    return Workload(datasets, jobs), None


def trace_json(workload: Workload) -> dict[str, Any]:
    """What `trace` reads back as this workload."""
    return {"datasets": dict(workload.datasets), "jobs": [_job_json(job, workload) for job in workload.jobs]}


def _job(data: object, where: str, datasets: Mapping[str, int], accelerators: int) -> SimJob:
    names = ("name", "dataset", "reads_per_s", "epochs", "accelerators", "submit_s", "curriculum")
    asked = Fields(data, where, names)
    dataset = asked.text("dataset")
    if dataset not in datasets:
        raise errors.InvalidArgumentError(f"{asked.path('dataset')}: {shortened(dataset)} is not among datasets")
    size = datasets[dataset]
    return SimJob(
        asked.text("name"),
        dataset,
        asked.size("reads_per_s"),
        size * asked.number("epochs", 0.0, _MOST_EPOCHS, above=True),
        asked.integer("accelerators", 1, accelerators, 1),
        asked.number("submit_s", 0.0, _MOST_S, 0.0),
        _pacing(asked.get("curriculum"), asked.path("curriculum"), size) if "curriculum" in asked.given else None,
    )


def _pacing(data: object, where: str, size: int) -> Pacing:
    asked = Fields(data, where, ("starting_part", "growth", "step_epochs"))
    starting = asked.number("starting_part", 0.0, 1.0, above=True)
    step_epochs = asked.number("step_epochs", 0.0, _MOST_EPOCHS, above=True)
    return Pacing(starting, asked.number("growth", 1.0, 1000.0), step_epochs * size)


def _job_json(job: SimJob, workload: Workload) -> dict[str, Any]:
    size = workload.datasets[job.dataset]
    made: dict[str, Any] = {
        "name": job.name, "dataset": job.dataset, "reads_per_s": job.ideal_bytes_per_s,
        "epochs": job.total_bytes / size, "accelerators": job.accelerators, "submit_s": job.submit_s,
    }  # fmt: skip
    if job.pacing:
        made["curriculum"] = {
            "starting_part": job.pacing.starting_part, "growth": job.pacing.growth,
            "step_epochs": job.pacing.step_bytes / size,
        }  # fmt: skip
    return made


def _generated(data: object, where: str, accelerators: int) -> tuple[Workload, int]:
    asked = Fields(data, where, ("seed", "weeks", "load", "sharing", "speed"))
    default = {field.name: field.default for field in fields(TraceShape)}
    shape = TraceShape(
        accelerators,
        asked.number("weeks", 0.0, _MOST_WEEKS, default["weeks"], above=True),
        asked.number("load", 0.0, 100.0, default["load"], above=True),
        asked.number("sharing", 0.0, 1.0, default["sharing"]),
        asked.number("speed", 0.0, 1000.0, default["speed"], above=True),
    )
    seed = asked.integer("seed", 0, _MOST_SEED, 1)
    made = generate(shape, seed)
    if not 0 < len(made.jobs) <= MOST_JOBS:
        raise errors.InvalidArgumentError(f"{where}: this makes {len(made.jobs)} jobs; change weeks or load")
    return made, seed
