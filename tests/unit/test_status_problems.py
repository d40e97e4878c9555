"""What `tfquiver status` calls a problem, and what is none."""

from __future__ import annotations

import io
from typing import Any

import pytest

from tests.unit.test_status_tables import told
from tfquiver.cli import calls
from tfquiver.cli.status_tables_and_warnings import status_view


def test_a_spot_node_that_is_gone_has_a_line_that_is_no_problem() -> None:
    gone = {
        "node_id": "n-gone", "control_address": "far:1", "quota_bytes": 9, "silent_ms": 12_000,
        "labels": {"lifecycle": "spot"},
    }  # fmt: skip
    status, out = told("name") | {"lost_nodes": [gone]}, io.StringIO()
    status_view.show(status, calls.console(file=out, width=200, force_terminal=False))
    assert "\n1 spot node is gone, as they may be, in the last hour: gone 12 s ago\n" in out.getvalue()
    assert status_view.problems(status) == told("name")["problems"]


def test_a_coordinator_that_cannot_write_is_the_first_problem() -> None:
    status = told("name") | {"coordinator_trouble": "/disk/commit.log: No space left on device"}
    assert status_view.problems(status)[0].endswith(
        "until its log can be written: /disk/commit.log: No space left on device"
    )


def test_problems_come_first_and_a_cluster_without_any_has_none() -> None:
    sick = told("run")
    sick["nodes"][0] |= {"corrupt_entries": 2, "peer_mismatches": 3, "refused_inserts": 9, "used_bytes": 1}
    sick["nodes"][0] |= {"refused_by_disk": 3, "refused_damaged": 2}
    sick["datasets"] = [one | {"cache": {"mode": "none"}, "size_bytes": 5} for one in sick["datasets"]]
    found = status_view.problems(sick)
    assert found[0].endswith("no answer") and len(found) == 7
    for word in (
        "2 entries were damaged",
        "3 shards that were not",
        "4 times a shard could not be kept: no room in its quota",
        "3 times its disk was full, or refused",
        "2 shards from others did not have the right hash",
        "10 shards are perhaps",
    ):
        assert any(word in line for line in found), word
    for ago_ms, said in ((299_000, True), (301_000, False)):
        refused = sick["nodes"][0] | {"refused_ms": ago_ms, "refused_by_disk_ms": ago_ms}
        lines = status_view.problems(sick | {"nodes": [refused]})
        for word in ("its disk was full", "a shard could not be kept"):
            assert any(word in line for line in lines) == said, "what was long ago says nothing of now"
    full = sick["nodes"][0] | {"used_bytes": sick["nodes"][0]["quota_bytes"]}
    assert not any("be kept" in line for line in status_view.problems(sick | {"nodes": [full]})), "that is its size"
    limited = [one | {"cache": {"mode": "uniform", "allocation_bytes": 5}} for one in sick["datasets"]]
    assert not any("be kept" in line for line in status_view.problems(sick | {"datasets": limited})), "as it was told"
    large = [one | {"size_bytes": 10**15} for one in sick["datasets"]]
    assert not any("be kept" in line for line in status_view.problems(sick | {"datasets": large})), "nor would it fit"
    empty = sick | {"nodes": [], "lost_nodes": []}
    assert "no node keeps anything" in status_view.problems(empty | {"coordinator_up_ms": 600_000})[0]
    assert "no node keeps anything" in status_view.problems(empty)[0], "an older coordinator does not say"
    assert status_view.problems(empty | {"coordinator_up_ms": 3_100})[0] == (
        "no node has come back yet: the coordinator started 3 s ago; ask again in some seconds"
    )
    out = io.StringIO()
    status_view.show(sick | {"problems": found}, calls.console(file=out, width=80))
    assert out.getvalue().startswith("! node run: no answer")
    assert "not back yet" not in out.getvalue()
    status_view.show(sick | {"coordinator_up_ms": 3_100, "awaited_nodes": 0}, calls.console(file=out, width=80))
    assert "started 3 s ago" not in out.getvalue(), "all that it knows of are back"
    status_view.show(sick | {"coordinator_up_ms": 3_100, "awaited_nodes": 2}, calls.console(file=out, width=80))
    assert "started 3 s ago: 2 nodes are not back yet" in out.getvalue(), "though some are there"
    alone = io.StringIO()
    own = {"coordinator_up_ms": 3_100, "awaited_nodes": 1, "coordinator": "unix:/cache/run/coordinator.sock"}
    status_view.show(sick | own, calls.console(file=alone, width=80))
    assert "not back yet" not in alone.getvalue(), "a node that is its own coordinator waits for none"
    healthy = sick | {"nodes": [told("")["nodes"][0] | {"quota_bytes": 10**13}], "sessions": []}
    assert status_view.problems(healthy) == []
    large = told("run")["datasets"][0] | {"size_bytes": 10**14, "cache": {"mode": "unset"}}
    assert status_view.problems(healthy | {"datasets": [large]}) == [], "a policy decides when somebody reads it"
    ended = told("run")["sessions"][0] | {"shortfall": 0, "readers": 0, "digest_id": large["digest_id"]}
    reads = ended | {"readers": 1, "ended": False, "state": "open"}
    by_policy = large | {"cache": {"mode": "uniform", "decided_by": "lru"}}
    assert status_view.problems(healthy | {"datasets": [by_policy], "sessions": [reads]}) == []
    pinned = large | {"cache": {"mode": "uniform"}}
    assert status_view.problems(healthy | {"datasets": [large], "sessions": [reads]}) == [], "it does in some seconds"
    (line,) = status_view.problems(healthy | {"datasets": [large], "sessions": [reads, ended]})
    assert line.startswith("data set run (100 TB) is larger than all quotas (10.0 TB)") and "unpin" not in line, (
        "no policy"
    )
    (line,) = status_view.problems(healthy | {"datasets": [pinned]})
    assert line.startswith("data set run (100 TB) is larger than all quotas (10.0 TB)")
    alike = [pinned, pinned | {"digest_id": "cd" * 32}]
    for which, line in zip(["ab", "cd"], status_view.problems(healthy | {"datasets": alike}), strict=True):
        assert line.startswith(f"data set run ({6 * which}) (100 TB) is larger")
        assert f"`tfquiver dataset set-cache {6 * which} cooperative`" in line
        assert f"first `tfquiver dataset unpin {6 * which}`, where it is pinned" in line
    assert status_view.problems(healthy | {"nodes": []}) == [
        "no node keeps anything: start tfquiver-node with a --quota, or tfquiver up"
    ]


def worker(port: int, silent_s: int = 0, idle_s: int = 0) -> dict[str, Any]:
    return {"address": f"w:{port}", "silent_ms": 1000 * silent_s, "idle_ms": 1000 * idle_s}


def test_a_dispatcher_that_is_missed_is_a_problem() -> None:
    missed = told("run") | {"lost_dispatchers": [{"address": "head:5050", "silent_ms": 9_400}]}
    said = set(status_view.problems(missed)) - set(status_view.problems(told("run")))
    assert [one.partition(":5050 ")[2].partition(":")[0] for one in said] == ["has told nothing of itself for 9 s"]


def test_a_worker_that_a_trainer_may_wait_for_in_vain_is_a_problem() -> None:
    """Epochs stood for minutes at their end, and no problem was shown."""
    its = worker(1) | {"unread_ms": 37_900, "unread_left_ms": 262_000}
    soon = worker(2) | {"unread_ms": 9_900, "unread_left_ms": 10_000}
    status = told("run") | {"dispatchers": [{"address": "head:5050", "workers": [its, soon, worker(3)]}]}
    (said,) = [one for one in status_view.problems(status) if "worker" in one]
    assert said.startswith(
        "worker w:1 of dispatcher head:5050 was lost at the end of an epoch, and has been back for 37 s: nobody has "
        "asked for the rest of its part since. "
    )
    assert "in 262 s the dispatcher ends that part (--unread_task_timeout_ms" in said


@pytest.mark.parametrize(
    ("its", "problem", "line"),
    [
        (worker(1), False, "2 workers"),
        (worker(1, silent_s=4), False, "2 workers"),  # one question unanswered
        (worker(1, silent_s=6), True, "2 workers, 1 silent"),
        (worker(1, silent_s=37), True, "2 workers, 1 silent"),
        (worker(1, silent_s=601, idle_s=3), True, "2 workers, 1 silent"),
        (worker(1, silent_s=601, idle_s=601), False, "2 workers, 1 silent"),
    ],
)
def test_a_worker_that_epochs_wait_for_is_a_problem(its: dict[str, Any], problem: bool, line: str) -> None:
    status = told("run") | {"dispatchers": [{"address": "head:5050", "workers": [its, worker(2)]}]}
    found = [said for said in status_view.problems(status) if "worker" in said]
    assert len(found) == problem
    if found:
        silent = its["silent_ms"] // 1000
        assert found[0].startswith(f"worker w:1 of dispatcher head:5050 has not answered for {silent} s: an epoch")
    out = io.StringIO()
    status_view.show(status, calls.console(file=out, width=80))
    assert f"\ndispatcher head:5050   {line}\n" in out.getvalue()


def test_a_cluster_without_a_dispatcher_says_nothing_of_one() -> None:
    out = io.StringIO()
    status_view.show(told("run"), calls.console(file=out, width=80))
    assert "dispatcher" not in out.getvalue() and "worker" not in out.getvalue()
