"""What `tfquiver status` and `dataset list` print, whatever names others have chosen."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import pytest

from tfquiver.cli import calls, status
from tfquiver.cli.main import main

NAMES = ["run[/1]", "[bold red]x", "\x1b[2J\x1b[31m", "a\nb", "\u202egnp.exe", "\udcff", ":smile:", "[", "x" * 300]


def told(name: str) -> dict[str, Any]:
    counters = {"used_bytes": 5, "quota_bytes": 9, "readers": 1, "hits": 99_999_999, "peer_hits": 0, "misses": 2}
    node = {"node_id": "host-0123456789", "store_bytes": 7, **counters}
    dead = {"node_id": "host-dead", "error": f"node {name}: no answer", "quota_bytes": 0}
    dataset = {"name": name, "digest_id": "ab" * 32, "shards": 10, "records": 20, "size_bytes": 10**12}
    session = {
        "session_id": "s", "job": name, "dataset": name, "digest_id": "ab" * 32, "epoch": 12, "ended": True,
        "acked": 10, "shards": 10, "readers": 16, "resident_leases": 9, "missing_leases": 1,
        "shortfall": 10, "reread": 3,
    }  # fmt: skip
    return {
        "coordinator": "localhost:1", "nodes": [node, dead], "sessions": [session], "hit_ratio": 0.5,
        "datasets": [dataset | {"cache": {"mode": "cooperative", "allocation_bytes": 10**9}}],
        "store_bytes": 10, "served_bytes": 20,
    }  # fmt: skip


@pytest.mark.parametrize("name", NAMES)
def test_names_of_others_break_nothing(name: str) -> None:
    out = io.StringIO()
    status.show(told(name), calls.console(file=out, width=80, force_terminal=False))
    printed = out.getvalue()
    assert all(line.isprintable() for line in printed.splitlines())
    assert printed.encode()
    if len(name) < 14 and name.isprintable():
        assert printed.count(name) == 4, "the node's error, the data set, and the session's job and data set"
    tables = [line for line in printed.splitlines() if not line.endswith(": no answer")]
    assert len(tables) < len(printed.splitlines()), "the silent node has a line of its own, however long"
    assert max(map(len, tables)) <= 80


def test_no_heading_and_no_figure_is_cut_in_80_columns() -> None:
    out = io.StringIO()
    status.show(told("j" * 40), calls.console(file=out, width=80))
    printed = out.getvalue()
    for word in ("99999999", "from store", "again", "unread", "ended", "100%", "coop 1.0 GB", f"{'j' * 13}…"):
        assert word in printed
    assert "unread: shards whose reader was lost" in " ".join(printed.split())


def test_a_directory_where_no_node_runs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    entry = tmp_path / "objects" / "ab" / "cd" / ("abcd" + "0" * 60)
    entry.parent.mkdir(parents=True)
    entry.write_bytes(b"x" * 1000)
    (entry.parent / "not an entry").touch()
    assert main(["status", str(tmp_path)]) == 0
    assert f"no node runs in {tmp_path}; it holds 1 shards, 1.0 kB" in capsys.readouterr().out
    assert main(["status", "--service", str(tmp_path), "--json"]) == 0
    assert '"running": false, "entries": 1, "used_bytes": 1000' in capsys.readouterr().out
