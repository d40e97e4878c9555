"""A bench's last line is JSON for any reader, also where what was waited for never came."""

from __future__ import annotations

import json

import pytest

from tests.bench.bars import Bar, finish


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
