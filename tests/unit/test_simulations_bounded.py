"""What would take hours or gigabytes to simulate is refused, and nothing grows with how long is simulated."""

from __future__ import annotations

import json
from math import nan
from pathlib import Path
from typing import Any

import pytest

from tests.unit.flow_world import SIZE, SPEED
from tfquiver import errors
from tfquiver.cli.main import main
from tfquiver.cli.sim_plan_trace_commands import limits_of_patience, sim
from tfquiver.cli.sim_plan_trace_commands.limits_of_patience import MOST_S, Patience
from tfquiver.clock import ManualClock
from tfquiver.service.sim.job_queue_rates_store_bandwidth import samples
from tfquiver.service.sim.job_queue_rates_store_bandwidth.samples import Sample, Samples

FOR_EVER = {
    "cluster": {"accelerators": 1, "cache": SIZE},
    "replan_s": 1,
    "trace": {
        "datasets": {"data": SIZE},
        "jobs": [{"name": "a", "dataset": "data", "reads_per_s": 1000, "epochs": 800_000, "submit_s": 1.7e9}],
    },
}  # fmt: skip


def after(seconds: float, part: float, patience: Patience, clock: ManualClock) -> None:
    clock.advance(seconds)
    patience.look(1000.0 + part * 500.0)


def patient(simulations: int = 1, anyway: bool = False) -> tuple[Patience, ManualClock]:
    clock = ManualClock(7.0)
    patience = Patience(simulations, anyway, clock)
    patience.begin("fifo, lru", 1000.0, 500.0)
    return patience, clock


def test_what_takes_hours_is_refused_when_that_is_seen() -> None:
    patience, clock = patient()
    after(19.0, 0.001, patience, clock)
    with pytest.raises(errors.ResourceExhaustedError) as raised:
        after(2.0, 0.001, patience, clock)
    said = str(raised.value)
    assert said.startswith(
        "fifo, lru: this takes at least 5.8 h (0.5 s of at least 8.3 min are simulated after 21.0 s)"
    )
    assert said.endswith("--anyway goes on nevertheless")
    patience, clock = patient(anyway=True)
    after(1e6, 0.0, patience, clock)


def test_the_others_that_follow_count_too() -> None:
    patience, clock = patient(3)
    after(100.0, 0.09, patience, clock)
    after(900.0, 1.0, patience, clock)
    patience.begin("fifo, quiver", 1000.0, 500.0)
    assert patience.simulated_s == 0.0
    patience, clock = patient(4)
    with pytest.raises(errors.ResourceExhaustedError, match=r"at least 74\.1 min for all 4"):
        after(100.0, 0.09, patience, clock)


def test_what_has_come_far_is_let_go_on_but_not_without_end() -> None:
    patience, clock = patient()
    after(500.0, 0.5, patience, clock)
    after(1000.0, 0.5, patience, clock)
    after(2000.0, 1.0, patience, clock)
    with pytest.raises(errors.ResourceExhaustedError, match="this takes at least 61"):
        after(MOST_S - 3400.0, 1.5, patience, clock)


def test_where_time_stands_still_it_takes_very_long() -> None:
    patience, clock = patient()
    with pytest.raises(errors.ResourceExhaustedError, match="this takes very long"):
        after(30.0, 0.0, patience, clock)


def test_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    patience, clock = patient()
    after(2.0, 0.5, patience, clock)
    monkeypatch.setattr(limits_of_patience, "MOST_BYTES", 1)
    with pytest.raises(errors.ResourceExhaustedError, match="it takes more than 1 B of memory"):
        after(2.0, 0.5, patience, clock)


@pytest.mark.parametrize("command", ["sim", "plan"])
def test_the_commands_end(
    command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(limits_of_patience, "JUDGED_FROM_S", 0.0)
    monkeypatch.setattr(limits_of_patience, "_LOOK_S", 0.05)
    path = tmp_path / "for_ever.json"
    path.write_text(json.dumps(FOR_EVER))
    assert main([command, str(path)]) == 1
    said = capsys.readouterr().err
    assert "of at least 9259.3 d are simulated" in said and "--anyway goes on" in said


@pytest.mark.parametrize(
    ("text", "said"),
    [("[" + 30 * "[]," + "0]", ": more than 40 values"), ('["' + 300 * "x" + '"]', ": larger than 0 MiB")],
)
def test_files_that_hold_too_much(
    text: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sim, "_MOST_BYTES", 200)
    monkeypatch.setattr(sim, "_MOST_VALUES", 40)
    path = tmp_path / "much.json"
    path.write_text(text)
    assert main(["sim", str(path)]) == 1
    assert said in capsys.readouterr().err


def test_a_file_without_end(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(sim, "_MOST_BYTES", 1 << 20)
    assert main(["sim", "/dev/zero"]) == 1
    assert "/dev/zero: larger than 1 MiB" in capsys.readouterr().err


def test_a_policy_that_is_there_twice(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "twice.json"
    job: dict[str, Any] = {"name": "a", "dataset": "d", "reads_per_s": SPEED, "epochs": 1}
    made = {"cluster": {"accelerators": 1, "cache": 0}, "trace": {"datasets": {"d": SIZE}, "jobs": [job]}}
    path.write_text(json.dumps(made | {"policies": ["lru", "none", "lru"]}))
    assert main(["sim", str(path)]) == 1
    assert "policies: 'lru' is there twice" in capsys.readouterr().err
    path.write_text(json.dumps(made))
    assert main(["sim", str(path), "--policy", "lru", "--policy", "lru", "--json"]) == 0
    assert len(json.loads(capsys.readouterr().out)["runs"]) == 1


def sample(at_s: float, fairness: float) -> Sample:
    return Sample(at_s, fairness, at_s, 0.0, 0.0, 0.0, 0, 0)


def test_of_many_samples_some_are_kept_and_all_count(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(samples, "MOST_SAMPLES", 10)
    seen = Samples()
    assert list(seen.kept) == [] and seen.fairness != seen.fairness
    fair = [nan if at % 7 == 3 else float(at % 5) for at in range(100)]
    for at, fairness in enumerate(fair):
        seen.add(sample(float(at), fairness))
    assert [one.at_s for one in seen.kept] == [*range(0, 97, 16), 99.0]
    counted = [one for one in fair[:-1] if one == one]
    assert seen.fairness == pytest.approx(sum(counted) / len(counted))
