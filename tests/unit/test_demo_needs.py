"""What the demo needs is looked for before it starts anything."""

from __future__ import annotations

import sys

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
