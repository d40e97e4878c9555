"""`tfquiver sim`: what policies and schedulers would do with a cluster's jobs, before anybody pays for one."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from tfquiver import errors, named_files
from tfquiver.cli import calls, help_layout, standard_streams
from tfquiver.cli.sim_plan_trace_commands import limits_of_patience, sim_view
from tfquiver.cli.sim_plan_trace_commands.progressing import Progressing
from tfquiver.cli.sim_plan_trace_commands.sim_view import Run
from tfquiver.plain_text import plain, shortened
from tfquiver.service.coordinator.job_schedulers import registry as schedulers
from tfquiver.service.coordinator.policies import registry as policies
from tfquiver.service.sim.job_queue_rates_store_bandwidth.outcome import Bound, bound, check_end
from tfquiver.service.sim.job_queue_rates_store_bandwidth.simulation import simulate
from tfquiver.service.sim.probing_and_policies.shipping import Shipping
from tfquiver.service.sim.probing_and_policies.sight import SIGHTS
from tfquiver.service.sim.workloads_and_recordings import files
from tfquiver.service.sim.workloads_and_recordings.files import Scenario
from tfquiver.service.sim.workloads_and_recordings.workload import Workload
from tfquiver.sizes_durations_amounts.amounts import many

_ABOUT = f"""Simulates jobs that come, wait for accelerators, read and leave, with the
policies and the planner that a coordinator runs. SCENARIO.json:

{files.__doc__.split(chr(10) + chr(10), 1)[1] if files.__doc__ else ""}
policies:   {", ".join(policies.names())}
schedulers: {", ".join(schedulers.names())}"""
_WRITTEN_HOW = (
    "name a JSON file; `tfquiver sim --help` says what is in one, and `tfquiver trace record` writes one of a cluster"
)
# As text, and then as objects: of nothing but "[],[]," 64 bytes for three.
_MOST_BYTES, _MOST_VALUES = 256 << 20, 25_000_000


def add_parser(subparsers: Any) -> None:
    parser = subparsers.add_parser("sim", description=_ABOUT, formatter_class=help_layout.AsWritten)
    add_files(parser)
    parser.add_argument("--policy", action="append", metavar="NAME", help="in place of the scenario's; may be repeated")
    parser.add_argument("--scheduler", action="append", metavar="NAME", help="likewise")
    limits_of_patience.add_flag(parser)
    parser.add_argument("--json", action="store_true", help="one JSON object instead of the table")
    parser.add_argument(
        "--plot", type=named_files.typed_path, metavar="FILE", help="PNG of what was read over time (needs matplotlib)"
    )
    parser.set_defaults(run=_run)


def _run(arguments: argparse.Namespace) -> int:
    if arguments.plot:
        sim_view.check_drawing(arguments.plot)
    scenario, workload, seed = read(arguments.scenario, arguments.trace)
    check_names(
        arguments.scenario or arguments.trace,
        () if arguments.policy else scenario.policies,
        () if arguments.scheduler else scenario.schedulers,
    )
    scenario = replace(
        scenario,
        policies=tuple(dict.fromkeys(arguments.policy or scenario.policies)),
        schedulers=tuple(dict.fromkeys(arguments.scheduler or scenario.schedulers)),
    )
    with standard_streams.for_what_comes_of_it():
        runs = list(_simulated(scenario, workload, arguments.anyway))
    least = bound(workload, scenario.cluster)
    if arguments.plot:
        sim_view.draw(runs, arguments.plot)
    if arguments.json:
        recorded_s = [job.recorded_jct_s for job in workload.jobs]
        print(json.dumps(_json(runs, least, seed) | {"recorded_jct_s": recorded_s}))
    else:
        sim_view.show(runs, least, seed, workload, calls.console())
    return 0


def add_files(parser: argparse.ArgumentParser, more: str = "") -> None:
    what = f"default: what --trace names{more}"
    parser.add_argument("scenario", nargs="?", type=named_files.typed_path, metavar="SCENARIO.json", help=what)
    what = "jobs and data sets in place of the scenario's; may be one that `tfquiver trace record` has written"
    parser.add_argument("--trace", type=named_files.typed_path, metavar="FILE", help=what)


def read(path: Path | None, trace: Path | None) -> tuple[Scenario, Workload, int | None]:
    """With the seed that the jobs were drawn with, if so. Raises TfquiverError naming file and field."""
    flag, named = "", "" if path is None else "; or name one in the file, or with --trace FILE"
    if path is None:
        if trace is None:
            raise errors.InvalidArgumentError("which jobs? give a SCENARIO.json, or --trace FILE")
        path, trace, flag = trace, None, "--trace="
    scenario = _named(path, files.scenario, _loaded(path, flag))
    workload, seed = scenario.trace, scenario.seed
    if trace:
        accelerators = scenario.cluster.accelerators
        workload, seed = _named(trace, lambda data: _its_trace(data, accelerators), _loaded(trace, "--trace="))
    if workload is None:
        raise errors.InvalidArgumentError(
            f"{path}: trace: missing, so there are no jobs in it; where `tfquiver trace record` has written it, none "
            f"read anything meanwhile: record anew while jobs read{named}"
        )
    return scenario, workload, seed


def check_names(path: Path, its_policies: Sequence[str], its_schedulers: Sequence[str]) -> None:
    """Those that the file at `path` names, and no flag. Raises InvalidArgumentError naming file and field."""
    fields = ("policies", its_policies, policies.names()), ("schedulers", its_schedulers, schedulers.names())
    for field, given, there in fields:
        for name in given:
            if name not in there:
                raise errors.InvalidArgumentError(f"{path}: {field}: {shortened(name)} is none of {', '.join(there)}")


def _its_trace(data: object, accelerators: int) -> tuple[Workload, int | None]:
    """Of a trace, or of a scenario that has one: what was recorded is a whole one."""
    if isinstance(data, dict) and "trace" in data:
        return files.trace(data["trace"], accelerators, "trace")
    return files.trace(data, accelerators)


def _simulated(scenario: Scenario, workload: Workload, anyway: bool) -> Iterator[Run]:
    """All names are looked up before the first begins."""
    pairs = [
        (scheduler, policy, schedulers.make(scheduler), Shipping(policy))
        for scheduler in scenario.schedulers
        for policy in scenario.policies
    ]
    check_end(workload, scenario.cluster)
    least_s, first_s = bound(workload, scenario.cluster).makespan_s, min(job.submit_s for job in workload.jobs)
    patience = limits_of_patience.Patience(len(pairs), anyway)
    with Progressing(len(workload.jobs)) as bar:
        for name, policy_name, scheduler, policy in pairs:
            patience.begin(f"{name}, {policy_name}", first_s, least_s)
            bar.begin(f"{name}, {policy_name}", lambda: patience.simulated_s, least_s)
            outcome = simulate(
                workload, scenario.cluster, policy, scheduler,
                replan_s=scenario.replan_s, least_gap_s=scenario.least_gap_s, sight=SIGHTS[scenario.sees],
                progress=bar.ended, look=patience.look,
            )  # fmt: skip
            warn(policy)
            yield Run(name, policy_name, outcome)


def warn(policy: Shipping) -> None:
    """Of a policy that fails the plan before goes on, as in a coordinator, where the log says so."""
    if policy.failures:
        print(
            f"tfquiver: {plain(policy.failure)} ({many(policy.failures, 'time')}; the plan before stayed)",
            file=sys.stderr,
        )


def _named(path: Path, parse: Any, data: object) -> Any:
    try:
        return parse(data)
    except errors.InvalidArgumentError as error:
        raise errors.InvalidArgumentError(f"{path}: {error}") from error


def _loaded(path: Path, flag: str) -> object:
    """`flag`: before its name in errors. Raises NotFoundError, PermissionError_ or InvalidArgumentError, naming it."""
    what = f"{flag}{path}"
    try:
        with path.open("rb") as file:  # which may be a pipe, or have no end
            data = file.read(_MOST_BYTES + 1)
        if len(data) > _MOST_BYTES:
            raise errors.InvalidArgumentError(f"{what}: larger than {_MOST_BYTES >> 20} MiB")
        if sum(map(data.count, (b",", b"[", b"{"))) > _MOST_VALUES:
            raise errors.InvalidArgumentError(f"{what}: more than {_MOST_VALUES:,} values")
        text = data.decode()
        del data
        return json.loads(text, object_pairs_hook=_once)
    except IsADirectoryError as error:
        raise errors.InvalidArgumentError(f"{what}: is a directory: {_WRITTEN_HOW}") from error
    except OSError as error:
        raise named_files.not_read(error, what, path) from error
    except (ValueError, RecursionError) as error:  # not JSON, or not UTF-8
        raise errors.InvalidArgumentError(f"{what}: not JSON ({error}): {_WRITTEN_HOW}") from error


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Of a key that is there twice JSON's readers take the last one, and a data set is silently another."""
    made = dict[str, Any]()
    for key, value in pairs:
        if key in made:
            raise ValueError(f"{shortened(key)} is there twice in one object")
        made[key] = value
    return made


def _json(runs: list[Run], least: Bound, seed: int | None) -> dict[str, Any]:
    return {
        "seed": seed,
        "bound": {
            "average_jct_s": least.average_jct_s, "makespan_s": least.makespan_s, "store_bytes": least.store_bytes,
        },
        "runs": [run.as_json() for run in runs],
    }  # fmt: skip
