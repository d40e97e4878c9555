"""What the demo needs is looked for before it starts anything."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import pytest

from tfquiver import errors
from tfquiver.cli.main import main
from tfquiver.demo import needs


def test_what_is_missing_is_named_with_the_command_that_brings_it() -> None:
    needs.check(lambda module: True)
    with pytest.raises(errors.NotFoundError, match=r"needs mlxtend: pip install '\.\[demo\]' in a clone"):
        needs.check(lambda module: module != "mlxtend")
    everything = r"google-cloud-storage and gcp-storage-emulator and mlxtend and tensorflow: .*\[demo,tensorflow\]"
    with pytest.raises(errors.NotFoundError, match=everything):
        needs.check(lambda module: False)
    assert needs.is_here("json.decoder") and not needs.is_here("no_such_package.of.mine")


def test_it_is_told_at_once(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """After four seconds one of its processes said so."""
    monkeypatch.setitem(sys.modules, "mlxtend", None)
    assert main(["demo"]) == 1
    assert "mlxtend: pip install '.[demo" in capsys.readouterr().err


def test_where_nothing_can_be_written_that_is_said(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """In a container whose root is read-only it was a traceback; on a disk that was full, that of one of its processes
    half a minute later."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(needs, "check", lambda: None)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "away"))
    assert main(["demo"]) == 1
    said = "tfquiver: the demo needs a place for its files: No such file or directory: name another directory in TMPDIR"
    assert capsys.readouterr().err.splitlines()[-1] == said
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    assert needs.place(1) == tmp_path
    with pytest.raises(
        errors.ResourceExhaustedError, match=rf"the demo takes 1\.2 EB of {tmp_path}, where .* are free"
    ):
        needs.place(1 << 60)
