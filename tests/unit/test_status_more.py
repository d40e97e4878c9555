"""What `tfquiver status` says beside its tables: money, what is going on, lines of --watch; and its JSON schema."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.as_user import as_user
from tests.unit.test_status_tables import told
from tfquiver import durable, errors
from tfquiver.cli import calls
from tfquiver.cli.main import main
from tfquiver.cli.status_asked_watched_explained import activity, watching
from tfquiver.cli.status_tables_and_warnings import alike, sessions_view, status_view
from tfquiver.cli.status_tables_and_warnings.money import Prices
from tfquiver.cli.up_stop_logs_clear import logs
from tfquiver.cluster_address import running_nodes
from tfquiver.proto.tfquiver.v1 import coordinator_pb2, node_pb2, types_pb2

SCHEMA = json.loads((Path(__file__).resolve().parents[2] / "docs" / "format" / "status.schema.json").read_text())
CLUSTER = SCHEMA["$defs"]["cluster"]["properties"]


@pytest.mark.parametrize(
    ("where", "message", "other"),
    [
        ("nodes", node_pb2.StatusReply, {"node"}),
        ("nodes", types_pb2.NodeInfo, set()),
        ("datasets", types_pb2.Dataset, set()),
        ("sessions", coordinator_pb2.SessionInfo, set()),
        ("remote_io", coordinator_pb2.RemoteIO, set()),
    ],
)
def test_every_field_that_servers_tell_is_in_the_schema(where: str, message: Any, other: set[str]) -> None:
    described = CLUSTER[where]["items"]["properties"].keys()
    assert {field.name for field in message.DESCRIPTOR.fields} - other <= described


def test_the_page_names_every_key() -> None:
    page = (Path(__file__).resolve().parents[2] / "docs" / "format" / "status.md").read_text()
    assert [key for key in CLUSTER if f"`{key}`" not in page] == []


def test_money_is_what_the_prices_make_of_what_was_saved() -> None:
    spared = {"bytes": 5 * 10**11, "requests": 2_000_000}
    assert Prices().of(spared) is None
    assert Prices(store_tb=90.0, million_requests=0.4).of(spared) == pytest.approx(45.8)
    out, status = io.StringIO(), told("j")
    status["saved"] |= spared | {"money": 45.8}
    status_view.show(status, calls.console(file=out, width=200))
    assert "saved 45.80: 500 GB and 2,000,000 requests" in out.getvalue()


@pytest.mark.parametrize("since_s", [1 << 40, 1 << 63, (1 << 64) - 1])
def test_a_node_whose_clock_was_wrong_does_not_hide_the_cluster(since_s: int) -> None:
    totals = dict.fromkeys(("served_bytes", "store_bytes", "hits", "misses", "store_requests"), 5)
    out, status = io.StringIO(), told("j")
    status["saved"] = status_view.saved([totals | {"since_s": since_s}])
    status_view.show(status, calls.console(file=out, width=200))
    assert "saved 5 requests: " in out.getvalue()


@pytest.mark.parametrize(
    ("its", "said"),
    [
        ({}, "nothing has been read yet"),
        ({"served_bytes": 5, "store_bytes": 7}, "nothing saved yet: 5 B given to readers, 7 B read from"),
        ({"served_bytes": 9, "store_bytes": 7, "bytes": 2}, "saved 2 B: 9 B given to readers, 7 B read"),
        ({"served_bytes": 9, "store_bytes": 7, "bytes": 2, "requests": 1}, "saved 2 B and 1 request: 9 B"),
    ],
)
def test_what_was_not_saved_is_not_counted(its: dict[str, int], said: str) -> None:
    out, status = io.StringIO(), told("j")
    status["saved"] = status_view.saved([]) | its
    status_view.show(status, calls.console(file=out, width=200))
    assert f"\n{said}" in out.getvalue() and " 0 " not in out.getvalue().split(said)[1].split("\n")[0]


@pytest.mark.parametrize(
    "flag", ["--store_price=-1", "--request_price=x", "--watch=0", "--watch=nan", "--watch=5s", "--sessions=0"]
)
def test_figures_that_cannot_be_right_are_refused(flag: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["status", "localhost:1", flag])
    assert flag.split("=")[0] in capsys.readouterr().err


def test_where_may_stand_behind_watch(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for where in (f"{tmp_path}/none", "localhost:1:2", "caches"):
        assert main(["status", "--watch", where]) == 1
        assert capsys.readouterr().err.endswith("made by the first job or server that uses it\n")
    assert main(["status", "--watch", str(tmp_path), "localhost:1"]) == 1
    assert "not a number of seconds" in capsys.readouterr().err


def at_work() -> dict[str, Any]:
    status = told("run[/1]")
    digest_id = status["datasets"][0]["digest_id"]
    done = {"done_bytes": 10**9, "total_bytes": 4 * 10**9}
    status["nodes"][0]["works"] = [
        {"kind": "WORK_KIND_SCAN", "name": "new\x1b[2J", "digest_id": "", "trouble": "", **done},
        {"kind": "WORK_KIND_WARM", "name": "", "digest_id": digest_id, "trouble": "503", **done},
        {"kind": "WORK_KIND_UNSPECIFIED", "name": "of a later version", "digest_id": "", "trouble": "", **done},
    ]
    status["datasets"][0] |= {"moving_shards": 3, "moving_bytes": 9, "unmoved_shards": 0}
    status["sessions"][0]["probed"] = True
    status["going_on"] = activity.going_on(status["nodes"], status["datasets"], status["sessions"])
    return status


def test_what_is_going_on_is_said_before_the_tables() -> None:
    status, out = at_work(), io.StringIO()
    assert [one["kind"] for one in status["going_on"]] == ["scan", "warm", "move", "probe"]
    status_view.show(status, calls.console(file=out, width=80))
    printed = out.getvalue().replace("\n  ", " ")
    for line in (
        "node 01234567 reads for the first time new\\x1b[2J: 25% of 4.0 GB\n",
        "node 01234567 warms run[/1]: 25% of 4.0 GB; 503\n",
        "job run[/1] is being measured without the cache, over run[/1], for about 100 mini-batches",
        "data set run[/1] moves: 3 shards",
    ):
        assert line in printed
    assert printed.index("is being measured") < printed.index("node      host")


def test_a_watched_status_is_a_line_and_an_outage_too() -> None:
    line = watching.line(at_work)
    assert line.startswith("1 node, 5 B of 9 B; 0 jobs read 0 B/s; scan new\\x1b[2J; warm run[/1]; ")
    assert line.isprintable()

    def gone() -> dict[str, Any]:
        raise errors.UnavailableError("coordinator localhost:1 is\naway")

    assert watching.line(gone) == "coordinator localhost:1 is\\naway"


@pytest.mark.parametrize("width", [60, 80, 100, 160])
def test_names_of_sessions_have_the_room_that_figures_leave(width: int) -> None:
    (info,) = told("sweep-lr0.0003-bs256-seed17")["sessions"]
    whole, out = info | {"shortfall": 0, "reread": 0, "dataset": "imagenet"}, io.StringIO()
    calls.console(file=out, width=width).print(sessions_view.sessions([whole], width, {}))
    heads, _, row = out.getvalue().splitlines()
    assert len(row.rstrip()) <= max(width, 60) and "unread" not in heads and "imagenet" in row
    assert ("sweep-lr0.0003-bs256-seed17" in row) == (width > 60)


class _Looked(list[dict[str, Any]]):
    """Counts how often it was gone through."""

    times = 0

    def __iter__(self) -> Iterator[dict[str, Any]]:
        self.times += 1
        return super().__iter__()


def test_whether_caches_are_smaller_than_the_data_is_found_once_for_all_nodes() -> None:
    """Of a thousand nodes without room and five thousand data sets it took as long as a page is looked at."""
    status = told("one")
    (node, _), (dataset,) = status["nodes"], status["datasets"]
    looked = []
    for nodes in (1, 100):
        small = _Looked([dataset | {"size_bytes": 1, "cache": {"mode": "none"}}])
        without_room = [node | {"refused_inserts": 3} for _ in range(nodes)]
        found = status_view.problems(status | {"nodes": without_room, "datasets": small})
        assert sum("no room in its quota" in one for one in found) == min(nodes, alike.MOST)
        looked.append(small.times)
    assert looked[0] == looked[1]


def test_of_several_clusters_the_words_are_explained_once() -> None:
    out = io.StringIO()
    one, two = told("one"), told("two")
    status_view.show_all(["a", "b"], [one | {"sessions": []}, two], calls.console(file=out, width=80), legends=True)
    printed = " ".join(out.getvalue().split())
    assert printed.index("hit ratio: hits and peers") < printed.index("== b ") < printed.index("A session is one epoch")
    assert printed.count("A session is one epoch") == printed.count("hit ratio: hits and peers") == 1


def test_in_a_pipe_no_row_is_broken_and_no_name_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)
    out, name = io.StringIO(), "a-name-of-" * 6
    status_view.show(told(name), calls.console(file=out))
    (row,) = (line for line in out.getvalue().splitlines() if line.startswith(name) and " ended " in line)
    assert row.split()[:3] == [name, name, "12"]
    assert calls.console(file=out, width=80).width == 80
    monkeypatch.setenv("COLUMNS", "70")
    assert calls.console(file=out).width == 70


def test_without_asking_one_line_says_where_words_are_explained() -> None:
    out = io.StringIO()
    one = told("one") | {"problems": ["what is said in more than eighty columns " * 5 + "."]}
    status_view.show_all(["a", "b"], [one, one], calls.console(file=out), legends=False)
    printed = out.getvalue()
    end = "Epochs count from 0. `tfquiver status --explain` says what all columns are"
    assert " ".join(printed.split()).endswith(end) and max(map(len, printed.splitlines()[-3:])) <= 100
    assert printed.count("--explain") == 1
    assert "A session is one epoch" not in printed
    assert f"! {one['problems'][0]}\n" in printed


def test_sessions_of_one_job_stand_together() -> None:
    (info,) = told("one")["sessions"]
    newest_first = [info | {"job": job, "epoch": epoch} for job, epoch in (("a", 7), ("b", 3), ("a", 6), ("b", 2))]
    out = io.StringIO()
    calls.console(file=out, width=80).print(sessions_view.sessions(newest_first, 80, {}))
    rows = [line.split() for line in out.getvalue().splitlines()[2:]]
    assert [(row[0], row[2]) for row in rows] == [("a", "7"), ("a", "6"), ("b", "3"), ("b", "2")]


def test_epochs_that_have_ended_well_do_not_hide_those_that_are_read() -> None:
    """Of each one that is read there were twenty or thirty of `ended 100% 100%`."""
    (info,) = told("one")["sessions"]
    ended, well = {"state": "ended", "ended": True}, {"shortfall": 0, "reread": 0}
    newest_first = [
        info | well | {"epoch": 9, "state": "open"}, *(info | well | ended | {"epoch": epoch} for epoch in (8, 7, 6)),
        info | ended | {"epoch": 5, "shortfall": 1, "reread": 0}, info | well | ended | {"epoch": 3, "job": "b"},
    ]  # fmt: skip
    assert [one["epoch"] for one in sessions_view.worth_a_row(newest_first)] == [9, 8, 5, 3]
    assert sessions_view.left_out(newest_first).startswith("and 2 epochs before that ended well: ")
    assert sessions_view.left_out(newest_first[:2]) == ""
    out = io.StringIO()
    one = told("one") | {"sessions": newest_first}
    status_view.show_all(["a"], [one], calls.console(file=out, width=120), legends=False)
    assert "\nand 2 epochs before that ended well: `tfquiver status --json` has them\n" in out.getvalue()


def test_a_node_of_this_user_is_found_by_the_lock_that_it_holds(tmp_path: Path) -> None:
    """A process that calls itself a node, and one that only has a file of that name open."""
    program = (
        "import sys, os\n"
        "from pathlib import Path\n"
        "from tfquiver import durable\n"
        "held = durable.lock_file(Path(sys.argv[2]) / 'node.lock')\n"
        "if sys.argv[3] == 'holds': assert durable.try_lock(held); os.write(held, str(os.getpid()).encode())\n"
        "print('ready', flush=True); sys.stdin.read()\n"
    )
    started = []
    try:
        for name, called, does in (
            ("of-a-node", "tfquiver.service.node.main", "holds"),
            ("open-only", "tfquiver.service.node.main", "opens"),
            ("of-others", "somebody.else", "holds"),
        ):
            (tmp_path / name).mkdir()
            command = [sys.executable, "-c", program, called, str(tmp_path / name), does]
            process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
            started.append(process)
            assert process.stdout is not None and process.stdout.readline() == b"ready\n"
        here = [path for path in running_nodes.directories() if path.parent == tmp_path]
        assert here == [tmp_path / "of-a-node"]
        assert durable.holder(here[0] / "node.lock") == str(started[0].pid)
    finally:
        for process in started:
            process.kill()
            process.communicate()
    assert [path for path in running_nodes.directories() if path.parent == tmp_path] == []
    assert running_nodes.directories(tmp_path / "no-proc") == []


@pytest.mark.skipif(os.geteuid() != 0, reason="becomes another user: run it as root")
def test_logs_that_one_may_not_see_are_not_called_none() -> None:
    with tempfile.TemporaryDirectory() as made:
        Path(made).chmod(0o755)
        (Path(made) / "log").mkdir(mode=0o700)
        with pytest.raises(RuntimeError, match="PermissionError"):
            as_user(65534, 65534, [], lambda: len(logs._logs_in(Path(made))))


def test_logs_of_a_directory(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["logs", str(tmp_path / "nothere")]) == 1
    assert "nothere: no such directory" in capsys.readouterr().err
    assert main(["logs", str(tmp_path)]) == 1
    assert "nothing has been logged there (servers that were started by hand" in capsys.readouterr().err
    (tmp_path / "log").mkdir()
    (tmp_path / "log" / "mount.log").write_text("mounted\n")
    assert main(["logs", str(tmp_path)]) == 0
    out, err = capsys.readouterr()
    assert out == "mounted\n", "beside it the node was started by hand"
    assert err.startswith(f"tfquiver: {tmp_path}: its node has logged nothing there (servers that were started by hand")
    (tmp_path / "log" / "mount.log").unlink()
    (tmp_path / "log" / "node.log").write_bytes(
        b"".join(b"line %d\n" % number for number in range(50)) + b"\x1b[2Jend\n"
    )
    assert main(["logs", str(tmp_path), "--lines", "2"]) == 0
    assert capsys.readouterr() == ("line 49\n\\x1b[2Jend\n", "")
    (tmp_path / "log" / "coordinator.log").write_text("joined\n")
    assert main(["logs", str(tmp_path), "--lines", "1"]) == 0
    assert capsys.readouterr().out == "coordinator: joined\nnode: \\x1b[2Jend\n"
    assert main(["logs", "localhost:1"]) == 1
    assert "run this on its machine" in capsys.readouterr().err


@pytest.mark.slow
def test_a_log_is_followed_into_the_file_that_takes_its_place(tmp_path: Path) -> None:
    log = tmp_path / "log" / "node.log"
    log.parent.mkdir()
    log.write_text("first\n")
    command = [sys.executable, "-m", "tfquiver.cli.main", "logs", str(tmp_path), "--follow"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, env=os.environ, text=True) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "first\n"
            with log.open("a") as out:
                out.write("second\nthi")
                out.flush()
                assert process.stdout.readline() == "second\n"
                out.write("rd\n")
                out.flush()
            assert process.stdout.readline() == "third\n"
            log.replace(log.with_name("node.log.old"))
            log.write_text("anew\n")
            assert process.stdout.readline() == "anew\n"
        finally:
            process.kill()


def test_a_policy_that_does_not_decide_is_a_problem() -> None:
    status = told("name") | {"policy_trouble": "policy theirs is not made within 10 s: benefit decides until it is"}
    assert status_view.problems(status)[0] == f"planning: {status['policy_trouble']}"
