"""Scenario and trace files: what cannot be is refused by the field's name; drawn traces have the published shape."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

import pytest

from tests.support import other_package
from tfquiver import errors
from tfquiver.cli.main import main
from tfquiver.cli.sim_plan_trace_commands import trace
from tfquiver.service.coordinator.policies import registry
from tfquiver.service.coordinator.policies.views_and_plans.interface import ClusterView, Plan
from tfquiver.service.sim.workloads_and_recordings import files, traces
from tfquiver.service.sim.workloads_and_recordings.recording import Recorder


def good() -> dict[str, Any]:
    return {
        "cluster": {"accelerators": 2, "cache": "1GiB", "store_per_s": "10MB"},
        "policies": ["none", "silod_greedy"],
        "trace": {
            "datasets": {"images": "2GiB", "text": 10**9},
            "jobs": [
                {"name": "a", "dataset": "images", "reads_per_s": "20MB", "epochs": 3,
                 "window": "96MiB"},
                {"name": "b", "dataset": "text", "reads_per_s": 5e6, "epochs": 0.5, "submit_s": 60, "accelerators": 2,
                 "curriculum": {"starting_part": 0.1, "growth": 2, "step_epochs": 0.1}},
            ],
        },
    }  # fmt: skip


BAD = [
    (("cluster",), None, "cluster: missing"),
    (("cluster", "accelerators"), 0, "cluster.accelerators: '0'"),
    (("cluster", "accelerators"), 1.5, "cluster.accelerators"),
    (("cluster", "accelerators"), True, "cluster.accelerators"),
    (("cluster", "cache"), "much", "cluster.cache: not a size"),
    (("cluster", "cache"), -1, "cluster.cache"),
    (("cluster", "cahce\n"), 1, "cluster.'cahce\\n': unknown"),
    (("cluster", "cahce"), 1, "cluster.cahce: unknown"),
    (("cluster", "store_per_s"), "0MB", "cluster.store_per_s"),
    (("cluster", "cache"), 10**400, "cluster.cache"),
    (("cluster", "store_per_s"), "2PiB", "cluster.store_per_s: '2PiB': at most"),
    (("trace", "jobs", 0, "reads_per_s"), 2**51, "trace.jobs[0].reads_per_s: '2251799813685248': at most"),
    (("policies",), [], "policies"),
    (("least_gap_s",), -(10**400), "least_gap_s"),
    (("replan_s",), 1e300, "replan_s"),
    (("trace", "datasets"), {}, "trace.datasets"),
    (("trace", "datasets", "text"), 0, "trace.datasets.text"),
    (("trace", "jobs"), {}, "trace.jobs"),
    (("trace", "jobs", 0, "dataset"), "video", "trace.jobs[0].dataset: 'video' is not among datasets"),
    (("trace", "jobs", 0, "epochs"), None, "trace.jobs[0].epochs: missing"),
    (("trace", "jobs", 0, "epochs"), 0, "trace.jobs[0].epochs"),
    (("trace", "jobs", 0, "epochs"), float("nan"), "trace.jobs[0].epochs"),
    (("trace", "jobs", 0, "epochs"), 1e-10, "trace.jobs[0].epochs: of 2.1 GB that is less than one"),
    (("trace", "jobs", 0, "reads_per_s"), "-1MB", "trace.jobs[0].reads_per_s"),
    (("trace", "jobs", 1, "name"), "a", "trace.jobs[1].name: 'a' is there twice"),
    (("trace", "jobs", 1, "accelerators"), 3, "trace.jobs[1].accelerators"),
    (("trace", "jobs", 1, "submit_s"), -1, "trace.jobs[1].submit_s"),
    (("trace", "jobs", 1, "curriculum", "step_epochs"), 1e-300, "trace.jobs[1].curriculum.step_epochs"),
    (("trace", "jobs", 1, "curriculum", "growth"), 0.5, "trace.jobs[1].curriculum.growth"),
    (("trace", "datasets", ""), 5, "trace.datasets.'': a name has 1 to 200 characters"),
    (("trace", "datasets", "a" * 201), 5, f"trace.datasets.'{'a' * 60}...': a name has 1 to 200 characters"),
    (("trace", "generate"), {}, "trace.generate: there are datasets or jobs beside it"),
    (("trace",), {"generate": {"seed": -1}}, "trace.generate.seed"),
    (("trace",), {"generate": {"weeks": 1e9}}, "trace.generate.weeks"),
    (("trace",), {"generate": {"load": 1e-9, "weeks": 0.01}}, "trace.generate: this makes 0 jobs"),
    (("trace",), [], "trace: not a JSON object"),
    (("sees",), "little", "sees: 'little' is neither all nor measured"),
    (("trace", "datasets", "text"), {"size": 5, "shards": 1, "records": 1}, "trace.datasets.text.disk: missing"),
    (("trace", "datasets", "text"), {"size": 5, "disk": -5, "shards": 1, "records": 1}, "trace.datasets.text.disk"),
    (("trace", "datasets", "text"), {"size": 5, "disk": 5, "shards": 0, "records": 1}, "trace.datasets.text.shards"),
    (("trace", "jobs", 0, "window"), 0, "trace.jobs[0].window"),
    (("trace", "jobs", 0, "recorded"), {"read_bytes": -1}, "trace.jobs[0].recorded.read_bytes"),
    (("trace", "jobs", 0, "recorded"), {"read_bytes": 1}, "trace.jobs[0].recorded.missed_bytes: missing"),
    (
        ("trace", "jobs", 0, "recorded"),
        {"read_bytes": 1, "missed_bytes": 1, "ended_s": float("inf")},
        "trace.jobs[0].recorded.ended_s",
    ),
    (
        ("trace", "jobs", 0, "recorded"),
        {"read_bytes": 1, "missed_bytes": 1, "began_before": 1},
        "trace.jobs[0].recorded.began_before: neither true nor false",
    ),
]


@pytest.mark.parametrize(("path", "value", "said"), BAD, ids=lambda value: str(value)[:40])
def test_what_cannot_be_is_named(path: tuple[Any, ...], value: Any, said: str) -> None:
    data: Any = good()
    at = data
    for step in path[:-1]:
        at = at[step]
    if value is None:
        del at[path[-1]]
    else:
        at[path[-1]] = value
    with pytest.raises(errors.InvalidArgumentError) as raised:
        files.scenario(data)
    assert said in str(raised.value)
    assert str(raised.value).count(said.partition(":")[0]) == 1, "a field is named once"


def test_more_jobs_than_there_is_room_for_are_refused_before_one_is_drawn() -> None:
    data = good()
    data["cluster"]["accelerators"], data["trace"] = 10_000_000, {"generate": {"load": 100, "weeks": 520}}
    with pytest.raises(errors.InvalidArgumentError, match=r"^trace\.generate: this makes about 2,[0-9,]{15} jobs of"):
        files.scenario(data)


def test_each_of_many_data_sets_is_not_compared_with_all_others() -> None:
    """Of a hundred thousand it took minutes, before anything was simulated."""

    class Name(str):
        compared = 0
        __hash__ = str.__hash__

        def __eq__(self, other: object) -> bool:
            Name.compared += 1
            return str.__eq__(self, other)

    data = good()
    data["trace"]["datasets"] |= {Name(f"data {at}"): 1 for at in range(1000)}
    assert len(files.scenario(data).trace.datasets) == 1002  # type: ignore[union-attr]
    assert Name.compared < 10_000


class Fails:
    """A policy of another package."""

    def plan(self, view: ClusterView, now: float) -> Plan:
        raise ZeroDivisionError("out of ideas")


_PRINTS = """
import os
from tfquiver.service.coordinator.policies.views_and_plans.interface import Plan

print("their solver 1.0")

class Theirs:
    def plan(self, view, now):
        print("thinks")
        os.write(1, b"as libraries do")
        return Plan()
"""


@pytest.mark.slow
@pytest.mark.parametrize("command", ["sim", "plan"])
def test_what_a_policy_prints_does_not_stand_in_front_of_what_was_simulated(command: str, tmp_path: Path) -> None:
    other_package.install(tmp_path, "prints", _PRINTS, "[tfquiver.policies]\nprints = prints:Theirs\n")
    path = tmp_path / "scenario.json"
    path.write_text(json.dumps(good()))
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])}
    made = subprocess.run(
        [sys.executable, "-m", "tfquiver", command, str(path), "--policy", "prints", "--json"],
        env=env, capture_output=True, timeout=60, check=True,
    )  # fmt: skip
    assert json.loads(made.stdout)
    assert all(said in made.stderr for said in (b"their solver 1.0", b"thinks", b"as libraries do"))


@pytest.mark.parametrize("command", ["sim", "plan"])
def test_a_policy_that_fails_is_told_of_beside_what_was_simulated_without_it(
    command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    points = [EntryPoint("theirs", f"{__name__}:Fails", registry.GROUP)]
    monkeypatch.setattr(registry, "entry_points", lambda group: points)
    path = tmp_path / "scenario.json"
    path.write_text(json.dumps(good()))
    assert main([command, str(path), "--policy", "theirs"]) == 0
    assert "tfquiver: policy theirs failed: ZeroDivisionError: out of ideas (" in capsys.readouterr().err


@pytest.mark.slow
def test_a_name_may_end_with_a_zero(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """In a column of texts it would be another one's: what a policy says by column is of no job then."""
    data = good()
    data["policies"], data["trace"]["jobs"][0]["name"] = ["max_min_fair"], "a\0"
    assert run(tmp_path, data) == 0
    assert "failed" not in capsys.readouterr().err


def test_a_trace_is_read_back_as_it_was_written() -> None:
    made = files.scenario(good()).trace
    assert made is not None
    assert files.trace(json.loads(json.dumps(files.trace_json(made))), 2) == (made, None)


@pytest.mark.slow
def test_drawn_traces_have_the_published_shape_and_their_seed_makes_them() -> None:
    shape = traces.TraceShape(weeks=4.0)
    drawn = traces.generate(shape, 1)
    assert drawn == traces.generate(shape, 1) != traces.generate(shape, 2)
    minutes = [job.total_bytes / job.ideal_bytes_per_s / 60 for job in drawn.jobs]
    assert sum(10**3 <= needed <= 10**4 for needed in minutes) / len(minutes) == pytest.approx(0.2, abs=0.02)
    assert min(minutes) >= 10**1.5
    assert sum(job.accelerators == 1 for job in drawn.jobs) / len(drawn.jobs) == pytest.approx(0.7, abs=0.02)
    busy = sum(needed * 60 * job.accelerators for needed, job in zip(minutes, drawn.jobs, strict=True))
    assert busy / (400 * 4 * traces.WEEK_S) == pytest.approx(1.0, abs=0.1)
    assert len(drawn.datasets) == len(drawn.jobs)
    shared = traces.generate(traces.TraceShape(weeks=4.0, sharing=1.0), 1)
    assert set(shared.datasets) == set(traces.DATASETS)
    assert [job.total_bytes for job in shared.jobs] == [job.total_bytes for job in drawn.jobs]


def run(tmp_path: Path, data: object, *more: str) -> int:
    path = tmp_path / "scenario.json"
    path.write_text(data if isinstance(data, str) else json.dumps(data))
    return main(["sim", str(path), *more])


@pytest.mark.slow
def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    assert run(tmp_path, good()) == 0
    table = capsys.readouterr().out
    assert all(word in table for word in ("silod_greedy", "none", "(bound)", "2 jobs"))
    assert max(map(len, table.splitlines())) <= 80
    assert run(tmp_path, good(), "--json", "--policy", "lru") == 0
    told = json.loads(capsys.readouterr().out)
    assert [made["policy"] for made in told["runs"]] == ["lru"]
    assert told["runs"][0]["average_jct_s"] >= told["bound"]["average_jct_s"]


@pytest.mark.slow
@pytest.mark.parametrize("cache_bytes", [0, 1])
def test_a_cache_that_holds_nothing_is_simulated_to_the_end(cache_bytes: int, tmp_path: Path) -> None:
    data = good()
    data["cluster"]["cache"] = cache_bytes
    assert run(tmp_path, data, "--policy", "lru", "--policy", "benefit", "--policy", "static") == 0


def test_a_recording_in_which_nobody_read_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file, recorder = tmp_path / "week.json", Recorder()
    trace.write(file, recorder, 10**9, anonymous=False)
    assert "0 jobs" in trace._summary(recorder)
    assert trace._summary(recorder).endswith("nothing to simulate: record anew while jobs read")
    assert main(["sim", "--trace", str(file)]) == 1
    said = capsys.readouterr().err
    assert said.endswith("none read anything meanwhile: record anew while jobs read\n")


@pytest.mark.slow
@pytest.mark.long
def test_a_trace_of_its_own_and_a_drawn_one(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data = good()
    trace = tmp_path / "trace.json"
    trace.write_text(json.dumps({"generate": {"seed": 7, "weeks": 0.1, "load": 2}}))
    del data["trace"]
    assert run(tmp_path, data, "--trace", str(trace), "--policy", "none") == 0
    assert "drawn with seed 7" in capsys.readouterr().out
    assert run(tmp_path, data) == 1
    assert capsys.readouterr().err.endswith("while jobs read; or name one in the file, or with --trace FILE\n")


@pytest.mark.parametrize("text", ["", "[", "{}", "[" * 100_000, '{"cluster": 1}'])
def test_a_file_that_is_none(tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str) -> None:
    assert run(tmp_path, text) == 1
    assert "scenario.json: " in capsys.readouterr().err


@pytest.mark.parametrize(
    ("path", "value", "said"),
    [
        (("cluster", "store_per_s"), "1", "cluster.store_per_s: at 1 B/s the first reads alone take"),
        (("trace", "jobs", 0, "epochs"), 1e8, "job 'a': epochs and reads_per_s: at its best it takes"),
        (("trace", "jobs", 1, "submit_s"), 9e9, "jobs: from the first submission to the last end it is 285 years"),
    ],
)
def test_what_takes_longer_than_anybody_waits(
    path: tuple[Any, ...], value: Any, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data: Any = good()
    at = data
    for step in path[:-1]:
        at = at[step]
    at[path[-1]] = value
    assert run(tmp_path, data) == 1
    told = capsys.readouterr().err
    assert said in told and "at most 30 are simulated" in told


def test_a_key_that_is_there_twice(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(tmp_path, json.dumps(good()).replace('"images":', '"images": 5, "images":')) == 1
    assert "'images' is there twice" in capsys.readouterr().err


def test_unknown_names_and_no_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(tmp_path, good(), "--policy", "best") == 1
    assert "policy: 'best' is none of" in capsys.readouterr().err
    assert run(tmp_path, good(), "--scheduler", "best") == 1
    assert "scheduler: 'best' is none of" in capsys.readouterr().err
    assert main(["sim", str(tmp_path / "no.json")]) == 1
    assert "no.json" in capsys.readouterr().err


@pytest.mark.parametrize("command", ["sim", "plan"])
@pytest.mark.parametrize("field", ["policies", "schedulers"])
def test_a_name_of_the_file_is_none_of_a_flag(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], command: str, field: str
) -> None:
    """`--scheduler: 'best' is none of`, said `plan`, that has no such flag."""
    path = tmp_path / "scenario.json"
    path.write_text(json.dumps(good() | {field: ["best"]}))
    assert main([command, str(path)]) == 1
    told = capsys.readouterr().err
    assert f"scenario.json: {field}: 'best' is none of" in told and "--" not in told
    if field == "policies":
        assert main([command, str(path), "--policy", "lru"]) == 0, "in its place"
