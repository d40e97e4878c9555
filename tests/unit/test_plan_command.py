"""`tfquiver plan`: more cache and bandwidth against completion times and what they cost."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tfquiver.cli.main import main

SCENARIO = {
    "cluster": {"accelerators": 2, "cache": "1GiB", "store_per_s": "10MB"},
    "policies": ["benefit"],
    "trace": {
        "datasets": {"images": "2GiB"},
        "jobs": [{"name": name, "dataset": "images", "reads_per_s": "20MB", "epochs": 100} for name in "ab"],
    },
}


@pytest.fixture
def scenario(tmp_path: Path) -> str:
    path = tmp_path / "scenario.json"
    path.write_text(json.dumps(SCENARIO))
    return str(path)


@pytest.mark.slow
def test_more_buys_shorter_jobs_at_a_price(scenario: str, capsys: pytest.CaptureFixture[str]) -> None:
    more = ["--cache", "0", "--cache", "1GiB", "--cache", "2GiB", "--store", "10MB", "--store", "20MB"]
    prices = ["--cache_price", "100", "--rate_price", "500"]
    assert main(["plan", scenario, *more, *prices, "--json"]) == 0
    points = json.loads(capsys.readouterr().out)["points"]
    assert [(point["store_bytes_per_s"], point["cache_bytes"]) for point in points] == [
        (rate, cache) for rate in (10e6, 20e6) for cache in (0, 1 << 30, 2 << 30)
    ]
    for before, after in zip(points, points[3:], strict=False):
        assert after["average_jct_s"] <= before["average_jct_s"], "a faster store"
        assert after["cost_a_month"] - before["cost_a_month"] == pytest.approx(500 * 0.01)
    jct_s = [point["average_jct_s"] for point in points[:3]]
    assert jct_s[0] > max(jct_s[1:])
    assert points[2]["cost_a_month"] - points[0]["cost_a_month"] == pytest.approx(100 * (2 << 30) / 1e12)


@pytest.mark.slow
def test_the_plot(scenario: str, tmp_path: Path) -> None:
    """In a process of its own: matplotlib keeps its fonts open."""
    plot = tmp_path / "plan.png"
    command = [sys.executable, "-m", "tfquiver.cli.main", "plan", scenario, "--cache", "1GiB", "--plot", str(plot)]
    subprocess.run(command, check=True, timeout=60)
    assert plot.read_bytes().startswith(b"\x89PNG")


def test_what_leaves_the_store_is_paid_by_the_month(scenario: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", scenario, "--cache", "2GiB", "--store_price", "20", "--json"]) == 0
    point = json.loads(capsys.readouterr().out)["points"][0]
    paid = 20 * point["store_bytes"] / 1e12 * 30 * 86400 / point["makespan_s"]
    assert point["cost_a_month"] == pytest.approx(paid)


@pytest.mark.slow
def test_the_table(scenario: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    assert main(["plan", scenario]) == 0
    table = capsys.readouterr().out
    assert "a month" not in table, "nobody said what anything costs"
    assert "probes" not in table, "nobody is probed where policies see all"
    assert "268 MB" in table and "4.3 GB" in table
    assert main(["plan", scenario, "--cache", "1GiB", "--store_price", "20"]) == 0
    table = capsys.readouterr().out
    assert "a month" in table and max(map(len, table.splitlines())) <= 80
    assert main(["plan", scenario, "--cache", "100MB", "--cache_price", "80"]) == 0
    assert " 0.008\n" in capsys.readouterr().out, "not 0"


def test_what_no_cache_saves_is_said(scenario: str, capsys: pytest.CaptureFixture[str]) -> None:
    """A cache that holds everything is empty when the jobs begin."""
    assert main(["plan", scenario, "--cache", "4GiB"]) == 0
    text = " ".join(capsys.readouterr().out.split())
    assert "first reads: the cache is empty when the jobs begin" in text and "once, 2.1 GB in all" in text
    assert main(["plan", scenario, "--cache", "4GiB", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["first_read_bytes"] == 2 << 30 <= told["points"][0]["store_bytes"]


@pytest.mark.slow
def test_what_probes_read_is_told_apart(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of very small data sets nothing else is above the first reads, and a larger cache saves nothing."""
    monkeypatch.setenv("COLUMNS", "80")
    path = tmp_path / "small.json"
    jobs = [{"name": name, "dataset": "few", "reads_per_s": "50KB", "epochs": 100} for name in "ab"]
    trace = {"datasets": {"few": "3MB"}, "jobs": jobs}
    cluster = {"accelerators": 2, "cache": "8MB", "store_per_s": "100KB"}
    path.write_text(json.dumps({"cluster": cluster, "sees": "measured", "replan_s": 10, "trace": trace}))
    assert main(["plan", str(path), "--cache", "8MB", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    largest = told["points"][-1]
    assert largest["probe_bytes"] > 0
    assert largest["store_bytes"] - largest["probe_bytes"] == pytest.approx(told["first_read_bytes"], rel=0.01)
    assert main(["plan", str(path), "--cache", "8MB", "--store_price", "20"]) == 0
    text = capsys.readouterr().out
    assert "probes" in text.splitlines()[1] and max(map(len, text.splitlines())) <= 80
    assert "above that can be saved, but for what a cache of any size takes to probe." in " ".join(text.split())


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (["--cache", "much"], "--cache: not a size"),
        (["--store", "0"], "--store: '0'"),
        (["--policy", "best"], "policy: 'best' is none of"),
        (["--plot", "/no/such/place.png"], "--plot=/no/such/place.png: there is no directory /no/such"),
    ],
)
def test_what_cannot_be_is_named(
    flags: list[str], said: str, scenario: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["plan", scenario, *flags]) == 1
    assert said in capsys.readouterr().err


@pytest.mark.parametrize("price", ["-1", "nan", "dear"])
def test_prices_are_numbers_from_0(price: str, scenario: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["plan", scenario, "--cache_price", price])
    assert "is no price from 0" in capsys.readouterr().err
