"""What `tfquiver explain` shows of what was measured."""

from __future__ import annotations

import io
import re
import time
from datetime import datetime
from typing import Any

import pytest
from rich.console import Console

from tfquiver.cli import calls
from tfquiver.cli.status_asked_watched_explained import explain


def shown(probes: dict[str, object] | None, **more: object) -> str:
    share = {
        "allocation": {"mode": "none", "cache_bytes": 0},
        "hit_ratio": 0.0,
        "reads_bytes_per_s": 1e6,
        "remote_bytes_per_s": 1e6,
        "limited_to_bytes_per_s": None,
    }
    told: dict[str, Any] = {
        "kind": "job",
        "name": "a",
        "policy": "benefit",
        "gets": share,
        "reasons": {},
        "refused": "",
    }
    told |= {"with_more": [], "history": []} | ({} if probes is None else {"probes": probes}) | more
    explain.show(told, Console(file=(file := io.StringIO()), width=200))
    return file.getvalue()


@pytest.mark.parametrize("width", [80, 100])
def test_nothing_is_wider_than_the_terminal(width: int) -> None:
    reason = "of many words that say why, at length, with `tfquiver dataset set-cache name 5GB` to be copied, too"
    told = finished_long_ago() | {"reasons": {"a": f"{reason} {reason}"}, "refused": reason}
    for one in (told, {"kind": "dataset", "name": "train", "decided": False}):
        explain.show(one, calls.console(file=(file := io.StringIO()), width=width))
        lines = file.getvalue().splitlines()
        assert max(map(len, lines)) <= width
        for command in re.findall("`[^`]*`", " ".join(line.strip() for line in lines)):
            assert any(command in line for line in lines), "a command is to be copied"


def test_what_columns_are_is_said_in_lines_that_one_can_read_also_in_a_pipe() -> None:
    explain.show(finished_long_ago(), console := calls.console(file=(file := io.StringIO())))
    assert console.width > 1000
    legend = file.getvalue()[file.getvalue().index("As it was measured") :]
    assert max(map(len, legend.splitlines())) <= 100


def finished_long_ago() -> dict[str, Any]:
    share = {
        "allocation": {"mode": "none", "cache_bytes": 0}, "hit_ratio": 0.0, "reads_bytes_per_s": 1e3,
        "remote_bytes_per_s": 1e3, "limited_to_bytes_per_s": None,
    }  # fmt: skip
    return {
        "kind": "job", "name": "a", "policy": "benefit", "reasons": {}, "refused": "", "gets": share, "with_more": [],
        "history": [], "finished": {"ago_s": 1e6},
    }  # fmt: skip


def test_a_probe_is_told_with_its_interval() -> None:
    benefit = {"value": 3.84, "low": 3.7, "high": 3.98}
    rates = {"hit_bytes_per_s": 3.8e6, "miss_bytes_per_s": 1e6}
    text = shown({"a": {"waits_for": "", "benefit": benefit, "basis": "hit", **rates}})
    assert "a: probed: 3.84 x as fast from the cache (3.70 to 3.98; 3.8 MB/s from the cache, 1.0 MB/s" in text
    again = shown({"a": {"waits_for": "others are being probed", "benefit": benefit, "basis": "ideal", **rates}})
    assert "not again yet: others are being probed" in again


def test_what_computing_took_is_told_of_a_derived_data_set() -> None:
    computed = {
        "shards": 10, "input_bytes": 20_000_000, "made_bytes": 30_000_000, "cpu_s": 5.0, "read_cpu_s": 0.1,
        "bytes_per_s": 1.2e7, "saved_cpu_s": 4.85, "pays": True,
    }  # fmt: skip
    assert (
        "computed, measured on 10 shards: 0.5 s of CPU for one, reading what it became 0.015 s; 3.0 MB in place of "
        "2.0 MB; one process computes 12.0 MB/s: keeping it saves 0.485 s of CPU a shard"
        in shown(None, computed=computed)
    )
    text = shown(None, computed=computed | {"saved_cpu_s": -1.0, "pays": False})
    assert "keeping it saves no CPU" in text
    assert "computed" not in shown(None, computed=None)


def test_what_is_not_known_is_not_promised() -> None:
    share: dict[str, Any] = {
        "allocation": {"mode": "uniform", "cache_bytes": 10**9},
        "hit_ratio": 1.0,
        "reads_bytes_per_s": 2e6,
        "remote_bytes_per_s": 0.0,
        "limited_to_bytes_per_s": None,
        "known": False,
    }
    assert explain._cells(share) == ("uniform 1.0 GB", "100%", ">= 2.0 MB/s", "0 B/s", "-")
    assert explain._cells(share | {"hit_ratio": 0.5})[3] == "not known"
    assert explain._cells(share | {"reads_bytes_per_s": 0.0})[2] == "not known"
    del share["known"]
    assert explain._cells(share)[2] == "2.0 MB/s", "a coordinator of before"


def test_who_is_left_out_is_counted() -> None:
    assert "and 7 jobs more: tfquiver explain JOB" in shown(None, more_jobs=7)
    assert "more" not in shown(None, more_jobs=0)


def test_how_much_is_cached() -> None:
    here = {"resident_bytes": 10**9, "size_bytes": 2 * 10**9, "chunks": 40, "resident_chunks": 19, "age_s": 0.0}
    assert "cached now: 50% of the data set (1.0 GB of 2.0 GB), 19 of 40 chunks whole" in shown(None, resident=here)
    text = shown(None, resident=here | {"chunks": 0, "age_s": 3.0})
    assert "cached when it was last read: 50% of the data set (1.0 GB of 2.0 GB)\n" in text
    assert "cached now" not in shown(None, resident=None)


def test_a_job_that_has_finished_has_last_numbers() -> None:
    text = shown(None, finished={"ago_s": 240.0}, reasons={"a": "finished 4 minutes ago: had read 1 GB"})
    assert "  finished 4 minutes ago: had read 1 GB\n" in text
    assert "at last" in text and "expected" not in text and "once full" not in text
    assert "The other rows are expected, once that much has been read" in shown(None)


def test_a_job_that_has_ended_is_told_when_and_what_to_do_next_time() -> None:
    text = shown(None, finished={"ago_s": 240.0, "next_run": "more cache would help"})
    ended = re.search(r"job a ended (\d{4}-\d\d-\d\d \d\d:\d\d:\d\d), by policy benefit\n", text)
    assert ended and 230 < time.time() - datetime.fromisoformat(ended[1]).timestamp() < 260
    assert "  next run: more cache would help\n" in text
    assert "next run" not in shown(None, finished={"ago_s": 240.0}), "a coordinator of before"


def test_what_is_there_is_not_what_is_expected() -> None:
    """The first row has what the line above has, and what was measured; a cache that fills up has other figures."""
    share = {"allocation": {"mode": "uniform", "cache_bytes": 2 * 10**9}, "hit_ratio": 1.0, "reads_bytes_per_s": 8e6}
    share |= {"remote_bytes_per_s": 0.0, "limited_to_bytes_per_s": 5e6}
    resident = {"resident_bytes": 10**9, "size_bytes": 2 * 10**9, "chunks": 0, "resident_chunks": 0, "age_s": 0.0}
    now = {"hit_ratio": 0.48, "reads_bytes_per_s": 2e6, "remote_bytes_per_s": 1.04e6}
    lines = [" ".join(line.split()) for line in shown(None, gets=share, resident=resident, now=now).splitlines()]
    assert "cached now: 50% of the data set (1.0 GB of 2.0 GB)" in lines
    assert "now 1.0 GB, 50% 48% 2.0 MB/s 1.0 MB/s -" in lines
    assert "once full uniform 2.0 GB 100% 8.0 MB/s 0 B/s 5.0 MB/s" in lines
    unknown = shown(None, now={"hit_ratio": None, "reads_bytes_per_s": 2e6, "remote_bytes_per_s": 0.0})
    assert "now - - 2.0 MB/s - -" in [" ".join(line.split()) for line in unknown.splitlines()]


@pytest.mark.parametrize(
    ("its", "said"),
    [
        (
            {"epoch": 3, "whole": True, "acked": 9, "shards": 9},
            "for 12 seconds: it has read epoch 3 to the end (epochs count from 0). Half",
        ),
        (
            {"epoch": 3, "whole": False, "acked": 8, "shards": 9},
            "12 seconds: of epoch 3 8 of 9 shards are confirmed (epochs count from 0).",
        ),
        ({}, "nobody has read it for 12 seconds. Half a minute after its last reader it counts as ended"),
    ],
)
def test_who_does_not_read_just_now_is_not_told_of_as_if_he_did(its: dict[str, object], said: str) -> None:
    now = {"hit_ratio": 0.5, "reads_bytes_per_s": 2e6, "remote_bytes_per_s": 1e6}
    text = shown(None, idle={"ago_s": 12.3, **its}, now=now)
    assert said in (unwrapped := " ".join(text.split())) and "its next run, would find" in unwrapped
    assert "\nat last " in text and "\nnow " not in text


def test_and_why_there_is_none() -> None:
    assert "a: not probed yet: it has read nothing yet" in shown({"a": {"waits_for": "it has read nothing yet"}})
    assert "probed" not in shown(None), "a coordinator of before"


def test_a_rate_that_a_person_set_is_a_decision_like_others() -> None:
    decision = {"at_s": 0.0, "kind": "job", "name": "a", "was": None, "becomes": 2e6, "rule": "pinned", "refused": ""}
    assert "  a: no limit -> 2.0 MB/s (pinned)\n" in shown(None, history=[decision])


def test_a_plan_that_was_refused_is_said_to_be() -> None:
    refused = {"at_s": 1e9, "kind": "plan", "name": "benefit", "was": None, "becomes": None, "rule": ""}
    text = shown(None, history=[refused | {"refused": "moving data would pay; 3 more plans must find so first"}])
    assert "  policy benefit: not carried out (moving data would pay; 3 more plans must find so first)" in text
    assert "->" not in text


def test_a_policy_that_was_refused_has_not_decided_before() -> None:
    refused = {"at_s": 1e9, "kind": "policy", "name": "lru", "was": "theirs", "becomes": "lru", "rule": ""}
    text = shown(None, history=[refused | {"refused": "theirs cannot be loaded"}])
    assert "  policy: theirs refused, lru decides (theirs cannot be loaded)\n" in text
    assert "->" not in text


def test_another_policy_is_named_once() -> None:
    chosen = {"at_s": 1e9, "kind": "policy", "name": "lru", "was": "benefit", "becomes": "lru", "refused": ""}
    assert "  policy: benefit -> lru (chosen by a person)\n" in shown(
        None, history=[chosen | {"rule": "chosen by a person"}]
    )
