"""What a cache directory holds while no node runs in it: counted, and deleted, of a million entries in seconds."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from tests.support.python_calls import python_calls
from tfquiver.cli.main import main
from tfquiver.cli.status_asked_watched_explained import cold
from tfquiver.cli.up_stop_logs_clear import clearing
from tfquiver.cli.up_stop_logs_clear.clearing import Cleared

ENTRIES = 300


def filled(root: Path) -> list[Path]:
    """Also with what is no entry."""
    paths = []
    for number in range(ENTRIES):
        name = hashlib.sha256(bytes([number % 256, number // 256])).hexdigest()
        paths.append(root / "objects" / name[:2] / name[2:4] / name)
        paths[-1].parent.mkdir(parents=True, exist_ok=True)
        paths[-1].write_bytes(b"12345")
    (paths[0].parent / "notes.txt").write_text("a stranger's")
    (root / "objects" / "README").write_text("a stranger's")
    elsewhere = root / "elsewhere" / "cd"
    elsewhere.mkdir(parents=True)
    (elsewhere / ("e" * 64)).write_text("behind a link")
    (root / "objects" / "zz").symlink_to(elsewhere.parent)
    return paths


def test_entries_are_counted_and_deleted_and_nothing_else(tmp_path: Path) -> None:
    paths = filled(tmp_path)
    held = cold.collect(str(tmp_path))
    on_disk = 4096 * ENTRIES  # in whole pages, as a node counts them
    assert (held["entries"], held["used_bytes"]) == (ENTRIES, on_disk)
    assert clearing.clear(tmp_path) == Cleared(ENTRIES, on_disk)
    assert not any(path.exists() for path in paths)
    assert (paths[0].parent / "notes.txt").exists() and (tmp_path / "elsewhere" / "cd" / ("e" * 64)).exists()
    assert clearing.clear(tmp_path) == Cleared()


def test_what_cannot_be_deleted_keeps_nothing_else(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The others stayed, and it was not said how many went."""
    stays, *others = filled(tmp_path)
    stays.unlink()
    stays.mkdir()
    assert main(["clear", str(tmp_path)]) == 1
    went, left = capsys.readouterr().out.splitlines()
    assert went == f"{tmp_path}: {ENTRIES - 1} shards deleted, 1.2 MB of the disk"
    assert left.startswith(f"  1 shard stays: {stays}: ")
    assert not any(path.exists() for path in others)


def test_an_entry_costs_a_few_calls(tmp_path: Path) -> None:
    """A path of each took 25 us to be counted, and as long again to be deleted."""
    filled(tmp_path)
    directories = sum(1 for _ in (tmp_path / "objects").glob("??/??")) + sum(1 for _ in tmp_path.glob("objects/??"))
    assert python_calls(lambda: list(cold.entries_in(tmp_path))) < 10 * (ENTRIES + directories)
