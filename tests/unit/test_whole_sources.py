"""What `tfquiver dataset create` keeps of a source that is named from where somebody stands."""

from __future__ import annotations

from pathlib import Path

import pytest

from tfquiver.cli.dataset_commands.commands import whole_source


def test_two_spellings_of_a_source_are_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    monkeypatch.setenv("HOME", str(tmp_path))
    for spelled in ("../x", f"{tmp_path}/x", f"{tmp_path}/here/../x", "~/x", "./..//x", "../nothing/../x"):
        assert whole_source(spelled) == f"{tmp_path}/x"
        assert whole_source(f"{spelled}/*.tfrecord") == f"{tmp_path}/x/*.tfrecord"
        assert whole_source(f"{spelled}/") == f"{tmp_path}/x/", "all beneath it"


def test_a_uri_stays_one(tmp_path: Path) -> None:
    assert whole_source("gs://bucket/a/../b") == "gs://bucket/a/../b", "a name like any other there"
    assert whole_source(f"file://{tmp_path}/a/../x/") == f"file://{tmp_path}/x/"
    assert whole_source("file://x") == "file://x", "for the coordinator to refuse"
