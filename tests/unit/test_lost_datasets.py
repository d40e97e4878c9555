"""Which files of a dispatcher's data sets its disk has not taken; each is told of once."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tfquiver.clock import ManualClock
from tfquiver.scanning import tfrecord
from tfquiver.service.dispatcher import lost_datasets
from tfquiver.service.dispatcher.lost_datasets import LostDatasets

WHOLE = tfrecord.frame(b"graph")


@pytest.fixture
def datasets(tmp_path: Path) -> Path:
    (tmp_path / "datasets").mkdir()
    return tmp_path / "datasets"


@pytest.mark.parametrize("taken", [b"", WHOLE[:5], WHOLE[:-1]])
def test_what_is_cut_off_is_told_of_once_when_it_is_so_for_two_looks(tmp_path: Path, taken: bytes) -> None:
    lost = LostDatasets(tmp_path)
    assert lost.begin() == lost.look() == [], "no trainer has come yet"
    (tmp_path / "datasets").mkdir()
    (tmp_path / "datasets" / "1000").write_bytes(WHOLE)
    (tmp_path / "datasets" / "1001").write_bytes(taken)
    (tmp_path / "datasets" / "1002").write_bytes(taken)
    assert lost.look() == [], "they may be being written"
    (tmp_path / "datasets" / "1002").write_bytes(WHOLE)
    assert [lost.look() for _ in range(3)] == [["1001"], [], []]


def test_what_is_still_being_written_is_told_to_be_slow_once_and_lost_when_it_ends_so(
    tmp_path: Path, datasets: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """It was an error, that the disk is full; nothing was said of it when it failed."""
    clock = ManualClock()
    lost = LostDatasets(tmp_path, clock)
    with (datasets / "1000").open("wb", buffering=0) as slow, (datasets / "1001").open("wb", buffering=0) as fails:
        slow.write(WHOLE[:5])
        fails.write(WHOLE[:5])
        for _ in range(3):
            assert lost.look() == []
            clock.advance(2)
        slow.write(WHOLE[5:])
    assert [(one.levelname, one.getMessage()) for one in caplog.records] == [(
        "WARNING",
        f"{tmp_path}: the disk is slow, or hangs: it has not taken 2 data sets (1000, 1001) within 2 s; who "
        "distributes one waits for that",
    )]  # fmt: skip
    assert [lost.look() for _ in range(2)] == [["1001"], []]


def test_what_was_whole_and_closed_between_two_steps_of_a_look_is_not_lost(
    tmp_path: Path, datasets: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A disk that answers again holds up the look, too, and the writer goes on meanwhile."""

    class OpenFiles:
        """Of a writer that ends just before they are asked for."""

        def iterdir(self) -> Iterator[Path]:
            (datasets / "1000").write_bytes(WHOLE)
            return iter(())

    (datasets / "1000").write_bytes(WHOLE[:5])
    lost = LostDatasets(tmp_path)
    assert lost.look() == []
    monkeypatch.setattr(lost_datasets, "_OPEN_FILES", OpenFiles())
    assert [lost.look() for _ in range(2)] == [[], []]
    assert not caplog.records


@pytest.mark.parametrize(("lacks_bytes", "what"), [
    (1 << 60, "trainers (1000): make room there; who distributes one is told so"),
    (100, " are free there now: it was full then, has a quota, or fails (the kernel's log, `dmesg`, says so); who "),
])  # fmt: skip
def test_a_disk_is_called_full_only_where_it_is(
    tmp_path: Path, datasets: Path, caplog: pytest.LogCaptureFixture, lacks_bytes: int, what: str
) -> None:
    lost = LostDatasets(tmp_path)
    (datasets / "1000").write_bytes(lacks_bytes.to_bytes(8, "little") + bytes(4))
    assert [lost.look() for _ in range(2)] == [[], ["1000"]]
    (said,) = caplog.records
    assert said.levelname == "ERROR" and what in said.getMessage()


def test_what_an_earlier_dispatcher_has_lost_is_no_error_of_this_one(
    tmp_path: Path, datasets: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """It was told again at each start, as if a trainer had just come."""
    caplog.set_level("INFO", "absl")
    for name in ("1000", "1001", "1002", "1003"):
        (datasets / name).write_bytes(WHOLE[:-1])
    lost = LostDatasets(tmp_path)
    assert lost.begin() == ["1000", "1001", "1002", "1003"]
    (datasets / "1004").write_bytes(WHOLE[:-1])
    assert [lost.look() for _ in range(3)] == [[], ["1004"], []]
    assert [one.levelname for one in caplog.records] == ["INFO", "ERROR"]
    assert caplog.messages[0] == (
        f"{datasets}: of an earlier run, whose disk did not take 4 data sets (1000, 1001, 1002, ...): nobody can read "
        "from what is there, and nothing needs it; the files may be deleted"
    )
