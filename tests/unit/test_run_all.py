"""All benches in turn: each has its limit, is told of, and leaves nothing to the next, however it ends."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.bench import run_all

WELL = {"bench": "well", "figures": {"a": 1}, "bars": {"ratio": {"figure": 2, "at_least": 1, "met": True}}, "ok": True}
MISSED = WELL | {"bars": {"ratio": {"figure": 0, "at_least": 1, "met": False}}, "ok": False}


def says(told: dict[str, Any], code: int) -> list[str]:
    return ["sh", "-c", 'echo so far; echo "$0"; exit $1', json.dumps(told), str(code)]


def ran(*benches: tuple[str, list[str]], limit_s: float = 60, grace_s: float = 5) -> tuple[bool, list[Any], str]:
    out, say = io.StringIO(), io.StringIO()
    well = run_all.run_in_turn(benches, limit_s, out, say, grace_s)
    return well, [json.loads(line) for line in out.getvalue().splitlines()], say.getvalue()


def test_each_has_a_line_and_one_that_misses_keeps_none_from_running() -> None:
    well, lines, said = ran(("slow", says(MISSED, 1)), ("well", says(WELL, 0)))
    assert (well, lines) == (False, [MISSED, WELL])
    assert "== 2 of 2: well" in said
    assert "1 of 2 benches met all of their bars" in said
    assert "missed ratio" in said
    assert ran(("well", says(WELL, 0)))[0]


def test_one_that_lacks_a_package_is_skipped_not_met() -> None:
    skipped = {"bench": "torch", "figures": {}, "bars": {}, "ok": True, "skipped": "PyTorch is not installed"}
    well, lines, said = ran(("torch", says(skipped, 0)), ("well", says(WELL, 0)))
    assert (well, lines) == (True, [skipped, WELL])
    assert "-- torch: skipped: PyTorch is not installed" in said
    assert "1 of 2 benches met all of their bars, 1 skipped:" in said


@pytest.mark.parametrize(
    ("command", "why"),
    [
        pytest.param(["sh", "-c", "echo so far; kill -9 $$"], "ended with -9, without figures", id="killed"),
        pytest.param(["sh", "-c", "exit 0"], "ended with 0, without figures", id="nothing said"),
        pytest.param(says({"failed": "OSError: full", "bars": {}}, 1), "OSError: full", id="says why"),
        pytest.param(
            says({"passed": False, "bars": {"heap": 1.1}}, 1), "ended with 1: see its figures", id="own words"
        ),
    ],
)
def test_what_failed_is_said(command: list[str], why: str) -> None:
    well, lines, said = ran(("one", command))
    assert not well
    assert why in said
    assert isinstance(lines[0], dict)


def test_one_that_does_not_end_is_ended_with_all_that_it_started(tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    starts = f"sleep 900 & one=$!; setsid sleep 901 & echo $one $! > {pids}; sleep 902"
    well, lines, said = ran(("stuck", ["sh", "-c", starts]), ("well", says(WELL, 0)), limit_s=1, grace_s=0.2)
    assert not well
    why = "TimeoutError: not ended within 1 s"
    assert lines == [{"bench": "stuck", "figures": {}, "bars": {}, "failed": why, "ok": False}, WELL]
    assert f"stuck: {why}" in said
    assert [alive(int(pid)) for pid in pids.read_text().split()] == [False, False]


def alive(pid: int) -> bool:
    """An orphan that nobody has waited for yet is not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2][0] != "Z"
    except FileNotFoundError:
        return False


def test_one_that_is_interrupted_may_clear_up(tmp_path: Path) -> None:
    program = f"""
import pathlib, time
try:
    pathlib.Path({str(tmp_path)!r}, "begun").touch()
    time.sleep(900)
finally:
    pathlib.Path({str(tmp_path)!r}, "cleared").touch()
"""
    ran(("stuck", [sys.executable, "-S", "-c", program]), limit_s=1, grace_s=30)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["begun", "cleared"]


def test_every_bench_is_run_once() -> None:
    folder = Path(run_all.__file__).parent
    programs = {path.stem for path in folder.glob("*.py") if "__main__" in path.read_text()} - {"run_all", "bars"}
    assert sorted(run_all.benches()) == sorted(programs)


def test_a_name_that_is_none_is_refused(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["run_all", "--quick", "warm_reads"])
    with pytest.raises(SystemExit) as ended:
        run_all.main()
    assert ended.value.code == 2
    assert "no such bench: warm_reads; there are store_insert" in capsys.readouterr().err
