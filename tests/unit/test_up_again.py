"""What a second `tfquiver up` in a directory knows of the first."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tfquiver.cli.up_stop_logs_clear import last_time
from tfquiver.cli.up_stop_logs_clear.last_time import Asked
from tfquiver.local_cluster import left_out
from tfquiver.local_cluster.plan import Wish
from tfquiver.node_daemon_and_notes_in_directories import up_file
from tfquiver.node_daemon_and_notes_in_directories.up_file import Given, Ports

HERE = Path("/cache")
LAST = Given(4, "50GiB", {"worker": ["--heartbeat_interval_ms=500"], "node": ["--codec=raw"]})


def test_what_is_not_given_is_as_last_time_and_people_are_told() -> None:
    made, said = last_time.wish(HERE, Asked(flags={"node": ["-codec=zstd"]}), LAST)
    assert made == Wish(HERE, 4, "50GiB", {"node": ["-codec=zstd"]})
    assert said == [
        "as last time: --workers=4 --quota=50GiB (give what shall be otherwise)",
        "without these of last time, which are to be given each time: --worker_flag=--heartbeat_interval_ms=500",
    ]


def test_what_is_given_counts() -> None:
    assert last_time.wish(HERE, Asked(0, ""), Given(4, "50GiB")) == (Wish(HERE, 0, ""), [])
    assert last_time.wish(HERE, Asked(quota="1GB"), Given(0, "50GiB")) == (
        Wish(HERE, 0, "1GB"), ["as last time: --workers=0 (give what shall be otherwise)"],
    )  # fmt: skip


def test_the_usual_values_are_not_worth_a_line() -> None:
    for last in (Given(), Given(1, "")):
        assert last_time.wish(HERE, Asked(), last) == (Wish(HERE), [])


def test_the_third_knows_what_the_second_took_from_the_first(tmp_path: Path) -> None:
    for _ in range(3):
        made, _said = last_time.wish(tmp_path, Asked(), LAST)
        up_file.write(tmp_path, Ports(1, 2, [3]), last_time.given(made))
        assert up_file.read_given(tmp_path) == Given(4, "50GiB", {})
        assert up_file.read(tmp_path) == Ports(1, 2, [3])


@pytest.mark.parametrize("given", [
    None, [], 7, {}, {"workers": 65, "quota": "", "flags": {}}, {"workers": -1, "quota": "", "flags": {}},
    {"workers": True, "quota": "", "flags": {}}, {"workers": 1, "quota": "much", "flags": {}},
    {"workers": 1, "quota": 0, "flags": {}}, {"workers": 1, "quota": [], "flags": {}},
    {"workers": 1, "quota": 5, "flags": {}}, {"workers": 1, "quota": "", "flags": [1]},
    {"workers": 1, "quota": "", "flags": {"node": 3}},
])  # fmt: skip
def test_what_cannot_be_right_counts_as_not_known_and_the_ports_stay(given: Any, tmp_path: Path) -> None:
    fields = {"version": 1, "coordinator": 1, "dispatcher": 2, "workers": [3]}
    path = tmp_path / up_file.UP_FILE
    path.write_text(json.dumps(fields | {"given": given}))
    assert up_file.read_given(tmp_path) == Given()
    assert up_file.read(tmp_path) == Ports(1, 2, [3])
    path.write_text(json.dumps(fields))
    assert up_file.read_given(tmp_path) == Given(), "an older tfquiver wrote it"


@pytest.mark.parametrize(
    ("workers", "last", "given", "gone"),
    [
        (0, Ports(1, 2, [3]), Given(1), "localhost:2"),
        (0, Ports(1, 2, [3]), Given(), "localhost:2"),  # an older tfquiver wrote it
        (0, Ports(1, 2, [3]), Given(0), ""),  # its port is kept for one that may come again
        (0, Ports(1), Given(1), ""),
        (1, Ports(1, 2, [3]), Given(1), ""),
    ],
)
def test_a_dispatcher_that_is_no_more_wanted_is_not_missed(workers: int, last: Ports, given: Given, gone: str) -> None:
    assert left_out.dispatcher(Wish(HERE, workers), last, given) == gone
