"""What `tfquiver status` and `dataset list` print, whatever names others have chosen."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import pytest
from rich.cells import cell_len

from tfquiver.cli import calls
from tfquiver.cli.main import main
from tfquiver.cli.status_asked_watched_explained import status as status_command
from tfquiver.cli.status_tables_and_warnings import status_view, words

NAMES = ["run[/1]", "[bold red]x", "\x1b[2J\x1b[31m", "a\nb", "\u202egnp.exe", "\udcff", ":smile:", "[", "x" * 300]


def told(name: str) -> dict[str, Any]:
    counters = {"used_bytes": 5, "quota_bytes": 9, "readers": 1, "hits": 99_999_999, "peer_hits": 0, "misses": 2}
    node = {"node_id": "host-0123456789", "host": "10.100.200.100", "store_bytes": 7, **counters}
    dead = {"node_id": "host-dead", "error": f"node {name}: no answer", "quota_bytes": 0}
    dataset = {"name": name, "digest_id": "ab" * 32, "shards": 10, "records": 20, "size_bytes": 10**12}
    session = {
        "session_id": "s", "session_key": "k", "job": name, "dataset": name, "digest_id": "ab" * 32, "epoch": 12,
        "ended": True, "acked": 10, "shards": 10, "readers": 16, "resident_leases": 9, "missing_leases": 1,
        "shortfall": 10, "reread": 3, "state": "ended",
    }  # fmt: skip
    rates = dict.fromkeys(("allocated_bytes_per_s", "effective_bytes_per_s", "used_bytes_per_s"), 999e6)
    remote_io = {"job": name, "pinned": True, **rates}
    status = {
        "coordinator": "localhost:1", "nodes": [node, dead], "sessions": [session], "hit_ratio": 0.5,
        "datasets": [dataset | {"cache": {"mode": "cooperative", "allocation_bytes": 10**9}}],
        "dispatchers": [], "lost_dispatchers": [], "lost_nodes": [],
        "store_bytes": 10, "served_bytes": 20, "saved": status_view.saved([]), "remote_io": [remote_io],
    }  # fmt: skip
    return {"problems": status_view.problems(status), **status}


@pytest.mark.parametrize("name", NAMES)
def test_names_of_others_break_nothing(name: str) -> None:
    out = io.StringIO()
    status_view.show(told(name), calls.console(file=out, width=80, force_terminal=False))
    printed = out.getvalue()
    assert all(line.isprintable() for line in printed.splitlines())
    assert printed.encode()
    if len(name) < 14 and name.isprintable():
        assert printed.count(name) == 7, "two problems with three names; the data set, the session's two, and its rate"
    tables = [line for line in printed.splitlines() if not line.startswith("! ")]
    assert len(tables) + 2 == len(printed.splitlines()), "each problem has a line of its own, however long"
    assert max(map(len, tables)) <= 80


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


def test_a_node_that_keeps_nothing_has_no_quota_and_it_is_said_why() -> None:
    def printed() -> str:
        out = io.StringIO()
        status_view.show(status, calls.console(file=out, width=2000), legends=True)
        return out.getvalue()

    status = told("name")
    assert "quota none" not in printed()
    status["nodes"][0]["quota_bytes"] = 0
    assert "quota none: it keeps nothing, such as a dispatcher's own node" in printed() and "gateway" not in printed()
    assert any(line.split()[4:5] == ["none"] for line in printed().splitlines())


def test_no_heading_and_no_figure_is_cut_in_80_columns() -> None:
    out, most = io.StringIO(), told("j" * 40)
    sizes = dict.fromkeys(("used_bytes", "quota_bytes", "store_bytes"), 999 * 10**9)
    most["nodes"][0] |= sizes | {"readers": 16, "peer_hits": 99_999_999, "misses": 99_999_999}
    most["datasets"][0] |= {"resident_bytes": 62 * 10**10, "chunks": 130, "resident_chunks": 18, "resident_age_ms": 1}
    most["datasets"][0]["cache"]["decided_by"] = "benefit"
    status_view.show(most, calls.console(file=out, width=80), legends=True)
    printed = out.getvalue()
    headings = [
        "node host used quota readers hits peers misses store",
        "data set digest shards records size cached how",
        "job data set epoch state read sure readers disk unread again",
    ]
    shown = [" ".join(line.split()) for line in printed.splitlines()]
    assert [line for line in shown if line in headings] == headings
    assert "01234567 10.100.200.10 999 GB 999 GB 16 100.0M 100.0M 100.0M 999 GB" in shown, "the host's end: below"
    assert "jjjjjjjjjj… jjjjjjjjjj… 12 ended 100% 100% 16 90% 10 3" in shown
    assert any(line.endswith("… abababab 10 20 1.0 TB ~62% 18/130 auto: coop 1.0 GB") for line in shown)
    assert "999 MB/s" in printed
    assert "unread: shards whose reader was lost" in " ".join(printed.split())


@pytest.mark.parametrize("name", ["学習用データ集合" * 5, "🚀" * 40, "é" * 40, "ab学習用" * 8])
def test_characters_that_take_two_columns_cut_no_figure(name: str) -> None:
    out, most = io.StringIO(), told(name)
    most["sessions"][0] |= {"bytes_per_s": 123_456_789, "stall_share": 0.25, "hit_share": 0.72}
    status_view.show(most, calls.console(file=out, width=80))
    lines = [line for line in out.getvalue().splitlines() if not line.startswith("! ")]
    assert max(map(cell_len, lines)) <= 80
    for figures in (["12", "ended", "100%", "100%", "16", "90%", "10", "3"], ["123.5", "MB/s", "25%", "72%"]):
        [row] = [line.split() for line in lines if line.split()[-len(figures) :] == figures]
        assert all(shown.endswith("…") and name.startswith(shown[:-1]) for shown in row[: -len(figures)])
        assert all(cell_len(shown) >= 8 for shown in row[:2])
    for width in range(1, 9):
        assert cell_len(calls.cut(name, width)) <= width


def test_no_figure_of_a_job_is_cut_in_80_columns() -> None:
    out, status = io.StringIO(), told("/data/of/a/team/packed/*.tfrecord")
    measured = {"bytes_per_s": 123_456_789, "stall_share": 0.25, "hit_share": 0.72}
    measured |= {"step_ms": 100.6, "between_ms": 19.3, "accelerators": 8}
    status["sessions"][0] |= measured | {"job": "sweep/trial-1"}
    status_view.show(status, calls.console(file=out, width=80))
    shown = [" ".join(line.split()) for line in out.getvalue().splitlines()]
    assert "job data set reads waits hits step between acc." in shown
    assert "sweep/trial-1 /data/of/a/tea… 123.5 MB/s 25% 72% 100.6 ms 19.3 ms 8" in shown


def test_labels_take_no_room_from_figures() -> None:
    out, most = io.StringIO(), told("j")
    sizes = dict.fromkeys(("used_bytes", "quota_bytes", "store_bytes"), 999 * 10**9)
    most["nodes"][0] |= sizes | {"labels": {"rack": "r1", "disk": "nvme", "host": "gpu-17"}}
    status_view.show(most, calls.console(file=out, width=80))
    shown = [" ".join(line.split()) for line in out.getvalue().splitlines()]
    assert "01234567 gpu-17 999 GB 999 GB 1 100.0M 0 2 999 GB" in shown, "as people call the machine"
    assert "01234567 disk=nvme,host=gpu-17,rack=r1" in shown


def test_a_nodes_row_leads_to_its_directory() -> None:
    def printed(**its: Any) -> list[str]:
        out, status = io.StringIO(), told("j")
        status["nodes"][0] |= its
        status_view.show(status, calls.console(file=out, width=80))
        return [" ".join(line.split()) for line in out.getvalue().splitlines()]

    assert "01234567 /ssd/tfquiver" in printed(cache_dir="/ssd/tfquiver")
    assert "01234567 /ssd/tfquiver rack=r1" in printed(cache_dir="/ssd/tfquiver", labels={"rack": "r1"})
    long = printed(cache_dir="/" + "d" * 150)
    assert sum(line.count("d" * 20) * 20 for line in long) >= 120, "it is folded, never cut: it is there to be copied"
    assert not any("directory" in line for line in printed()), "an older node does not tell"


@pytest.mark.parametrize(
    ("acked", "readers", "ended", "state"), [(10, 0, False, "ended"), (10, 1, False, "open"), (9, 0, False, "open")]
)
def test_what_was_read_whole_has_ended_though_nobody_took_the_end(
    acked: int, readers: int, ended: bool, state: str
) -> None:
    """Keras, which counts its steps, does not."""
    out, status = io.StringIO(), told("j")
    info = {**status["sessions"][0], "acked": acked, "readers": readers, "ended": ended}
    status["sessions"][0] = status_command.with_state(info)
    assert status["sessions"][0] == info | {"state": state}, "so --json says, and what the coordinator knows"
    status_view.show(status, calls.console(file=out, width=80))
    (row,) = [line for line in out.getvalue().splitlines() if f" {acked * 10}%" in line and state in line]
    assert row


@pytest.mark.parametrize(("read", "shown"), [({"read": 7}, "70% 20%"), ({}, "20% 20%"), ({"read": 10}, "100% 20%")])
def test_what_was_read_is_shown_beside_what_is_confirmed(read: dict[str, int], shown: str) -> None:
    """A coordinator of before says only the latter."""
    out, status = io.StringIO(), told("j")
    status["sessions"][0] |= {"acked": 2, "state": "open", **read}
    status_view.show(status, calls.console(file=out, width=80))
    assert f" open {shown} 16 " in " ".join(out.getvalue().split())


@pytest.mark.parametrize(
    ("its", "shown"),
    [
        ({"idle_ms": 59_999}, "open"),  # between two epochs, say
        ({"idle_ms": 60_000}, "idle 1m"),
        ({"idle_ms": 60_000, "readers": 1}, "open"),
        ({"idle_ms": 60_000, "state": "ended"}, "ended"),
        ({"idle_ms": 3_600_000}, "idle 1h"),
        ({"idle_ms": 47 * 3_600_000}, "idle 47h"),
        ({"idle_ms": 72 * 3_600_000}, "idle 3d"),
        ({"idle_ms": 1 << 60}, "idle 99d"),
        ({}, "open"),  # of a coordinator that does not say it
    ],
)
def test_a_session_that_nobody_reads_any_more_says_so(its: dict[str, Any], shown: str) -> None:
    status = told("j")
    status["sessions"][0] |= {"state": "open", "readers": 0, **its}
    assert words.standing(status["sessions"][0]) == shown and len(shown) <= 8
    out = io.StringIO()
    status_view.show(status, calls.console(file=out, width=80))
    assert f" 12 {shown} 100% " in " ".join(out.getvalue().split())


def test_what_a_node_that_is_silent_has_saved_is_missed() -> None:
    status, out = told("j"), io.StringIO()
    status_view.show(status, calls.console(file=out, width=200))
    assert "nothing has been read yet (not counted: 1 node that cannot be asked)\n" in out.getvalue()
    status, out = status | {"nodes": status["nodes"][:1]}, io.StringIO()
    status_view.show(status, calls.console(file=out, width=200))
    assert "nothing has been read yet\n" in out.getvalue()


@pytest.mark.parametrize(
    ("part", "whole", "shown"),
    [(0, 5, "0%"), (5, 5, "100%"), (1, 10_000, "1%"), (9_999, 10_000, "99%"), (1, 2, "50%"), (0, 0, "0%")],
)
def test_all_is_said_of_all_only(part: int, whole: int, shown: str) -> None:
    assert words.share(part, whole) == shown


@pytest.mark.parametrize(
    ("its", "shown"),
    [
        ({}, "-"),
        ({"resident_bytes": 0}, "0%"),
        ({"resident_bytes": 999, "resident_age_ms": 0, "chunks": 0}, "99%"),
        ({"resident_bytes": 1000, "resident_age_ms": 7}, "~100%"),
        ({"resident_bytes": 500, "chunks": 40, "resident_chunks": 20}, "50% 20/40"),
    ],
)
def test_how_much_is_cached(its: dict[str, int], shown: str) -> None:
    assert words.resident({"size_bytes": 1000, **its}) == shown


@pytest.mark.parametrize(
    ("address", "host"),
    [
        ("10.0.0.7:5041", "10.0.0.7"),
        ("rack1.cluster:5041", "rack1.cluster"),
        ("[fd00::7]:5041", "fd00::7"),
        ("localhost:5041", "here"),
        ("127.0.0.1:5041", "here"),
        ("unix:/cache/control.sock", "here"),
        ("nonsense", "nonsense"),
    ],
)
def test_the_host_of_a_node(address: str, host: str) -> None:
    assert words.host(address, "here") == host


@pytest.mark.parametrize(
    ("number", "size", "count"),
    [
        (0, "0 B", "0"),
        (999, "999 B", "999"),
        (1000, "1.0 kB", "1000"),
        (99_949, "99.9 kB", "99949"),
        (99_950, "100 kB", "99950"),
        (999_499, "999 kB", "999499"),
        (999_999, "1.0 MB", "999999"),
        (1_000_000, "1.0 MB", "1.0M"),
        (999_400_000, "999 MB", "999.4M"),
        (999_600_000, "1.0 GB", "1.0G"),
        ((1 << 64) - 1, "18.4 EB", "18.4E"),
    ],
)
def test_figures_are_short(number: int, size: str, count: str) -> None:
    assert (words.size(number), words.count(number)) == (size, count)
    assert len(size) <= 7 and len(count) <= 6


def test_a_directory_where_no_node_runs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    entry = tmp_path / "objects" / "ab" / "cd" / ("abcd" + "0" * 60)
    entry.parent.mkdir(parents=True)
    entry.write_bytes(b"x" * 1000)
    (entry.parent / "not an entry").touch()
    assert main(["status", str(tmp_path)]) == 0
    assert f"no node runs in {tmp_path}; it holds 1 shard, 1.0 kB" in capsys.readouterr().out
    assert main(["status", "--service", str(tmp_path), "--json"]) == 0
    assert '"running": false, "entries": 1, "used_bytes": 1000' in capsys.readouterr().out


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
    reads = told("run")["sessions"][0] | {"shortfall": 0, "readers": 1, "digest_id": large["digest_id"]}
    by_policy = large | {"cache": {"mode": "uniform", "decided_by": "lru"}}
    assert status_view.problems(healthy | {"datasets": [by_policy], "sessions": [reads]}) == []
    pinned = large | {"cache": {"mode": "uniform"}}
    assert status_view.problems(healthy | {"datasets": [pinned]})
    (line,) = status_view.problems(healthy | {"datasets": [large], "sessions": [reads]})
    assert line.startswith("data set run (100 TB) is larger than all quotas (10.0 TB)")
    alike = [pinned, pinned | {"digest_id": "cd" * 32}]
    for which, said in zip(["ab", "cd"], status_view.problems(healthy | {"datasets": alike}), strict=True):
        assert said.startswith(f"data set run ({6 * which}) (100 TB) is larger")
        assert f"`tfquiver dataset set-cache {6 * which} cooperative`" in said
        assert f"first `tfquiver dataset unpin {6 * which}`, where it is pinned" in said
    assert "unpin" not in line, "nobody has set it"
    assert status_view.problems(healthy | {"nodes": []}) == [
        "no node keeps anything: start tfquiver-node with a --quota, or tfquiver up"
    ]


def worker(port: int, silent_s: int = 0, idle_s: int = 0) -> dict[str, Any]:
    return {"address": f"w:{port}", "silent_ms": 1000 * silent_s, "idle_ms": 1000 * idle_s}


def test_a_dispatcher_that_is_missed_is_a_problem() -> None:
    missed = told("run") | {"lost_dispatchers": [{"address": "head:5050", "silent_ms": 9_400}]}
    said = set(status_view.problems(missed)) - set(status_view.problems(told("run")))
    assert [one.partition(":5050 ")[2].partition(":")[0] for one in said] == ["has told nothing of itself for 9 s"]


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


@pytest.mark.parametrize(
    ("job", "key", "shown"),
    [
        ("job-0123456789ab", "0123456789ab" + "0" * 20 + "-train", "train-0123"),
        ("job-0123456789ab", "0123456789ab" + "0" * 20 + "-train:3", "train-0123"),
        ("sweep/job-0123456789ab", "0123456789ab" + "0" * 20 + "-train", "sweep/train-0123"),
        ("sweep/job-0123456789ab", "ffff", "sweep/job-0123456789ab"),
        ("job-0123456789ab", "0123456789ab" + "0" * 20, "job-0123456789ab"),
        ("job-0123456789ab", "ffff", "job-0123456789ab"),
        ("sweep-7", "0123456789ab" + "0" * 20 + "-train", "sweep-7"),
    ],
)
def test_a_job_without_a_name_is_shown_by_its_program(job: str, key: str, shown: str) -> None:
    assert words.job({"job": job, "session_key": key}) == shown


def test_the_store_is_told_as_far_as_it_is_known() -> None:
    assert words.store({}) == words.store({"bytes_per_s": 0.0, "s_per_byte": 0.0}) == ""
    told = {"bytes_per_s": 3e6, "most_bytes_per_s": 4e6, "s_per_byte": 2.5e-7, "request_s_per_byte": 4e-6}
    # Nobody knows what it could give.
    rates = "store: 3.0 MB/s were read from it over the last ten seconds, in the best ten of the last hour 4.0 MB/s"
    assert words.store(told) == (
        f"{rates}; while anybody reads a MB comes every 250 ms, by 16 requests at a time that take 4,000 ms for one"
    )
    assert words.store({"limit_bytes_per_s": 2e8}) == "store: --store_bytes_per_s: 200 MB/s"
