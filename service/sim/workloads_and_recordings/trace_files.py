"""The jobs and data sets of a trace, read from JSON, drawn, and written. Pure; files.py says what they look like."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, fields
from typing import Any

from tfquiver import errors
from tfquiver.plain_text import shortened
from tfquiver.service.sim.workloads_and_recordings.fields import LONGEST_NAME, Fields, is_name
from tfquiver.service.sim.workloads_and_recordings.traces import TraceShape, expected_jobs, generate
from tfquiver.service.sim.workloads_and_recordings.workload import Pacing, Recorded, SimJob, Stored, Workload
from tfquiver.sizes_durations_amounts.amounts import many, of_bytes

MOST_JOBS = 1_000_000
MOST_S = 1e10  # ten billion seconds are 300 years
_LEAST_STEP_EPOCHS = 1e-6
_MOST_EPOCHS = 1e9
_MOST_WEEKS, _MOST_SEED = 520.0, 2**63 - 1
_MOST = 2**50  # shards, and records
_LEAST_BYTES = 0.5  # one, when epochs are rounded


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
    named = Fields(sizes, top.path("datasets"), sizes)  # as a list each would be looked for among all
    datasets, stored = dict[str, int](), dict[str, Stored]()
    for name, said in sizes.items():
        if not is_name(name):
            raise errors.InvalidArgumentError(f"{named.path(name)}: a name has 1 to {LONGEST_NAME} characters")
        if isinstance(said, dict):
            datasets[name], stored[name] = _stored(said, named.path(name))
        else:
            datasets[name] = named.size(name)
    asked = top.get("jobs")
    if not isinstance(asked, list) or not 0 < len(asked) <= MOST_JOBS:
        raise errors.InvalidArgumentError(f"{top.path('jobs')}: not a list of 1 to {MOST_JOBS} jobs")
    jobs = tuple(_job(job, f"{top.path('jobs')}[{at}]", datasets, accelerators) for at, job in enumerate(asked))
    seen: set[str] = set()
    for at, job in enumerate(jobs):
        if job.name in seen:
            raise errors.InvalidArgumentError(f"{top.path('jobs')}[{at}].name: {shortened(job.name)} is there twice")
        seen.add(job.name)
    return Workload(datasets, jobs, stored), None


def trace_json(workload: Workload) -> dict[str, Any]:
    """What `trace` reads back as this workload."""
    datasets: dict[str, Any] = dict(workload.datasets)
    for name, stored in workload.stored.items():
        datasets[name] = {"size": datasets[name], "disk": stored.disk_bytes, "shards": stored.shards} | {
            "records": stored.records
        }
    return {"datasets": datasets, "jobs": [_job_json(job, workload) for job in workload.jobs]}


def _stored(data: object, where: str) -> tuple[int, Stored]:
    asked = Fields(data, where, ("size", "disk", "shards", "records"))
    shards, records = asked.integer("shards", 1, _MOST), asked.integer("records", 1, _MOST)
    return asked.size("size"), Stored(asked.size("disk"), shards, records)


def _job(data: object, where: str, datasets: Mapping[str, int], accelerators: int) -> SimJob:
    names = ("name", "dataset", "reads_per_s", "epochs", "accelerators", "submit_s", "curriculum", "recorded", "window")
    asked = Fields(data, where, names)
    dataset = asked.text("dataset")
    if dataset not in datasets:
        raise errors.InvalidArgumentError(f"{asked.path('dataset')}: {shortened(dataset)} is not among datasets")
    size = datasets[dataset]
    total_bytes = size * asked.number("epochs", 0.0, _MOST_EPOCHS, above=True)
    if total_bytes < _LEAST_BYTES:
        raise errors.InvalidArgumentError(f"{asked.path('epochs')}: of {of_bytes(size)} that is less than one")
    return SimJob(
        asked.text("name"),
        dataset,
        asked.rate("reads_per_s"),
        total_bytes,
        asked.integer("accelerators", 1, accelerators, 1),
        asked.number("submit_s", 0.0, MOST_S, 0.0),
        _pacing(asked.get("curriculum"), asked.path("curriculum"), size) if "curriculum" in asked.given else None,
        _recorded(asked.get("recorded"), asked.path("recorded")) if "recorded" in asked.given else None,
        asked.size("window") if "window" in asked.given else None,
    )


def _recorded(data: object, where: str) -> Recorded:
    asked = Fields(data, where, ("read_bytes", "missed_bytes", "began_before", "ended_s"))
    began_before = asked.get("began_before", False)
    if not isinstance(began_before, bool):
        raise errors.InvalidArgumentError(f"{asked.path('began_before')}: neither true nor false")
    ended_s = asked.get("ended_s", None)
    return Recorded(
        asked.size("read_bytes", 0),
        asked.size("missed_bytes", 0),
        began_before,
        None if ended_s is None else asked.number("ended_s", 0.0, MOST_S),
    )


def _pacing(data: object, where: str, size: int) -> Pacing:
    asked = Fields(data, where, ("starting_part", "growth", "step_epochs"))
    starting = asked.number("starting_part", 0.0, 1.0, above=True)
    step_epochs = asked.number("step_epochs", _LEAST_STEP_EPOCHS, _MOST_EPOCHS)
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
    if job.recorded:
        made["recorded"] = asdict(job.recorded)
    if job.window_bytes is not None:
        made["window"] = job.window_bytes
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
    # Before any is made: of a slip in a unit it would be more than a machine's memory has room for.
    if (jobs := expected_jobs(shape)) > MOST_JOBS:
        what = f"about {jobs:,.0f} jobs of {many(accelerators, 'accelerator')}; at most {MOST_JOBS:,}"
        raise errors.InvalidArgumentError(f"{where}: this makes {what}: change weeks or load")
    made = generate(shape, seed)
    if not made.jobs:
        raise errors.InvalidArgumentError(f"{where}: this makes 0 jobs; change weeks or load")
    return made, seed
