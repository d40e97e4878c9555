"""What the demo shows at its end: as wide as a terminal, in letters that it has, and a picture."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest
from rich.console import Console

from tfquiver import errors
from tfquiver.charts_as_png import png
from tfquiver.demo import picture, report, run
from tfquiver.demo.report import DemoResult, RoundResult, TrialResult
from tfquiver.testing.throttled_store import Traffic

DATA_BYTES, RECORDS = 3_000_000, 100


def round_of(way: str, wall_s: float, times_the_data: int) -> RoundResult:
    trials = [
        TrialResult(f"trial-{n}", 0.001, [RECORDS] * 2, [RECORDS] * 2, [wall_s / 2, wall_s], 0.9) for n in (1, 2, 3)
    ]
    left = times_the_data * DATA_BYTES
    timeline = [(wall_s * part / 10, left * part // 10) for part in range(10)] + [(wall_s + 1, left)]
    return RoundResult(way, trials, wall_s, Traffic(requests=50, header_bytes=200_000, payload_bytes=left), timeline)


def result(cached_s: float = 10.0) -> DemoResult:
    return DemoResult(RECORDS, DATA_BYTES, 2, 500_000.0, [round_of("cached", cached_s, 1), round_of("direct", 40.0, 6)])


def printed(what: object, encoding: str = "utf-8") -> list[str]:
    out = io.TextIOWrapper(io.BytesIO(), encoding=encoding)
    console = Console(file=out, width=80)
    console.print(report.bars(result(), console.options.ascii_only) if what == "bars" else what)
    out.seek(0)
    return out.read().splitlines()


def test_bars_are_as_long_as_what_they_stand_for() -> None:
    heads, cached, direct = printed("bars")
    assert "left the store" in heads and "time" in heads
    assert cached.count("█") == 4 + 6 and direct.count("█") == 24 + 24
    assert "3.00 MB" in cached and "18.00 MB" in direct and "10.0 s" in cached
    assert max(map(len, printed(report.table(result())))) <= 80


def test_the_bytes_of_the_table_are_those_of_the_bars_and_of_the_shares_beside_them() -> None:
    """Headers of replies were in one of three: 3.20 MB of data of 3.00 MB were 1.00 x them."""
    rows = [line.split() for line in printed(report.table(result())) if " all " in line]
    assert [row[4:6] for row in rows] == [["3.00", "1.00"], ["18.00", "6.00"]]


def test_a_terminal_without_blocks_gets_hashes() -> None:
    assert printed("bars", "ascii")[1].count("#") == 10


def test_the_verdict_is_what_was_measured_also_when_it_is_bad() -> None:
    assert report.verdict(result()) == "with tfquiver 6.0 x fewer bytes left the store, and it took 1/4.0 of the time"
    assert "2.0 x the time" in report.verdict(result(cached_s=80.0))


def test_figures_that_cannot_be_written_are_named_when_they_have_been_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They were lost, with a traceback, after a minute."""
    monkeypatch.setattr(png, "can_draw", lambda: False)
    out, at = io.StringIO(), tmp_path / "missing" / "figures.json"
    with pytest.raises(errors.NotFoundError, match=f"--json={at}"):
        run.told(result(), Console(file=out, width=80), tmp_path / "p.png", at)
    assert report.verdict(result()) in out.getvalue()
    assert run.told(result(), Console(file=out), tmp_path / "p.png", tmp_path / "figures.json") == 0
    assert json.loads((tmp_path / "figures.json").read_text())["epochs"] == 2


@pytest.fixture(scope="module")  # matplotlib keeps the fonts open that it has once used
def drawn(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("matplotlib")
    path = tmp_path_factory.mktemp("drawn") / "p.png"
    picture.draw(result(), path)
    return path


@pytest.mark.slow
def test_the_picture_is_written_or_the_place_is_named(drawn: Path, tmp_path: Path) -> None:
    assert drawn.read_bytes().startswith(b"\x89PNG")
    with pytest.raises(errors.NotFoundError, match="missing"):
        picture.draw(result(), tmp_path / "missing" / "p.png")
