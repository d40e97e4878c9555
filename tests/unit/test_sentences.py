"""Sentences in a terminal."""

from __future__ import annotations

import io
from typing import Any

from rich.cells import cell_len

from tests.unit.test_status_tables import told
from tfquiver.cli import calls
from tfquiver.cli.status_asked_watched_explained import watching
from tfquiver.cli.status_tables_and_warnings import fitting, status_view

LONG = "a shard could not be kept in the quota of this node, for " * 4 + "so it is"


def test_a_line_is_broken_between_words_and_a_command_never() -> None:
    text = "jobs wait for it: `tfquiver dataset set-cache train cooperative` lets them share what there is of it"
    lines = fitting.wrapped(text, 50)
    assert lines == [
        "jobs wait for it:",
        "  `tfquiver dataset set-cache train cooperative`",
        "  lets them share what there is of it",
    ]
    assert fitting.wrapped(text, 1000) == [text]
    assert max(map(cell_len, fitting.wrapped("数据 " * 60, 40))) <= 40
    assert fitting.wrapped("", 40) == [""]


def test_of_problems_the_first_is_seen_at_least_in_part() -> None:
    assert fitting.of_problems(["one", "two"], 80) == ["! one", "! two"]
    assert fitting.of_problems(["one", "two", "three"], 80, 2) == ["! one", "! two"]
    cut = fitting.of_problems([LONG, "two"], 40, 2)
    assert len(cut) == 2 and cut[0].startswith("! a shard") and cut[1].endswith(" ...")


def of_two_names_alike() -> dict[str, Any]:
    status = told("train")
    (dataset,), (session,) = status["datasets"], status["sessions"]
    status["datasets"] = [dataset, dataset | {"digest_id": "cd" * 32}]
    measured = {"bytes_per_s": 123_456_789, "stall_share": 0.25}
    status["sessions"] = [session | measured, session | measured | {"digest_id": "cd" * 32, "job": "another"}]
    return status | {"going_on": [], "store": None, "mounts": []}


def test_two_data_sets_of_one_name_are_told_apart() -> None:
    status, out = of_two_names_alike(), io.StringIO()
    status_view.show(status | {"problems": status_view.problems(status)}, calls.console(file=out, width=80))
    printed = out.getvalue()
    for digits in ("ab" * 6, "cd" * 6):
        assert printed.count(f"train ({digits})") == 2, "in the table of jobs, and in a problem"
        assert sum(digits in line for line in printed.splitlines()) == 3, "of sessions there is room for the digits"
    assert max(len(line) for line in printed.splitlines()) <= 80
    assert "(abab" not in _printed(told("train")), "where there is one of a name it is enough"


def _printed(status: dict[str, Any]) -> str:
    out = io.StringIO()
    status_view.show(status, calls.console(file=out, width=80))
    return out.getvalue()


def test_in_a_small_terminal_problems_and_jobs_are_seen() -> None:
    status = of_two_names_alike()
    status["nodes"] = [status["nodes"][0]] * 40
    status["problems"] = [LONG] * 9
    pages = watching.Pages(lambda: status, has_keyboard=True)
    lines = pages.page(80, 24).plain.splitlines()
    assert len(lines) == 24 and max(map(len, lines)) <= 80
    assert lines[0].startswith("! a shard") and sum(line.startswith("! ") for line in lines) == 1
    assert "reads" in " ".join(lines) and sum("123 MB/s" in line for line in lines) == 2
    assert pages.page(80, 200).plain.splitlines()[-1].endswith("any key ends"), "there is room for all"
