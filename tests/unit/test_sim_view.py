"""What `tfquiver sim` says beside its table."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tfquiver.cli.main import main


def simulated(path: Path, capsys: pytest.CaptureFixture[str], **recorded: object) -> str:
    job: dict[str, Any] = {"name": "a", "dataset": "d", "reads_per_s": "10MB", "epochs": 2}
    if recorded:
        job["recorded"] = {"read_bytes": 2_000_000_000, "missed_bytes": 1_000_000_000} | recorded
    trace = {"datasets": {"d": "1GB"}, "jobs": [job]}
    path.write_text(json.dumps({"cluster": {"accelerators": 1, "cache": "1GB"}, "trace": trace}))
    assert main(["sim", str(path)]) == 0
    return " ".join(capsys.readouterr().out.split())


def test_why_there_is_no_line_of_what_was_recorded(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "week.json"
    whole = simulated(path, capsys, began_before=False, ended_s=250.0)
    assert whole.startswith("1 job scheduler") and "(recorded) 4.2 min" in whole and "No line" not in whole
    for cut_off in ({"began_before": True, "ended_s": 250.0}, {"began_before": False, "ended_s": None}):
        told = simulated(path, capsys, **cut_off)
        assert "No line (recorded): 1 of 1 job read before the recording began, or still read when it ended" in told
    assert "recorded" not in simulated(path, capsys)
