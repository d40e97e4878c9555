"""A bench's last line is JSON for any reader, also where what was waited for never came."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from tests.bench.bars import Bar, finish, run_bench


def test_what_never_came_about_is_missed_and_null(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        finish("one", {"after_s": [float("inf")]}, [Bar("s until then", float("inf"), 60, True)], quick=False)
    assert ended.value.code == 1
    last = capsys.readouterr().out.splitlines()[-1]
    told = json.loads(last, parse_constant=lambda word: pytest.fail(f"{word} is not JSON"))
    assert told["bars"]["s until then"] == {"figure": None, "at_most": 60, "met": False}
    assert told["figures"] == {"after_s": [None]}
    assert not told["ok"]


def test_no_number_at_all_meets_no_bar(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        finish("one", {}, [Bar("ratio", float("nan"), 1)], quick=False)
    assert ended.value.code == 1
    assert json.loads(capsys.readouterr().out.splitlines()[-1])["bars"]["ratio"]["figure"] is None


def test_what_could_not_be_tried_says_why(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        finish("one", {}, [], quick=True, skipped="PyTorch is not installed: pip install torch")
    assert ended.value.code == 0
    told = capsys.readouterr()
    assert json.loads(told.out)["skipped"] == "PyTorch is not installed: pip install torch"
    assert "skipped: PyTorch is not installed" in told.err


def test_what_failed_is_in_the_last_line(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["/x/tests/bench/one.py", "--quick"])

    def main() -> None:
        print("so far")
        error = TimeoutError("jobs have not ended")
        error.add_note("job a")
        raise ExceptionGroup("of a task group", [error, ValueError("b")])

    with pytest.raises(SystemExit) as ended:
        run_bench(main)
    assert ended.value.code == 1
    told = capsys.readouterr()
    last = json.loads(told.out.splitlines()[-1])
    assert (last["bench"], last["quick"], last["ok"]) == ("one", True, False)
    assert last["failed"] == "TimeoutError: jobs have not ended (job a); ValueError: b"
    assert "Traceback" in told.err and "in main" in told.err


def test_what_a_bench_says_itself_stays(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        run_bench(lambda: finish("one", {}, [Bar("ratio", 2, 1)], quick=False))
    assert ended.value.code == 0
    assert json.loads(capsys.readouterr().out)["ok"]

    def interrupted() -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_bench(interrupted)


def test_every_bench_says_what_failed() -> None:
    benches = Path(__file__).parents[1] / "bench"
    silent = [
        path.name
        for path in benches.glob("*.py")
        if path.name not in ("bars.py", "run_all.py") and "__main__" in (text := path.read_text())
        if not text.endswith("    run_bench(main)\n") or "sys.exit(" in text
    ]
    assert not silent
