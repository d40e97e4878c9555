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
from tfquiver.node_daemon_and_notes_in_directories import up_file
from tfquiver.node_daemon_and_notes_in_directories.up_file import Ports

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
        said = " ".join(printed.split())
        assert said.count(name) == 7, "two problems with three names; the data set, the session's two, and its rate"
    assert all(len(line) <= 80 or "x" * 300 in line for line in printed.splitlines()), "but for a word that is wider"


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
    lines = [line for line in out.getvalue().splitlines() if name not in line]  # problems have it whole
    assert max(map(cell_len, lines)) <= 80
    for figures in (["12", "ended", "100%", "100%", "16", "90%", "10", "3"], ["123", "MB/s", "25%", "72%"]):
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
    assert "sweep/trial-1 /data/of/a/team/… 123 MB/s 25% 72% 100.6 ms 19.3 ms 8" in shown


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
    assert (
        "nothing has been read yet from the nodes that answer (not counted: 1 node that cannot be asked)\n"
        in out.getvalue()
    )
    alone, out = status | {"nodes": status["nodes"][1:]}, io.StringIO()
    status_view.show(alone, calls.console(file=out, width=200))
    assert "what has been read and saved is not known: 1 node that would tell cannot be asked\n" in out.getvalue()
    status, out = status | {"nodes": status["nodes"][:1]}, io.StringIO()
    status_view.show(status, calls.console(file=out, width=200))
    assert "the nodes that are here have given out nothing yet\n" in out.getvalue(), "an epoch was read"
    status_view.show(status | {"sessions": []}, calls.console(file=out, width=200))
    assert "nothing has been read yet\n" in out.getvalue()


def test_a_directory_where_no_node_runs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    entry = tmp_path / "objects" / "ab" / "cd" / ("abcd" + "0" * 60)
    entry.parent.mkdir(parents=True)
    entry.write_bytes(b"x" * 1000)
    (entry.parent / "not an entry").touch()
    assert main(["status", str(tmp_path)]) == 0
    printed = capsys.readouterr().out
    assert f"no node runs in {tmp_path}; it holds 1 shard, 4.1 kB on the disk" in printed
    assert "what was read is not known: its node ended, or was killed" in printed, "a node counts before it writes"
    assert main(["status", "--service", str(tmp_path), "--json"]) == 0
    assert '"running": false, "up_ran": false, "entries": 1, "used_bytes": 4096' in capsys.readouterr().out
    up_file.write(tmp_path, Ports(5040))
    assert main(["status", str(tmp_path)]) == 0
    assert f"\n`tfquiver up {tmp_path}` goes on with the cluster that ran there\n" in capsys.readouterr().out
